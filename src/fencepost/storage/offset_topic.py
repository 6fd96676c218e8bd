"""The offsets topic: the source offset of each source partition of each connector.

A key is the JSON array `["C", {source partition}]`, a value the JSON object of the source offset, or null. Key bytes
must be stable, or compaction would keep two records for one partition. Our keys have sorted member names. If the topic
already has other key bytes for the partition (a Java worker keeps the order of its map), we write those.

Under keys of another form, the topic carries entries of ledgers for a while (`ledger.carried`).

Shares one read between all callers that ask at about the same time.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, TypeVar

import orjson

from fencepost.config import ConfigError
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.ledger.carried import carried_key, is_carried

T = TypeVar("T")


class SharedRead(Generic[T]):
    """Calls `read` once for all callers that arrive during the previous read.

    The shared read starts after each of these calls, so its result covers everything written before them (E3). All
    callers that share a read get its errors.
    """

    def __init__(self, read: Callable[[float], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._next: Future[T] | None = None

    def __call__(self, timeout_s: float) -> T:
        """Return what `read(timeout_s)` returns. The first caller's time-out applies to all."""
        with self._lock:
            is_first = self._next is None
            if self._next is None:
                self._next = Future()
            shared = self._next
        if is_first:
            self._carry_out(shared, timeout_s)
        return shared.result()

    def _carry_out(self, shared: "Future[T]", timeout_s: float) -> None:
        with self._turn:
            with self._lock:
                self._next = None  # later callers may have written something that this read misses
            try:
                shared.set_result(self._read(timeout_s))
            except BaseException as error:
                shared.set_exception(error)


LOG = logging.getLogger(__name__)

SourcePartition = Mapping[str, Any]
SourceOffset = Mapping[str, Any]


class OffsetFormatError(ConfigError):
    """A source partition or offset that cannot be stored."""


class StoredOffset(NamedTuple):
    partition: SourcePartition | None
    offset: SourceOffset


class KnownOffset(NamedTuple):
    """A record of one topic about a source partition. An `offset` of None is a tombstone; `key` holds its key bytes."""

    partition: SourcePartition | None
    offset: SourceOffset | None
    key: bytes
    timestamp_ms: int
    topic_partition: int = 0


def encode(
    connector: str, partition: SourcePartition | None, offset: SourceOffset | None
) -> tuple[bytes, bytes | None]:
    """Return the record that sets the offset of `partition` of `connector`. An `offset` of None deletes it.

    Raises OffsetFormatError unless names are strings and values are strings, 64-bit whole numbers, finite floats,
    booleans or None.
    """
    return encode_key(connector, partition), encode_offset(offset)


def encode_key(connector: str, partition: SourcePartition | None) -> bytes:
    _check(partition, "partition")
    try:
        return _written([connector, partition if partition is None else dict(partition)], is_sorted=True)
    except TypeError as error:
        raise OffsetFormatError(f"The source partition {partition!r} cannot be stored: {error}") from error


def encode_offset(offset: SourceOffset | None) -> bytes | None:
    if offset is None:
        return None
    _check(offset, "offset")
    try:
        return _written(dict(offset))
    except TypeError as error:
        raise OffsetFormatError(f"The source offset {offset!r} cannot be stored: {error}") from error


def _written(value: Any, *, is_sorted: bool = False) -> bytes:
    """Return JSON. Text may have half of a character, as Java's can: that is escaped."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if is_sorted else None)
    except TypeError as error:
        if "surrogates" not in str(error):
            raise
        return json.dumps(value, sort_keys=is_sorted, separators=(",", ":")).encode()


def _read(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:  # perhaps half of a character, escaped or as Java writes it
        try:
            return json.loads(text.decode("utf-8", "surrogatepass"), parse_constant=_refuse)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def merge(own: Iterable[KnownOffset], fallback: Iterable[KnownOffset]) -> list[KnownOffset]:
    """Return the offsets of a connector with its own topic: its own, and the worker's for other partitions. Pure.

    A partition with a tombstone in its own topic also falls back to the worker's topic, but only to a newer value. The
    tombstone was acknowledged in the worker's topic first (E7). So an older value there is a zombie's late copy, and a
    newer value is from a time in which the connector had no topic of its own.
    """
    found = {encode_key("", known.partition): known for known in fallback}
    for known in own:
        canonical = encode_key("", known.partition)
        below = found.get(canonical)
        if known.offset is not None or below is None or below.timestamp_ms <= known.timestamp_ms:
            found[canonical] = known
    return list(found.values())


def stored(known: Iterable[KnownOffset]) -> list[StoredOffset]:
    """Return the offsets that are not tombstones."""
    return [StoredOffset(one.partition, one.offset) for one in known if one.offset is not None]


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


class OffsetTable:
    """The newest offset of each partition of each connector, folded from records of the topic."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[bytes, KnownOffset]] = {}
        self._carried: dict[bytes, dict[int, bytes]] = {}  # by key and topic partition

    def apply(self, record: LogRecord) -> None:
        if record.key is not None and is_carried(record.key):
            self._apply_carried(record.key, record)
            return
        parsed = _parse(record)
        if parsed is None:
            return
        connector, partition, offset = parsed
        entries = self._entries.setdefault(connector, {})
        canonical = encode_key(connector, partition)
        before = entries.get(canonical)
        # Two spellings of one key may be in two topic partitions; only timestamps order them.
        if before and before.topic_partition != record.partition and before.timestamp_ms > record.timestamp_ms:
            return
        entries[canonical] = KnownOffset(partition, offset, record.key or b"", record.timestamp_ms, record.partition)

    def _apply_carried(self, key: bytes, record: LogRecord) -> None:
        if record.value is not None:
            is_text = _is_text(record.value)
            if not is_text:  # a message to the task has only text; without it, the task replaces what is there
                LOG.warning(
                    "Skipped %d/%d of the offsets topic: no entries of a ledger", record.partition, record.offset
                )
            self._carried.setdefault(key, {})[record.partition] = record.value if is_text else b""
            return
        of_key = self._carried.get(key, {})
        of_key.pop(record.partition, None)
        if not of_key:
            self._carried.pop(key, None)

    def carried(self, connector: str, task: int, ledger: str) -> dict[int, bytes]:
        """Return what the topic carries of a task's entries for this ledger, by topic partition."""
        return dict(self._carried.get(carried_key(connector, task, ledger), {}))

    def known(self, connector: str) -> list[KnownOffset]:
        """Return every partition that has a record in the topic, including tombstones."""
        return list(self._entries.get(connector, {}).values())

    def key(self, connector: str, partition: SourcePartition | None) -> bytes:
        """Return the key bytes to write: those that the topic has for the partition, or else ours."""
        canonical = encode_key(connector, partition)
        entry = self._entries.get(connector, {}).get(canonical)
        return entry.key if entry is not None else canonical


