"""A source task whose `poll` is Java's, in the host that this process's Java tasks share.

Java's transforms and converters work there as well; what comes back are columns of bytes. The host never writes to
Kafka: records and offsets go into the transactions of this process's producers, which a successor fences. So whatever a
host still does after its task was replaced (a zombie), none of it becomes visible.

All calls to Java are made in one thread beside the task's own, in order. A `poll` of Java's that takes long thus keeps
nothing else waiting: this task's `poll` returns without records meanwhile, so that the task can stop, pause and commit.

A class in Java that is not called after commits cannot know when they happen. Its next `poll` begins as soon as the one
before has returned, while that one's records are sent and committed.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import lru_cache, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar

from fencepost.api import RecordMetadata
from fencepost.api.source import SourceOffset, SourcePartition
from fencepost.builtin.java.error import HostEndedError, JavaError, JavaRetriableError
from fencepost.builtin.java.java_task import STOP_S, JavaTask, error_of
from fencepost.builtin.java.port import Callbacks, CommittedOffsets, Mark, Polled, SourceTaskStart
from fencepost.hook.hosted_task import HostedBatch, HostedTask, HostedTaskContext, HostLostError, LeftOut, RecordBatch
from fencepost.record import Batch, PartitionKey, joined_member, partition_key

if TYPE_CHECKING:
    from fencepost.builtin.java.client.session import HostedSourceTask

log = logging.getLogger(__name__)

_TURN_S = 0.2  # how long `poll` waits for Java before it returns nothing
_POLITE_S = 1.0  # how long a stop waits for Java's `poll` before its thread is interrupted

_Ends = dict[PartitionKey, tuple[SourcePartition, SourceOffset | None]]
_Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


@dataclass
class _Given:
    """What `poll` has returned, up to when Java is told that it is committed."""

    batches: deque[tuple[list[tuple[int, int]], _Ends]] = field(default_factory=deque)
    """What is not written yet: of each batch, the number and size of the parts that it consists of, and its ends."""
    written: list[tuple[int, Sequence[RecordMetadata | None] | None]] = field(default_factory=list)
    """The numbers of parts that are committed, and where their records are (see `commit_records`)."""
    ends: _Ends = field(default_factory=dict)
    """The offsets that are committed."""

    def add(self, parts: Sequence[Polled], batch: Batch) -> None:
        """Add what `poll` returns: the parts, and the batch that they are together. It is not kept."""
        ends = {partition_key(partition): (partition, offset) for partition, offset in batch.ends}
        self.batches.append(([(part.number, len(part.batch)) for part in parts], ends))

    def is_written(self, places: Sequence[RecordMetadata | None] | None) -> None:
        """Note that the first batch is committed."""
        parts, ends = self.batches.popleft()
        first = 0
        for number, size in parts:
            self.written.append((number, places if places is None else places[first : first + size]))
            first += size
        self.ends.update(ends)

    def take(self, *, with_ends: bool = True) -> "_Given":
        """Return what is committed, and forget it here. Without `with_ends`, the offsets stay."""
        taken = _Given(written=self.written, ends=self.ends if with_ends else {})
        self.written = []
        if with_ends:
            self.ends = {}
        return taken


class JavaSourceTask(JavaTask, HostedTask):
    """The tasks of a `JavaSourceConnector`."""

    context: HostedTaskContext

    _asked_at = 0.0  # when the last `poll` of Java's began

    tells_records: ClassVar[bool] = False
    """Whether the class in Java has a `commitRecord` of its own."""

    def start(self) -> None:
        """Start Java's task. Raises HostLostError if the host ends meanwhile."""
        self._lease = self.config.plugins.hosts.tasks.take(self.context.place.incarnation)
        self._calls = CallThread(f"java-{self._id}")
        self._asked: Future[list[Polled]] | None = None
        self._given = _Given()
        self._changes: _Ends = {}  # of offsets that are about to be committed
        self._is_owed, self._is_whole = False, True
        self._hosted: HostedSourceTask | None = None
        self._hosted = self._call(
            self._lease.host.source_task,
            SourceTaskStart(
                **self._common_start(is_source=True),
                offsets=self.context.offsets(),
                defines_transactions=self.context.transaction is not None,
            ),
        )

    def poll(self) -> Batch | None:
        if self._asked is None:
            self._ask()
        assert self._asked is not None
        if not self._asked.done():
            self.context.wait(_TURN_S)
        if not self._asked.done():
            return None
        asked, self._asked = self._asked, None
        try:
            parts = asked.result()
        except HostEndedError as error:
            raise self._lease.lost(error) from error
        except JavaRetriableError:
            raise
        except Exception:
            self._is_whole = False  # Java may have read more than it has returned
            raise
        if parts:
            if self.polls_ahead and self.context.transaction is None:
                self._ask()
            return self._taken(parts)
        if self._is_owed:
            self.commit()
        return None

    def waits_since(self) -> float | None:
        asked, since = getattr(self, "_asked", None), self._asked_at
        return None if asked is None or asked.done() else since

    def written(self, places: Sequence[RecordMetadata | None] | None) -> None:
        self._given.is_written(places)

    def commit(self) -> None:
        """Tell Java what is committed, unless Java has read more: its `poll` is under way, or is committed in parts.

        A task that acknowledges all that it has read would acknowledge what is not committed, too. Java is told after
        that `poll`: at once of the records, and of the offsets as well if it returns nothing. Else they are told with
        those of its records.
        """
        if self.polls_ahead:
            if committed := self._given.take().ends:
                self._task.commit(list(committed.values()))
            return
        self._is_owed = self._asked is not None or not self._is_whole
        self._given.ends.update(self._changes)
        self._changes = {}
        if not self._is_owed:
            self._tell()

    def stop(self) -> None:
        """Stop Java's task: after its `poll` has returned, or was interrupted, or the host was killed."""
        if not self._has_host:
            return
        try:
            if self._hosted is not None and self._lease.host.end is None:
                self._end_poll(self._hosted)
                # Java would get again what it is not told of. A commit may have waited for a `poll` that found nothing.
                self._tell(with_commit=self._is_owed and self._asked is None and self._is_whole)
                self._calls.submit(self._hosted.stop, STOP_S).result()
        except (HostEndedError, HostLostError) as error:
            log.warning("task %s has stopped with its host: %s", self._id, error)
        finally:
            self._calls.close()
            self._lease.end()

    @property
    def _task(self) -> "HostedSourceTask":
        assert self._hosted is not None
        return self._hosted

    def _ask(self) -> None:
        self._asked_at = time.monotonic()
        self._asked = self._calls.submit(whole_poll, self._task.poll)
        self._asked.add_done_callback(lambda _: self.context.wake())

    def _taken(self, parts: Sequence[Polled]) -> Batch:
        if self._is_owed:
            self._tell(with_commit=False)
        batch = joined([part.batch for part in parts])
        left_out: list[LeftOut] = []
        first = 0
        for part in parts:
            self.context.count_retries(part.processing.retries)
            left_out += [
                LeftOut(first + failure.row, failure.stage, error_of(failure), failure.offset)
                for failure in part.processing.failures
            ]
            first += len(part.batch)
        if left_out:
            batch = HostedBatch.of(batch, left_out)
        self._given.add(parts, batch)
        self._is_owed, self._is_whole = False, parts[-1].is_whole
        transaction, mark = self.context.transaction, parts[-1].mark
        if transaction is not None and mark is Mark.COMMIT:
            transaction.commit_transaction()
        elif transaction is not None and mark is Mark.ABORT:
            transaction.abort_transaction()
        return batch

    def _tell(self, *, with_commit: bool = True) -> None:
        """Tell Java of what is committed and was not told. `with_commit`: Java has read no more than that."""
        if not (with_commit or self.tells_records):
            return
        given = self._given.take(with_ends=with_commit)
        if not (given.written or given.ends):
            return
        try:
            self._call(self._told, given, with_commit)
        except JavaError:  # as in Kafka Connect: the records are committed
            log.exception("task %s: an error in commit() or commitRecord() is ignored", self._id)

    def _told(self, given: _Given, with_commit: bool) -> None:
        if self.tells_records:
            for number, places in given.written:
                self._task.commit_records(number, places)
        if with_commit:
            self._task.commit(list(given.ends.values()))

    def _end_poll(self, hosted: "HostedSourceTask") -> None:
        """Wait until Java's `poll` has returned; its records are polled again by the next start."""
        if self._asked is None:
            return
        while not wait([self._asked], _POLITE_S).done:  # an interrupt before Java begins its `poll` is lost
            log.info("task %s: its poll is interrupted, as the task is to stop", self._id)
            hosted.interrupt()
        try:
            if not self._asked.result():
                self._asked = None  # Java has read nothing
        except HostEndedError:
            raise
        except Exception as error:  # whatever the plug-in has thrown, it is to be stopped
            log.info("task %s: its last poll ended with an error, and nothing of it is sent: %s", self._id, error)

    def _call(self, function: Any, *arguments: Any) -> Any:
        """Call Java and wait. Raises HostLostError if the host ends meanwhile."""
        try:
            return self._calls.submit(function, *arguments).result()
        except HostEndedError as error:
            raise self._lease.lost(error) from error


