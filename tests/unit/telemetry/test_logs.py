"""What a log of a worker is spared, and what its lines do not show."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.rest.access.access_log import log_change
from fencepost.telemetry.logs import Repeats, configure_logs
from fencepost.telemetry.plain_line import announce

REFUSED = (
    "FAIL [rdkafka#consumer-7] [thrd:b:1]: b:1: Connect to ipv4#b:1 failed: Connection refused (after {}ms in CONNECT)"
)


def record(name: str, text: str) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, "", 0, text, (), None)


def test_repeated_client_line_is_logged_every_ten_seconds() -> None:
    now = 100.0
    repeats = Repeats(lambda: now)
    told = []
    for tick in range(250):
        now = 100.0 + tick / 10
        told.append(repeats.filter(record("fencepost.kafka.read.log.librdkafka", REFUSED.format(tick))))
    assert [tick for tick, is_told in enumerate(told) if is_told] == [0, 100, 200]


def test_different_lines_and_loggers_are_not_suppressed() -> None:
    repeats = Repeats(lambda: 1.0)
    lines = [
        record("fencepost.kafka.read.log.librdkafka", REFUSED.format(1)),
        record("fencepost.kafka.read.log.librdkafka", REFUSED.format(1).replace("b:1", "b:2")),
        record("kafka.net.manager", "Connection failed: 111"),
        *[record("fencepost.worker.supervision.task.supervisor", "task a-0 starts here")] * 2,
    ]
    assert all(repeats.filter(each) for each in lines)
    assert not repeats.filter(record("kafka.net.manager", "Connection failed: 111 (backoff 0.09 secs)"))


def test_json_log_line_hides_unregistered_passwords_and_stays_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FENCEPOST_LOG_FORMAT", "json")
    monkeypatch.setattr(logging.root, "handlers", [])
    configure_logs()
    extra = {"connector": "me@host", "task": 1}
    text = 'no X required password="p\\"hunter22";'
    try:
        raise OSError(text)
    except OSError:
        logging.getLogger("test").exception("http://me:hunt@er22@host", extra=extra)
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["event"], line["connector"], line["task"]) == ("http://me:[hidden]@host", "me@host", 1)
    assert 'password="[hidden]"' in line["exception"]
    assert "hunter22" not in line["exception"]


def test_control_characters_are_escaped_in_lines_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    try:
        logging.getLogger("other").warning("a name %s", "\x1b[2Jx\x07", extra={"connector": "c\x1b]0;t"})
        try:
            raise ValueError("\x1b[31m")
        except ValueError:
            logging.getLogger("other").exception("it failed")
    finally:
        logging.getLogger().handlers.clear()
    written = capsys.readouterr().err
    assert "\x1b" not in written
    assert "\x07" not in written
    assert "a name \\x1b[2Jx\\x07" in written
    assert "ValueError: \\x1b[31m" in written


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Callable[[], None]], Any]:
    """Return a function that returns the line of JSON that another one logs."""

    def line_of(log: Callable[[], None]) -> Any:
        monkeypatch.setenv("FENCEPOST_LOG_FORMAT", "json")
        monkeypatch.setattr(logging.root, "handlers", [])
        configure_logs()
        log()
        return json.loads(capsys.readouterr().err)

    return line_of


def test_request_is_logged_as_fields_in_json(logged: Callable[[Callable[[], None]], Any]) -> None:
    scope = {"type": "http", "method": "PUT", "path": "/connectors/a b/config", "client": ("10.0.0.7", 1)}
    line = logged(lambda: log_change(scope, "an operator", 403))
    del line["timestamp"]
    assert line == {
        "event": "request",
        "level": "info",
        "logger": "fencepost.rest.audit",
        "user": "an operator",
        "address": "10.0.0.7",
        "method": "PUT",
        "path": "/connectors/a b/config",
        "status": 403,
    }


def test_a_trace_in_a_message_is_a_field_of_its_own_in_json(logged: Callable[[Callable[[], None]], Any]) -> None:
    trace = "Traceback (most recent call last):\n  x\nOSError: gone"
    line = logged(lambda: logging.getLogger("test").error("task 0: failed: %s", trace))
    assert line["event"] == "task 0: failed"
    assert line["exception"].endswith("OSError: gone")


def test_worker_address_is_announced_as_json_when_the_log_is_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FENCEPOST_LOG_FORMAT", raising=False)
    announce("REST", "http://h:1/", "(UI: /ui)")
    assert capsys.readouterr().out == "REST       http://h:1/   (UI: /ui)\n"
    monkeypatch.setenv("FENCEPOST_LOG_FORMAT", "json")
    announce("REST", "http://h:1/", "(UI: /ui)")
    shown = capsys.readouterr()
    assert (shown.out, json.loads(shown.err)["event"]) == ("", "REST: http://h:1/ (UI: /ui)")
