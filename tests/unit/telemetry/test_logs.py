"""What a log of a worker is spared."""

import logging

from fencepost.telemetry.logs import Repeats

REFUSED = (
    "FAIL [rdkafka#consumer-7] [thrd:b:1]: b:1: Connect to ipv4#b:1 failed: Connection refused (after {}ms in CONNECT)"
)


def record(name: str, text: str) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, "", 0, text, (), None)


def test_a_client_that_repeats_itself_is_heard_every_ten_seconds() -> None:
    now = 100.0
    repeats = Repeats(lambda: now)
    told = []
    for tick in range(250):
        now = 100.0 + tick / 10
        told.append(repeats.filter(record("fencepost.kafka.read.log.librdkafka", REFUSED.format(tick))))
    assert [tick for tick, is_told in enumerate(told) if is_told] == [0, 100, 200]


def test_other_lines_and_other_loggers_are_not_held_back() -> None:
    repeats = Repeats(lambda: 1.0)
    lines = [
        record("fencepost.kafka.read.log.librdkafka", REFUSED.format(1)),
        record("fencepost.kafka.read.log.librdkafka", REFUSED.format(1).replace("b:1", "b:2")),
        record("kafka.net.manager", "Connection failed: 111"),
        *[record("fencepost.worker.supervision.task.supervisor", "task a-0 starts here")] * 2,
    ]
    assert all(repeats.filter(each) for each in lines)
    assert not repeats.filter(record("kafka.net.manager", "Connection failed: 111 (backoff 0.09 secs)"))