class _UpdatesOffsets(JavaSourceTask):
    """A task whose class in Java has an `updateOffsets` (KIP-910)."""

    def update_offsets(
        self, offsets: Mapping[PartitionKey, SourceOffset | None]
    ) -> Mapping[PartitionKey, SourceOffset | None] | None:
        """Let Java change what is about to be committed, but not while records are polled and not sent.

        It could answer with its position, which is behind those records: they would be lost. Then the offsets of what
        is sent are committed as they are. Without any offset, Java is asked only between its polls.
        """
        if not self._has_polled(waits=bool(offsets)) or not self._is_whole:
            return None
        if self._asked is not None and (self._asked.exception() is not None or self._asked.result()):
            return None  # a `poll` has returned what is not sent: records, offsets, or an error
        pairs = [(dict(key), None if offset is None else dict(offset)) for key, offset in offsets.items()]
        found: CommittedOffsets = self._call(self._task.update_offsets, pairs)
        self._changes = {partition_key(partition): (partition, offset) for partition, offset in found}
        return {key: offset for key, (_, offset) in self._changes.items()}

    def _has_polled(self, *, waits: bool) -> bool:
        """Say whether no `poll` of Java's is under way. It is interrupted if the task is to stop.

        A pause does not wait for it, nor interrupt it: the task would go on with the error that it ends with.
        """
        while waits and self._asked is not None and not self._asked.done():
            wait([self._asked], _POLITE_S)
            if self.context.is_stopping and not self._asked.done():
                if not self.context.is_to_stop:
                    break
                self._task.interrupt()
        return self._asked is None or self._asked.done()


