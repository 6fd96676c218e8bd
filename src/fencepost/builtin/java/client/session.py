"""The connectors, tasks and chains in a host. `port` has the rules of their calls, `protocol` the messages."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fencepost.api import ExactlyOnceSupport, RecordMetadata
from fencepost.builtin.java.client.crossing import Crossing, columns_of, polled_of, processing_of
from fencepost.builtin.java.client.line import Events, Line, Message, Reply, exception_of
from fencepost.builtin.java.error import JavaPluginError
from fencepost.builtin.java.port import (
    CommittedOffsets,
    Effects,
    Errant,
    Figures,
    GroupMember,
    GroupOffsets,
    JavaClass,
    Location,
    Polled,
    Put,
    PutEffects,
)
from fencepost.builtin.java.protocol import POSITIONS
from fencepost.hook.hosted_chain import Passed, Refused
from fencepost.record import ConnectRecord, SinkBatch, SinkRecord, TopicPartition

_WITHIN_MS = 100  # then no other call of Java's put follows in the same request


class _Session:
    """A connector or a task in a host: a connection, and a thread of its own there."""

    def __init__(self, line: Line, interrupt: Callable[[int], None], events: Events) -> None:
        """`interrupt` interrupts the thread of a session; `events` has its metrics."""
        self._line = line
        self._session: int = line.opened["session"]
        self._interrupt = interrupt
        self._events = events
        events.measure(self._session)

    def figures(self) -> Figures:
        """Return the newest metrics of the session's plug-ins, a few seconds old. Any thread; does not wait."""
        return self._events.figures(self._session)

    def interrupt(self) -> None:
        """Interrupt the session's thread, from any thread: a call in a sleep or a queue ends with a JavaError.

        Returns within seconds, also if the host is stopped, which then does nothing.
        """
        self._interrupt(self._session)