class OffsetReader:
    """Reads one offsets topic with one consumer, which is idle between reads. Thread-safe.

    Callers that arrive during a read share the next one, because many tasks start at once.
    """

    def __init__(self, conf: Mapping[str, Any], topic: str) -> None:
        self._conf = conf
        self._reader = LogReader(conf, topic)
        self._topic_id: str | None = None
        self._table = OffsetTable()
        self._table_lock = threading.Lock()
        self._reading = threading.Lock()
        self._catch_up = SharedRead(self._read_to_end)

    def read_known(self, connector: str, timeout_s: float) -> list[KnownOffset]:
        """Return the offsets of `connector` from everything written before this call. Waits for open transactions.

        Call this only after the predecessor was fenced (E3). Raises ReadTimeoutError if the end is not reached in time.
        """
        self._catch_up(timeout_s)
        with self._table_lock:
            return self._table.known(connector)

    def carried(self, connector: str, task: int, ledger: str) -> dict[int, bytes]:
        """Return what the topic, as last read, carries of a task's entries for this ledger, by topic partition."""
        with self._table_lock:
            return self._table.carried(connector, task, ledger)

    def catch_up(self, timeout_s: float) -> None:
        """Read what is committed now, so that the next read has less to do. Does not wait for open transactions."""
        self._read_to_end(timeout_s, waits=False)

    def key(self, connector: str, partition: SourcePartition | None) -> bytes:
        """Return the key bytes that the topic, as last read, has for the partition, or else ours."""
        # This does not read first: the read could wait for the very transaction that this record is part of.
        with self._table_lock:
            return self._table.key(connector, partition)

    def close(self) -> None:
        with self._reading:
            self._reader.close()

    def _read_to_end(self, timeout_s: float, *, waits: bool = True) -> None:
        with self._reading:
            self._maybe_start_over(timeout_s)
            try:
                self._reader.read_to_end(timeout_s, self._take, waits=waits, looks=False)  # checked just now
            finally:
                self._reader.rest()

    def _maybe_start_over(self, timeout_s: float) -> None:
        """Start over if the topic was deleted and created again: its old content is gone (KIP-618, re-upgrade)."""
        topic_id = self._reader.look(timeout_s)
        if self._topic_id not in (None, topic_id):
            LOG.info("Topic %s was deleted and created again: reading it from the start", self._reader.topic)
            self._reader.close()
            self._reader = LogReader(self._conf, self._reader.topic)
            with self._table_lock:
                self._table = OffsetTable()
        self._topic_id = topic_id

    def _take(self, record: LogRecord) -> None:
        with self._table_lock:
            self._table.apply(record)


def _parse(record: LogRecord) -> tuple[str, SourcePartition | None, SourceOffset | None] | None:
    try:
        key = _read(record.key or b"")
        offset = None if record.value is None else _read(record.value)
        connector, partition = key
        _check(partition, "partition")
    except (ValueError, TypeError) as error:
        LOG.warning("Skipped %d/%d of the offsets topic: %s", record.partition, record.offset, error)
        return None
    if not isinstance(connector, str) or not isinstance(offset, dict | None):
        LOG.warning("Skipped %d/%d of the offsets topic: no source offset", record.partition, record.offset)
        return None
    return connector, partition, offset


def _check(fields: Any, what: str) -> None:
    if fields is None:
        return
    if not isinstance(fields, Mapping):
        raise OffsetFormatError(f"A source {what} must be a mapping, not {type(fields).__name__}.")
    for name, value in fields.items():
        if not isinstance(name, str):
            raise OffsetFormatError(f"A source {what} may only use strings as names, but has {name!r}.")
        if not _is_primitive(value):
            raise OffsetFormatError(
                f"A source {what} may only hold strings, 64-bit whole numbers, finite floats, booleans and None, "
                f"but {name!r} holds {value!r} ({type(value).__name__})."
            )


def _is_primitive(value: Any) -> bool:
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    if isinstance(value, float):
        return value - value == 0  # Neither infinite nor NaN.
    return value is None or isinstance(value, str)
