"""The log of a slot, as the worker that reads its lines logs it."""

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from fencepost.secret.known import hold
from fencepost.telemetry import logs
from fencepost.telemetry.loggers import about, fields_of
from fencepost.telemetry.slot_log import SlotFormatter, log_again, write_slot_log


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], list[str]]]:
    """Reads the lines on stderr; the root logger's handlers and level are put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield lambda: capsys.readouterr().err.splitlines()
    root.handlers[:], root.level = handlers, level


def line_of(record: logging.LogRecord) -> str:
    return SlotFormatter().format(record)


def raised() -> logging.LogRecord:
    try:
        raise ValueError("no such table: \ud800 'a'\nand more")
    except ValueError:
        return logging.LogRecord("fencepost.x", logging.ERROR, "", 0, "task %s failed", ("c-0",), sys.exc_info())


def test_event_with_its_trace_is_a_single_line_and_record(caplog: pytest.LogCaptureFixture) -> None:
    line = line_of(raised())
    assert "\n" not in line
    with caplog.at_level(logging.INFO):
        assert log_again(line)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("fencepost.x", logging.ERROR)
    assert record.getMessage().startswith("task c-0 failed\nTraceback (most recent call last)")
    assert record.getMessage().endswith("no such table: ? 'a'\nand more")


@pytest.mark.parametrize(
    "line",
    [
        "26/11/26 00:31:07 ERROR Executor: Exception in task 0.0",
        "",
        "ValueError: no such table",
        '{"time": 1}',
        '{"time":',
        '{"time":"","level":"LOUD","logger":"a","event":"b"}',
        '{"time":"","level":[],"logger":"a","event":"b"}',
        '{"time":"","level":"INFO","logger":7,"event":"b"}',
    ],
)
def test_other_lines_are_not_events(line: str, caplog: pytest.LogCaptureFixture) -> None:
    assert not log_again(line)
    assert not caplog.records


def test_only_lines_of_a_task_have_its_fields(written: Callable[[], list[str]]) -> None:
    write_slot_log("INFO")
    log = logging.getLogger("fencepost.test")
    with about("orders", 3):
        log.warning("from %s", "inside")
        beside = threading.Thread(target=log.warning, args=("from another thread",))
        beside.start()
        beside.join()
        log.warning("of another", extra=fields_of("prices"))
    log.warning("from outside")
    events = [json.loads(line) for line in written()]
    assert [(e["event"], e.get("connector"), e.get("task")) for e in events] == [
        ("from inside", "orders", 3),
        ("from another thread", None, None),
        ("of another", "prices", None),
        ("from outside", None, None),
    ]
    assert events[0] | {"time": ""} == {
        "time": "",
        "level": "WARNING",
        "logger": "fencepost.test",
        "event": "from inside",
        "connector": "orders",
        "task": 3,
    }


def test_a_slot_writes_no_secret(written: Callable[[], list[str]]) -> None:
    write_slot_log("INFO")
    release = hold(["correct horse"])
    logging.getLogger("fencepost.test").warning("it is %s", "correct horse")
    release()
    assert [json.loads(line)["event"] for line in written()] == ["it is [hidden]"]


def test_level_of_the_worker_applies_to_lines_of_its_slots(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="fencepost.x"):
        assert log_again(line_of(raised()).replace("ERROR", "WARNING"))
    assert not caplog.records


def test_a_worker_that_writes_json_has_the_fields_of_a_slots_event(
    written: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_LOG_FORMAT", "json")
    record = raised()
    record.connector, record.task = "orders", 0
    monkeypatch.setattr(logs, "log_what_nobody_catches", lambda: None)
    monkeypatch.setattr(logs, "quiet_libraries", lambda: None)
    logs.configure_logs("INFO")
    release = hold(["no such table"])
    assert log_again(line_of(record))
    release()
    (line,) = written()
    event = json.loads(line)
    assert (event["connector"], event["task"], event["level"], event["logger"]) == ("orders", 0, "error", "fencepost.x")
    assert "Traceback" in event["exception"]
    assert "no such table" not in line