class HostedConnector(_Session):
    """A connector in a host. `close` is always possible; `stop` belongs to `start`."""

    def __init__(self, line: Line, interrupt: Callable[[int], None], events: Events) -> None:
        super().__init__(line, interrupt, events)
        name, path, archives = line.opened["task_class"]
        self.task_class = JavaClass(name, None if path is None else Location(path, tuple(archives)))
        self.version: str = line.opened["version"]

    def start(self, properties: Mapping[str, str]) -> None:
        self._line.result("start", properties=properties)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self._line.result("task_configs", max_tasks=max_tasks)
        return found

    def exactly_once_support(self, properties: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Ask a source; the connector need not be started. None: the author does not declare it."""
        found = self._line.result("exactly_once_support", properties=properties)
        return None if found is None else ExactlyOnceSupport(found)

    def can_define_transaction_boundaries(self, properties: Mapping[str, str]) -> bool:
        """Ask a source; the connector need not be started."""
        return bool(self._line.result("boundaries", properties=properties) == "SUPPORTED")

    def alter_source_offsets(self, properties: Mapping[str, str], offsets: CommittedOffsets) -> bool:
        """Let the connector check or carry out a change of offsets; it is not started. It refuses with JavaError."""
        return bool(self._line.result("alter_source_offsets", properties=properties, offsets=offsets))

    def alter_sink_offsets(self, properties: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Let a sink check or carry out a change of its group's offsets."""
        return bool(self._line.result("alter_sink_offsets", properties=properties, offsets=offsets))

    def stop(self) -> None:
        self._line.result("stop")

    def close(self) -> None:
        """Forget the connector without a call of it."""
        self._events.forget(self._session)
        self._line.close()


class HostedTask(_Session):
    """A started task."""

    def stop(self, timeout_s: float) -> None:
        """Stop the task and close its transforms and converters. Kills the host if that takes longer."""
        self._events.forget(self._session)
        self._line.finish("stop", timeout_s)


class HostedSourceTask(HostedTask):
    """A started source task. Only `commit_records` and `stop` follow an error of `poll` that is not retriable."""

    def __init__(self, line: Line, interrupt: Callable[[int], None], events: Events) -> None:
        super().__init__(line, interrupt, events)
        self._has_commit: bool = line.opened["callbacks"]["commits"]
        self._crossing = Crossing()
        self._committed: deque[Any] = deque()  # what the task's offset reader does not know yet

    def poll(self, max_bytes: int | None = None) -> Polled | None:
        """Return what Java's `poll` gave next; None if it gave nothing. Blocks as long as Java's does."""
        limit: dict[str, Any] = {} if max_bytes is None else {"max_bytes": max_bytes}
        return polled_of(self._line.ask("poll", committed=self._take_committed(), **limit), self._crossing)

    def commit_records(self, number: int, metadata: Sequence[RecordMetadata | None] | None) -> None:
        """Call `commitRecord` for each record of batch `number`, and for those filtered.

        A record's entry is None if it was not written; records without an entry were not, either. Instead of a list,
        None says that all were written: Java is told -1 as partition and offset. Does nothing for a class without a
        `commitRecord` of its own.
        """
        listed = None if metadata is None else [None if each is None else tuple(each) for each in metadata]
        self._line.result("commit_records", number=number, metadata=listed)

    def commit(self, offsets: CommittedOffsets) -> None:
        """Give the task's offset reader offsets that were committed, and call the task's `commit`.

        If the class has no `commit` of its own, the offsets are kept for the next `poll`: this costs nothing, and may
        be called while a `poll` is under way.
        """
        self._committed += offsets
        if self._has_commit:
            self._line.result("commit", committed=self._take_committed())

    def update_offsets(self, offsets: CommittedOffsets) -> CommittedOffsets:
        """Call the task's `updateOffsets` (KIP-910) with what is about to be committed. Returns its changes."""
        return [(partition, offset) for partition, offset in self._line.result("update_offsets", offsets=offsets)]

    def _take_committed(self) -> list[Any]:
        return [self._committed.popleft() for _ in range(len(self._committed))]  # others may be added meanwhile


class HostedSinkTask(HostedTask):
    """A started sink task. Offsets of a group are those of the next record, as everywhere."""

    def __init__(
        self, line: Line, interrupt: Callable[[int], None], events: Events, *, passes_records: bool = False
    ) -> None:
        super().__init__(line, interrupt, events)
        self._crossing = Crossing(is_source=False)
        self._passes_records = passes_records

    def open(self, partitions: Sequence[TopicPartition], member: GroupMember | None = None) -> Effects:
        membership = None if member is None else tuple(member)
        return self._effects(self._line.ask("open", partitions=partitions, member=membership))

    def put(
        self,
        batch: SinkBatch,
        most_rows: int | None = None,
        *,
        is_again: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> PutEffects:
        """Convert, transform and put records. Keys and values are `BinaryColumn`s or lists of bytes, headers a
        `HeaderColumn`; with `passes_records` they are values, which are only transformed.

        Java's `put` is called for at most `most_rows` at once. When a call has brought about anything, or after a
        while, no other follows: `puts` then has fewer rows than the batch, and the rest is neither converted nor put.
        After a JavaRetriableError in `thrown`, call it with `is_again` and the rows of the last call: they are not
        converted again. `meanwhile` is called while the host is busy with them, and must not raise."""
        if is_again:
            return self._put_effects(self._line.ask("put", again=True))
        if self._passes_records:
            head, buffers = {"rows": len(batch)}, [*self._crossing.written(list(batch))]
        else:
            head, buffers = columns_of(batch)
        read = self._read(batch)
        if read is not None:
            read_head, read_buffers = columns_of(SinkBatch.of_records(read))
            head["read.header_names"] = read_head.get("header_names", [])
            buffers += [(f"read.{name}", buffer) for name, buffer in read_buffers]
        if most_rows is not None:
            head["most_rows"] = most_rows
        return self._put_effects(self._line.ask("put", buffers, meanwhile=meanwhile, within_ms=_WITHIN_MS, **head))

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> tuple[Mapping[TopicPartition, int], Effects]:
        """Return the offsets that may be committed."""
        answer = self._line.ask("pre_commit", offsets=offsets)
        return _offsets(answer.head["result"]["offsets"]), self._effects(answer)

    def close(self, partitions: Sequence[TopicPartition]) -> Effects:
        return self._effects(self._line.ask("close", partitions=partitions))

    def _read(self, batch: SinkBatch) -> Sequence[SinkRecord] | None:
        """Return records as they were read; None if nothing else crosses anyway, or no dead letter needs it."""
        if batch.as_read is None:
            return None
        found = [each or batch.record(row) for row, each in enumerate(batch.as_read)]
        is_else = self._passes_records or any(_pairs(each) != _pairs(batch.record(n)) for n, each in enumerate(found))
        return found if is_else else None

    def _effects(self, answer: Message) -> Effects:
        return Effects(**self._requests(answer))

    def _put_effects(self, answer: Message) -> PutEffects:
        found = answer.head["result"]
        thrown = exception_of(found["thrown"]) if "thrown" in found else None
        assert not isinstance(thrown, JavaPluginError)
        puts = tuple(Put(rows, removed, took_us / 1e6) for rows, removed, took_us in found["puts"])
        return PutEffects(**self._requests(answer), puts=puts, thrown=thrown)

    def _requests(self, answer: Message) -> dict[str, Any]:
        found = answer.head["result"]
        return {
            "rewinds": _offsets(found["rewinds"]),
            "timeout_ms": found["timeout_ms"],
            "paused": tuple(TopicPartition(*each) for each in found["paused"]),
            "resumed": tuple(TopicPartition(*each) for each in found["resumed"]),
            "requests_commit": found["requests_commit"],
            "errant": _errant(found["errant"], answer, self._crossing),
            "processing": processing_of(found),
        }


class HostedSteps:
    """The steps of a chain in a host. `fencepost.hook.hosted_chain.HostedChain` says what the calls do.

    An error of `Refused` is a JavaError or a JavaRetriableError.
    """

    def __init__(self, line: Line, *, is_source: bool) -> None:
        self._line = line
        self._crossing = Crossing(is_source=is_source)
        self._given: Sequence[ConnectRecord] = ()

    def run(
        self, records: Sequence[ConnectRecord], first: int, end: int, is_chosen: Sequence[bool] | None
    ) -> Passed | Refused:
        """Raises RecordError if a value has no form; nothing has been sent then."""
        buffers = self._crossing.written(records)
        if is_chosen is not None:
            buffers.append(("chosen", bytes(is_chosen)))
        self._given = records
        return self._outcome(self._line.ask("run", buffers, rows=len(records), first=first, end=end))

    def again(self) -> Passed | Refused:
        return self._outcome(self._line.ask("again"))

    def skip(self) -> Passed | Refused:
        return self._outcome(self._line.ask("skip"))

    def close(self) -> None:
        """End the connection, after which the host closes the plug-ins."""
        self._line.close()

    def _outcome(self, answer: Message) -> Passed | Refused:
        found: Mapping[str, Any] = answer.head["result"]
        if "failed" in found:
            row, step, thrown = found["failed"]
            error = exception_of(thrown)
            if isinstance(error, JavaPluginError):
                raise error
            return Refused(row, step, error)
        rows: Sequence[int] = found["rows"]
        buffers = answer.buffers
        records = self._crossing.read(buffers["schemas"], buffers["records"], [self._given[row] for row in rows])
        return Passed(rows, records, [each != 0 for each in buffers["chosen"]])


def replies_of(offsets: GroupOffsets, report: Callable[[Sequence[Errant]], int]) -> Reply:
    """Return what answers the questions of a sink task in the middle of its calls."""
    crossing = Crossing(is_source=False)

    def reply(question: str, about: Message) -> Any:
        if question == "report":
            return report(_errant(about.head["errant"], about, crossing))
        places = [TopicPartition(*each) for each in about.head["partitions"]]
        if question == "edges":
            return [(*place, begin, end) for place, (begin, end) in offsets.edges(places).items()]
        return POSITIONS.encoded(offsets.positions(places) if question == "positions" else offsets.committed(places))

    return reply


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


def _offsets(listed: Sequence[Any]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): offset for topic, partition, offset in listed}
