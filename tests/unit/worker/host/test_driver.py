"""How a worker logs what Spark prints."""

import json
import logging

import pytest

from fencepost.telemetry.logs import configure_logs
from fencepost.worker.host.driver import print_line


@pytest.mark.parametrize(
    ("line", "logged"),
    [
        (
            '{"time":"2026-11-26T00:31:07.214Z","level":"ERROR","logger":"fencepost.task.sink.loop","event":"a\\nb"}',
            ("fencepost.task.sink.loop", logging.ERROR, "a\nb"),
        ),
        (
            "26/11/26 00:31:07 ERROR Executor: Exception in task 0.0",  # the JVM's: of every job that ends
            ("fencepost.worker", logging.INFO, "spark: 26/11/26 00:31:07 ERROR Executor: Exception in task 0.0"),
        ),
        ("ValueError: no", ("fencepost.worker", logging.INFO, "spark: ValueError: no")),
    ],
)
def test_log_events_of_slots_keep_their_logger_level_and_message(
    line: str, logged: tuple[str, int, str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        print_line(line)
    assert [(each.name, each.levelno, each.getMessage()) for each in caplog.records] == [logged]


def test_lines_printed_by_spark_before_logging_is_set_up_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    print_line("Unrecognized option: -nonsense")
    assert capsys.readouterr().err == "spark: Unrecognized option: -nonsense\n"


def test_first_line_is_json_when_logs_are_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FENCEPOST_LOG_FORMAT", "json")
    monkeypatch.setattr(logging.root, "handlers", [])
    line = 'Unrecognized option: "-nonsense" http://me:hunter22@host'
    print_line(line)
    configure_logs()
    print_line(line)
    first, later = (json.loads(each) for each in capsys.readouterr().err.splitlines())
    assert first["event"] == 'spark: Unrecognized option: "-nonsense" http://me:[hidden]@host'
    assert len(first.pop("timestamp")) == len(later.pop("timestamp"))
    assert first == later
