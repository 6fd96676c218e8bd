"""A sink task in a host."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fencepost.java.client.columns import processing_of
from fencepost.java.client.crossing import Crossing
from fencepost.java.client.events import Events
from fencepost.java.client.line import Line, Reply
from fencepost.java.client.raw_records import Buffers, columns_of
from fencepost.java.client.session import TaskClient
from fencepost.java.client.thrown import exception_of
from fencepost.java.error import JavaPluginError, JavaRetriableError
from fencepost.java.port import Effects, Errant, GroupMember, ReadCommitted
from fencepost.record import SinkBatch, TopicPartition


def replies_of(committed: ReadCommitted) -> Reply:
    """Return what answers the questions of a sink task in the middle of its calls."""

    def reply(question: str, about: Mapping[str, Any]) -> Any:
        assert question == "committed", question
        return _listed(committed([TopicPartition(*each) for each in about["partitions"]]))

    return reply


class SinkTaskClient(TaskClient):
    """Implements `HostedSinkTask`."""

    def __init__(
        self, line: Line, interrupt: Callable[[int], None], events: Events, *, passes_records: bool = False
    ) -> None:
        super().__init__(line, interrupt, events)
        self._crossing = Crossing(is_source=False) if passes_records else None
        self._refused: SinkBatch | None = None  # the host still has its converted records

    def open(self, partitions: Sequence[TopicPartition], member: GroupMember | None = None) -> Effects:
        return _effects(
            self._line.result("open", partitions=_named(partitions), member=None if member is None else tuple(member))
        )

    def put(self, batch: SinkBatch) -> Effects:
        if batch is self._refused:
            found = self._line.result("put", again=True)
        else:
            head, buffers = self._written(batch)
            found = self._line.ask({"op": "put", **head}, buffers).head["result"]
        effects = _effects(found)
        self._refused = batch if isinstance(effects.thrown, JavaRetriableError) else None
        return effects

    def _written(self, batch: SinkBatch) -> tuple[dict[str, Any], Buffers]:
        if self._crossing is None:
            return columns_of(batch)
        return {"rows": len(batch)}, [*self._crossing.written(list(batch))]

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> tuple[Mapping[TopicPartition, int], Effects]:
        found = self._line.result("pre_commit", offsets=_listed(offsets))
        return _offsets(found["offsets"]), _effects(found)

    def close(self, partitions: Sequence[TopicPartition]) -> Effects:
        return _effects(self._line.result("close", partitions=_named(partitions)))


def _effects(found: Mapping[str, Any]) -> Effects:
    thrown = exception_of(found["thrown"]) if "thrown" in found else None
    assert not isinstance(thrown, JavaPluginError)
    return Effects(
        rewinds=_offsets(found["rewinds"]),
        timeout_ms=found["timeout_ms"],
        paused=tuple(TopicPartition(*each) for each in found["paused"]),
        resumed=tuple(TopicPartition(*each) for each in found["resumed"]),
        requests_commit=found["requests_commit"],
        errant=tuple(Errant(TopicPartition(topic, place), *rest) for topic, place, *rest in found["errant"]),
        processing=processing_of(found),
        thrown=thrown,
    )


def _offsets(listed: Sequence[Any]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): offset for topic, partition, offset in listed}


def _listed(offsets: Mapping[TopicPartition, int]) -> list[tuple[str, int, int]]:
    return [(place.topic, place.partition, offset) for place, offset in offsets.items()]


def _named(partitions: Sequence[TopicPartition]) -> list[tuple[str, int]]:
    return [(place.topic, place.partition) for place in partitions]