@lru_cache
def task_class_for(callbacks: Callbacks) -> type[JavaSourceTask]:
    """Return the class for tasks with these callbacks: those that a task lacks cost it nothing."""
    base = _UpdatesOffsets if callbacks.updates else JavaSourceTask
    attributes = {
        "tells_records": callbacks.records,
        "asks_places": callbacks.places,
        "polls_ahead": not any(callbacks),
    }
    return type(base.__name__, (base,), attributes)


def whole_poll(poll: Callable[[], Polled | None]) -> list[Polled]:
    """Return the parts up to the end of what Java's `poll` returned, or up to a mark; none if it returned nothing.

    An error of a later part ends the task, which begins again with the first.
    """
    parts: list[Polled] = []
    while (polled := poll()) is not None:
        parts.append(polled)
        if polled.is_whole or polled.mark is not None:
            break
    return parts


def joined(batches: Sequence[Batch]) -> Batch:
    """Return the records of a host's batches as one, with the last offset of each source partition."""
    if len(batches) == 1:
        return batches[0]
    ends = {partition_key(partition): (partition, offset) for batch in batches for partition, offset in batch.ends}
    if isinstance(batches[0], RecordBatch):
        return RecordBatch.holding([record for batch in batches for record in batch.records()], list(ends.values()))
    column = partial(joined_member, batches)
    return Batch(
        topics=column("topics"),
        values=column("values"),
        source_partitions=column("source_partitions"),
        source_offsets=column("source_offsets"),
        keys=column("keys"),
        kafka_partitions=column("kafka_partitions"),
        timestamps=column("timestamps"),
        headers=column("headers", ()),
        ends=list(ends.values()),
    )


class CallThread:
    """Starts with its creation, and ends after `close` and the calls before it."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Make a call after those before it; returns its result, or error, to come."""
        future: Future[Any] = Future()
        self._calls.put((future, function, arguments))
        return future

    def close(self) -> None:
        """End the thread once all calls are made."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function, arguments = call
            try:
                result = function(*arguments)
            except BaseException as error:  # whoever waits for the result gets it
                future.set_exception(error)
            else:
                future.set_result(result)
            del call, future, function, arguments
