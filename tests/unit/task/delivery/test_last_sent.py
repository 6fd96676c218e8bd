"""Which records a mirror's task is given when it adds offset syncs."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from fencepost.api import SourceRecord
from fencepost.hook.mirror import MirrorTask, Sent
from fencepost.record import Batch, Runs
from fencepost.task.delivery.finish import LastSent
from fencepost.task.delivery.outgoing import OutgoingColumns


class Task(MirrorTask):
    def __init__(self) -> None:
        self.given: list[list[int]] = []

    def delivered(self, sent: Sequence[Sent]) -> Sequence[SourceRecord]:
        self.given.append([each.metadata.offset for each in sent])
        return ()

    closing = delivered

    start = poll = stop = lambda self: None  # type: ignore[assignment]


class Log:
    """Of one partition, with the offsets of records that were sent but perhaps not delivered."""

    def __init__(self) -> None:
        self.task = Task()
        self.last_sent = LastSent(self.task)
        self._end = 0
        self._undelivered: list[Any] = []

    def send(self, count: int) -> None:
        offsets = range(self._end, self._end + count)
        self._end += count
        batch = Batch(["t"] * count, [b""] * count, [{}] * count, [{"offset": offset} for offset in offsets])
        runs = Runs(["t"], [count]), Runs([0], [count])
        outgoing = OutgoingColumns(runs[0], [b""] * count, partitions=runs[1])
        for index, callback in self.last_sent.callbacks_for(batch, outgoing).items():
            self._undelivered.append((callback, offsets[index]))

    def deliver(self, count: int = 1_000) -> None:
        for callback, offset in self._undelivered[:count]:
            place = {"topic": lambda: "t", "partition": lambda: 0, "timestamp": lambda: (1, 0)}
            callback(None, SimpleNamespace(**place, offset=lambda at=offset: at))
        del self._undelivered[:count]


def test_first_record_of_a_partition_is_given_before_its_last_record() -> None:
    log = Log()
    log.send(10)
    log.send(10)
    log.deliver()
    log.last_sent.closing()
    log.last_sent = log.last_sent.successor()
    log.send(5)
    log.deliver()
    log.last_sent.closing()
    assert log.task.given == [[0, 19], [24]]


def test_delivered_records_are_given_once_while_later_ones_are_in_flight() -> None:
    log = Log()
    log.send(10)
    log.last_sent.delivered()
    log.deliver(2)
    log.send(10)
    log.last_sent.delivered()
    log.last_sent.delivered()
    log.deliver()
    log.last_sent.delivered()
    assert log.task.given == [[0, 9], [19]]


def test_first_record_is_given_even_if_it_was_sent_alone() -> None:
    log = Log()
    log.send(1)
    log.send(10)
    log.deliver()
    log.last_sent.closing()
    assert log.task.given == [[0, 10]]


def test_only_record_of_a_partition_is_given_once() -> None:
    log = Log()
    log.send(1)
    log.deliver()
    log.last_sent.delivered()
    log.last_sent.delivered()
    log.last_sent = log.last_sent.successor()
    log.send(1)
    log.deliver()
    log.last_sent.closing()
    assert log.task.given == [[0], [1]]
    other = Log()
    other.send(1)
    other.deliver()
    other.last_sent.closing()
    assert other.task.given == [[0]]
