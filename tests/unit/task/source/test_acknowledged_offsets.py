"""Offsets that are committed at least once: what waits for which acknowledgement, and who is told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fencepost.api import RecordMetadata, SourceRecord, SourceTask
from fencepost.record import Batch, partition_key
from fencepost.task.channel.task_spec import OutputSpec, TaskSpec
from fencepost.task.delivery.delivery import Delivery, offset_records
from fencepost.task.delivery.outgoing import Outgoing, OutgoingColumns
from fencepost.task.source.offsets import AcknowledgedOffsets, OffsetBook, OffsetQueue

A, B, C = {"f": "a"}, {"f": "b"}, {"f": "c"}
PLACE = RecordMetadata("t", 0, 0, None)


def batch(*records: tuple[Mapping[str, Any], int | None]) -> Batch:
    [packed] = Batch.of_records([SourceRecord(p, None if n is None else {"n": n}, "t", "v") for p, n in records])
    return packed


def outgoing(count: int, sources: list[int] | None = None) -> OutgoingColumns:
    return OutgoingColumns(["t"] * count, [b"v"] * count, sources=sources)


def ready(queue: OffsetQueue) -> dict[str, Any]:
    return {dict(key)["f"]: None if offset is None else offset["n"] for key, offset in queue.ready().items()}


def test_offset_is_ready_once_all_earlier_records_are_acknowledged() -> None:
    queue = OffsetQueue()
    acknowledged = queue.sent(batch((A, 1), (A, 2), (A, 3)), outgoing(3))
    acknowledged(1, PLACE)
    assert ready(queue) == {}
    acknowledged(0, PLACE)
    assert ready(queue) == {"a": 2}
    assert ready(queue) == {}
    acknowledged(2, PLACE)
    assert ready(queue) == {"a": 3}


def test_source_partitions_do_not_wait_for_each_other() -> None:
    queue = OffsetQueue()
    acknowledged = queue.sent(batch((A, 1), (B, 1)), outgoing(2))
    acknowledged(1, PLACE)
    assert ready(queue) == {"b": 1}


def test_filtered_and_dropped_records_wait_only_for_earlier_records() -> None:
    queue = OffsetQueue()
    acknowledged = queue.sent(batch((A, 1), (A, 2), (B, 1)), outgoing(1, sources=[0]))
    assert ready(queue) == {"b": 1}
    acknowledged(0, PLACE)
    assert ready(queue) == {"a": 2}


def test_updated_offset_waits_for_unacknowledged_records_of_its_partition() -> None:
    queue = OffsetQueue()
    acknowledged = queue.sent(batch((A, 1)), outgoing(1))
    queue.updated({partition_key(A): {"n": 9}, partition_key(B): {"n": 9}, partition_key(C): None})
    later = queue.sent(batch((A, 10)), outgoing(1))
    assert ready(queue) == {"b": 9, "c": None}
    acknowledged(0, PLACE)
    assert ready(queue) == {"a": 9}
    later(0, PLACE)
    assert ready(queue) == {"a": 10}


def test_end_position_of_a_batch_waits_for_its_records() -> None:
    queue = OffsetQueue()
    acknowledged = queue.sent(replace(batch((A, 1)), ends=[(A, {"n": 7}), (B, {"n": 3})]), outgoing(1))
    assert ready(queue) == {"b": 3}
    acknowledged(0, PLACE)
    assert ready(queue) == {"a": 7}


def test_record_without_an_offset_holds_back_later_offsets() -> None:
    queue = OffsetQueue()
    acknowledged = queue.sent(batch((A, None)), outgoing(1))
    queue.updated({partition_key(A): {"n": 9}})
    assert ready(queue) == {}
    acknowledged(0, PLACE)
    assert ready(queue) == {"a": 9}


def test_waiting_updates_do_not_pile_up() -> None:
    queue = OffsetQueue()
    acknowledged = queue.sent(batch((A, 1)), outgoing(1))
    for n in range(100):
        queue.updated({partition_key(A): {"n": n}})
        queue.sent(batch((A, None)), outgoing(0, sources=[]))
    assert queue.size == 2
    acknowledged(0, PLACE)
    assert ready(queue) == {"a": 99}
    assert queue.size == 0


class Stuck(Delivery):
    """Acknowledges whatever does not go to the topic `stuck`, when it is flushed."""

    def __init__(self) -> None:
        self.is_stuck = True
        self.written: list[tuple[bytes | None, bytes | None]] = []
        self._waiting: list[tuple[str, Callable[[], None]]] = []

    @property
    def is_open(self) -> bool:
        return bool(self._waiting)

    def send(self, outgoing: Outgoing, on_delivered: Callable[[int, RecordMetadata], None] | None = None) -> None:
        assert on_delivered is not None
        assert isinstance(outgoing, OutgoingColumns)
        for index, topic in enumerate(outgoing.topics):
            if topic == "offsets":
                self.written.append(((outgoing.keys or [])[index], outgoing.values[index]))
            self._waiting.append((topic, lambda at=index: on_delivered(at, PLACE)))  # type: ignore[misc]

    def commit(self, offsets: Sequence[tuple[bytes, bytes | None]], closing: Any = None) -> bool:
        assert not offsets
        waiting, self._waiting = self._waiting, []
        for topic, acknowledge in waiting:
            if topic == "stuck" and self.is_stuck:
                self._waiting.append((topic, acknowledge))
            else:
                acknowledge()
        if self._waiting:
            return False
        self._record_commit()
        return True

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Updating(SourceTask):
    def __init__(self, update: Any) -> None:
        self.update = update
        self.given: list[dict[Any, Any]] = []

    def poll(self) -> None: ...

    def update_offsets(self, offsets: Mapping[Any, Any]) -> Any:
        self.given.append({dict(k)["f"]: o["n"] for k, o in offsets.items() if o})
        return self.update


def test_slow_topic_holds_up_only_its_own_source_partitions() -> None:
    """KIP-910: only partitions with acknowledged records are committable; what is updated counts as acknowledged."""
    spec = TaskSpec("c", 0, 1, "i", {}, {}, output=OutputSpec({}, "offsets"))
    book, delivery = OffsetBook(), Stuck()
    task = Updating({partition_key(A): {"n": 5}, partition_key(C): {"n": 6}})
    offsets = AcknowledgedOffsets(spec, task, book, lambda: offset_records(spec, book.to_write()))
    records = batch((A, 1), (B, 2))
    delivery.send(OutgoingColumns(["stuck", "fast"], [b"1", b"2"]), offsets.sent(records, outgoing(2)))

    flushed = offsets.flush(delivery)
    assert (flushed.is_whole, flushed.has_written) == (False, True)
    assert task.given == [{"b": 2}]  # what is about to be committed, not all that was polled
    assert delivery.written == [(b'["c",{"f":"b"}]', b'{"n":2}'), (b'["c",{"f":"c"}]', b'{"n":6}')]

    flushed = offsets.flush(delivery)
    assert (flushed.is_whole, flushed.has_written) == (False, False)  # nothing new, and A is still not acknowledged
    assert book.offset(A) == {}

    delivery.is_stuck = False
    task.update = None
    assert offsets.flush(delivery).is_whole
    assert delivery.written[2:] == [(b'["c",{"f":"a"}]', b'{"n":5}')]
    assert not delivery.finished()  # no commit that anybody would be told of twice
