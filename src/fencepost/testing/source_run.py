"""One life of a source's task in this process, without Kafka: what it polls, what is committed, and a crash.

Its offsets topic is in memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from fencepost.api import (
    ConfigError,
    FatalError,
    RecordMetadata,
    RetriableError,
    SinkConnector,
    SourceConnector,
    SourceRecord,
    SourceTask,
    StreamConnector,
)
from fencepost.config.setting import as_text
from fencepost.plugin.mistake import class_fault
from fencepost.record import partition_key
from fencepost.storage.offset_topic import encode_key, encode_offset
from fencepost.task.control import Control
from fencepost.task.source.boundary import ConnectorBoundary
from fencepost.task.source.loop import TaskContext, in_batches
from fencepost.task.source.offsets import OffsetBook, checked_update

_USE = {
    SourceConnector: "SourceRun or SourceConformance",
    SinkConnector: "SinkRun or SinkConformance",
    StreamConnector: "StreamRun or StreamConformance",
}


def ensure_runnable(connector: Any, kind: type[Any]) -> None:
    """Raise ConfigError unless this is a class of connectors of a kind, with a task; as a worker would refuse it."""
    if not isinstance(connector, type):
        raise ConfigError(f"{connector!r} is no class: pass the class of the connector, not an instance of it")
    found = next((one for one in (StreamConnector, SinkConnector, SourceConnector) if issubclass(connector, one)), None)
    if found is None:
        raise ConfigError(
            f"{connector.__name__} is no {kind.__name__}: pass the class of the connector, not of its task"
        )
    if getattr(connector, "is_dataframe", False):
        raise ConfigError(
            f"{connector.__name__} has no task, as Spark does its work: test its methods with a Spark session. "
            "DataFrameSinkConformance does so for sinks, DataFrameSourceConformance for sources"
        )
    if found is not kind:
        raise ConfigError(f"{connector.__name__} is a {found.__name__}, not a {kind.__name__}: use {_USE[found]}")
    fault = class_fault(connector)
    if fault is not None:
        raise ConfigError(fault)


Pair = tuple[Mapping[str, Any], Mapping[str, Any] | None]


class OffsetStore:
    """Source offsets as JSON, as the runtime stores them: what cannot be stored is refused here, too.

    >>> from fencepost.testing import OffsetStore
    >>> store = OffsetStore([({"file": "a.txt"}, {"line": 3})])
    >>> store.write([({"file": "b.txt"}, {"line": 1}), ({"file": "a.txt"}, None)])  # None: a tombstone
    >>> store.pairs()
    [({'file': 'b.txt'}, {'line': 1})]
    """

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        self._stored: dict[bytes, bytes] = {}
        self.write(pairs)

    def write(self, pairs: Iterable[Pair]) -> None:
        """Store offsets. Raises ConfigError for one that is not a map of names to JSON's plain values."""
        for partition, offset in [(encode_key("", p), encode_offset(o)) for p, o in pairs]:
            if offset is None:
                self._stored.pop(partition, None)
            else:
                self._stored[partition] = offset

    def pairs(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return all offsets as a task that starts now sees them: (partition, offset)."""
        return [(orjson.loads(key)[1], orjson.loads(offset)) for key, offset in self._stored.items()]

    def copy(self) -> "OffsetStore":
        """Return a store with the same offsets."""
        return OffsetStore(self.pairs())


SHORT_WAIT_S = 0.01
_IDLE_POLLS = 5


_NAMED = {"name": "testing"}


def properties_of(config: Mapping[str, object] | None, usual: Mapping[str, str] = _NAMED) -> dict[str, str]:
    """Return a config as the text that a connector gets, over what is usual: a name."""
    texts = {key: as_text(key, value) for key, value in (config or {}).items()}
    return {**usual, **{key: text for key, text in texts.items() if text is not None}}


def task_configs(connector: Any, config: Mapping[str, object] | None, max_tasks: int = 1) -> list[dict[str, str]]:
    """Return the configs of the tasks as the runtime stores them: as text."""
    return [properties_of(own) for own in connector(properties_of(config)).task_configs(max_tasks)]


class SourceRun:
    """One start of a task. Records are polled and committed when the test says so, not in a loop.

    The connector's first task is run, unless `task_config` has the properties of another one. Waits of the task end
    after 10 ms, unless `is_patient`.

    >>> from fencepost.api import Batch, SourceConnector, SourceTask
    >>> class CounterTask(SourceTask):
    ...     def start(self) -> None:
    ...         self.n = self.context.offset({"counter": "a"}).get("n", 0)
    ...     def poll(self) -> Batch:
    ...         self.n += 1
    ...         return Batch.of_rows([{"n": self.n}], topic="n", source_partition={"counter": "a"}, offset="n")
    >>> class CounterConnector(SourceConnector):
    ...     task = CounterTask
    >>> from fencepost.testing import SourceRun
    >>> run = SourceRun(CounterConnector)
    >>> [record.value for record in run.poll()]
    [{'n': 1}]
    >>> run.commit()
    >>> run.store.pairs()
    [({'counter': 'a'}, {'n': 1})]
    >>> run.poll()[0].value  # polled, but never committed
    {'n': 2}
    >>> run.crash()
    >>> SourceRun(CounterConnector, store=run.store).poll()[0].value
    {'n': 2}
    """

    def __init__(
        self,
        connector: type[SourceConnector],
        config: Mapping[str, object] | None = None,
        *,
        store: OffsetStore | None = None,
        task_config: Mapping[str, str] | None = None,
        transaction: ConnectorBoundary | None = None,
        is_patient: bool = False,
    ) -> None:
        """Start the task. `transaction` is given if the task is to define its transactions."""
        ensure_runnable(connector, SourceConnector)
        own = dict(task_config or _first(connector, config))
        self.store = OffsetStore() if store is None else store
        self.control = Control(is_paused=False)
        self.task: SourceTask[Any] = connector.task()
        self._book = OffsetBook(self.store.pairs())
        self._polled: list[SourceRecord] = []
        self._is_over = False
        context = _Context(own, self._book, self.control, transaction)
        context.longest_wait_s = None if is_patient else SHORT_WAIT_S
        self.task.initialize(context, connector(own))
        self.task.start()

    def poll(self) -> list[SourceRecord]:
        """Return the records of one poll; none if it returned None or raised RetriableError."""
        records, batches = self.poll_batches()
        return [record for batch in batches for record in batch.records()] if records is None else records

    def poll_batches(self) -> tuple[list[SourceRecord] | None, list[Any]]:
        """Return the same as the runtime sees it: the task's own record objects, if it returned some, and batches."""
        try:
            records, batches = in_batches(self.task.poll(), type(self.task).__name__)
        except RetriableError:
            return None, []
        for batch in batches:
            self._book.add(batch.last_offsets())
            self._book.updated_by({partition_key(p): None for p, offset in batch.ends if offset is None})
            self._polled += batch.records()
        return records, batches

    def commit(self) -> None:
        """Commit everything that was polled, and tell the task."""
        self.begin_commit()
        self.end_commit()

    def begin_commit(self) -> None:
        """Store the offsets of everything that was polled. What is polled from here on is not part of the commit."""
        update = self.task.update_offsets(self._book.pending)
        self._book.updated_by(checked_update(update, type(self.task).__name__))
        self.store.write(self._book.to_write())
        self._book.seal()
        self._committing, self._polled = self._polled, []

    def end_commit(self) -> None:
        """Tell the task that the commit has succeeded."""
        self._book.committed()
        for number, record in enumerate(self._committing):
            self.task.commit_record(record, RecordMetadata(record.topic, 0, number, record.timestamp))
        self.task.commit()

    def read(self, at_least: int, *, commits: bool = False) -> list[SourceRecord]:
        """Poll until there are so many records, or five polls in a row have given none."""
        found: list[SourceRecord] = []
        idle = 0
        while len(found) < at_least and idle < _IDLE_POLLS:
            records = self.poll()
            idle = 0 if records else idle + 1
            found += records
            if commits:
                self.commit()
        return found

    def stop(self) -> None:
        """Stop the task as the runtime does. What was polled and not committed is lost."""
        self.control.stop()
        if not self._is_over:
            self._is_over = True
            self.task.stop()

    def crash(self) -> None:
        """End this life as `kill -9` does: nothing of the task is called any more."""
        self._is_over = True
        self.control.stop()


class _Context(TaskContext):
    """The runtime's own, except that waits may be short."""

    longest_wait_s: float | None = None

    def wait(self, timeout_s: float) -> bool:
        return super().wait(timeout_s if self.longest_wait_s is None else min(timeout_s, self.longest_wait_s))


def poll_once(
    connector: type[SourceConnector],
    config: Mapping[str, object] | None = None,
    *,
    offsets: Iterable[Pair] = (),
) -> Sequence[SourceRecord]:
    """Start a source's task, poll until it returns records, stop it, and return them.

    `offsets` are those that are committed, as pairs of source partition and source offset. Returns an empty list if
    five polls in a row give no records.

    >>> from fencepost.testing import poll_once
    >>> from fencepost.builtin.connector.generator import VerifiableSourceConnector
    >>> poll_once(VerifiableSourceConnector, {"topic": "t"}, offsets=[({"id": 0}, {"seqno": 41})])[0].value
    42
    """
    run = SourceRun(connector, config, store=OffsetStore(offsets))
    try:
        return run.read(1)
    finally:
        run.stop()


def _first(connector: type[SourceConnector], config: Mapping[str, object] | None) -> Mapping[str, str]:
    own = task_configs(connector, config)
    if not own:
        raise FatalError(f"task_configs(1) of {connector.__name__} returned no config, so there is no task to run")
    return own[0]
