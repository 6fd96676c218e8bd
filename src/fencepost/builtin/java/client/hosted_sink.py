"""A sink task in a host."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fencepost.builtin.java.client.columns import processing_of
from fencepost.builtin.java.client.crossing import Crossing
from fencepost.builtin.java.client.events import Events
from fencepost.builtin.java.client.line import Line, Reply
from fencepost.builtin.java.client.raw_records import Buffers, columns_of
from fencepost.builtin.java.client.session import TaskClient
from fencepost.builtin.java.client.thrown import exception_of
from fencepost.builtin.java.client.wire import Message
from fencepost.builtin.java.error import JavaPluginError
from fencepost.builtin.java.port import Act, Effects, Errant, GroupMember, GroupOffsets, Put, PutEffects
from fencepost.record import SinkBatch, SinkRecord, TopicPartition

_WITHIN_MS = 100  # then no other call of Java's put follows in the same request


def replies_of(offsets: GroupOffsets, report: Callable[[Sequence[Errant]], int]) -> Reply:
    """Return what answers the questions of a sink task in the middle of its calls."""
    crossing = Crossing(is_source=False)

    def reply(question: str, about: Message) -> Any:
        if question == "report":
            return report(_errant(about.head["errant"], about, crossing))
        places = [TopicPartition(*each) for each in about.head["partitions"]]
        if question == "edges":
            return [(*place, begin, end) for place, (begin, end) in offsets.edges(places).items()]
        return _listed(offsets.positions(places) if question == "positions" else offsets.committed(places))

    return reply


class SinkTaskClient(TaskClient):
    """Implements `HostedSinkTask`."""

    def __init__(
        self, line: Line, interrupt: Callable[[int], None], events: Events, *, passes_records: bool = False
    ) -> None:
        super().__init__(line, interrupt, events)
        self._crossing = Crossing(is_source=False)
        self._passes_records = passes_records

    def open(self, partitions: Sequence[TopicPartition], member: GroupMember | None = None) -> Effects:
        membership = None if member is None else tuple(member)
        return self._effects(self._asked("open", partitions=_named(partitions), member=membership))

    def put(
        self, batch: SinkBatch, most_rows: int | None = None, *, is_again: bool = False, meanwhile: Act | None = None
    ) -> PutEffects:
        if is_again:
            return self._put_effects(self._asked("put", again=True))
        head, buffers = self._written(batch)
        head |= {"op": "put", "within_ms": _WITHIN_MS}
        if most_rows is not None:
            head["most_rows"] = most_rows
        return self._put_effects(self._line.ask(head, buffers, meanwhile=meanwhile))

    def _written(self, batch: SinkBatch) -> tuple[dict[str, Any], Buffers]:
        if self._passes_records:
            head, buffers = {"rows": len(batch)}, [*self._crossing.written(list(batch))]
        else:
            head, buffers = columns_of(batch)
        read = self._read(batch)
        if read is not None:
            read_head, read_buffers = columns_of(SinkBatch.of_records(read))
            head["read.header_names"] = read_head.get("header_names", [])
            buffers += [(f"read.{name}", buffer) for name, buffer in read_buffers]
        return head, buffers

    def _read(self, batch: SinkBatch) -> Sequence[SinkRecord] | None:
        """Return records as they were read; None if nothing else crosses anyway, or no dead letter needs it."""
        if batch.as_read is None:
            return None
        found = [each or batch.record(row) for row, each in enumerate(batch.as_read)]
        is_else = self._passes_records or any(_pairs(each) != _pairs(batch.record(n)) for n, each in enumerate(found))
        return found if is_else else None

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> tuple[Mapping[TopicPartition, int], Effects]:
        answer = self._asked("pre_commit", offsets=_listed(offsets))
        return _offsets(answer.head["result"]["offsets"]), self._effects(answer)

    def close(self, partitions: Sequence[TopicPartition]) -> Effects:
        return self._effects(self._asked("close", partitions=_named(partitions)))

    def _asked(self, operation: str, **arguments: Any) -> Message:
        return self._line.ask({"op": operation, **arguments})

    def _effects(self, answer: Message) -> Effects:
        found = answer.head["result"]
        return Effects(**_requests(found), errant=_errant(found["errant"], answer, self._crossing))

    def _put_effects(self, answer: Message) -> PutEffects:
        found = answer.head["result"]
        thrown = exception_of(found["thrown"]) if "thrown" in found else None
        assert not isinstance(thrown, JavaPluginError)
        puts = tuple(Put(rows, removed, took_us / 1e6) for rows, removed, took_us in found["puts"])
        errant = _errant(found["errant"], answer, self._crossing)
        return PutEffects(**_requests(found), errant=errant, puts=puts, thrown=thrown)


def _errant(listed: Sequence[Any], message: Message, crossing: Crossing) -> tuple[Errant, ...]:
    if not listed:
        return ()
    places = [(TopicPartition(topic, partition), offset) for topic, partition, offset, *_ in listed]
    given = [SinkRecord(*place, offset, at=place) for place, offset in places]
    records: Sequence[Any] = crossing.read(message.buffers["schemas"], message.buffers["records"], given)
    return tuple(
        Errant(replace(record, as_read=record if is_as_read else None), *error)
        for record, (_, _, _, *error, is_as_read) in zip(records, listed, strict=True)
    )


def _pairs(record: SinkRecord) -> list[tuple[str, Any]]:
    return [(header.key, header.value) for header in record.headers]


def _requests(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "rewinds": _offsets(found["rewinds"]),
        "timeout_ms": found["timeout_ms"],
        "paused": tuple(TopicPartition(*each) for each in found["paused"]),
        "resumed": tuple(TopicPartition(*each) for each in found["resumed"]),
        "requests_commit": found["requests_commit"],
        "processing": processing_of(found),
    }


def _offsets(listed: Sequence[Any]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): offset for topic, partition, offset in listed}


def _listed(offsets: Mapping[TopicPartition, int]) -> list[tuple[str, int, int]]:
    return [(place.topic, place.partition, offset) for place, offset in offsets.items()]


def _named(partitions: Sequence[TopicPartition]) -> list[tuple[str, int]]:
    return [(place.topic, place.partition) for place in partitions]
