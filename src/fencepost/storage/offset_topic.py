"""The offsets topic: where each source partition of each connector stands.

A key is the JSON array `["C", {source partition}]`, a value the JSON object of the source offset, or null. Key
bytes have to be stable, or compaction keeps two records for one partition: ours have sorted member names, and
where the topic already knows the partition by other bytes (a Java worker keeps its map's order), by those.
"""

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from fencepost.config import ConfigError
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.storage.shared_read import SharedRead

LOG = logging.getLogger(__name__)

SourcePartition = Mapping[str, Any]
SourceOffset = Mapping[str, Any]
_INT64 = range(-(1 << 63), 1 << 63)


class OffsetFormatError(ConfigError):
    """A source partition or offset that cannot be stored."""


class StoredOffset(NamedTuple):
    partition: SourcePartition | None
    offset: SourceOffset


class KnownOffset(NamedTuple):
    """What one topic says of a source partition: `offset` None is a tombstone, `key` the bytes it stands under."""

    partition: SourcePartition | None
    offset: SourceOffset | None
    key: bytes
    timestamp_ms: int
    topic_partition: int = 0


def encode(
    connector: str, partition: SourcePartition | None, offset: SourceOffset | None
) -> tuple[bytes, bytes | None]:
    """Return the record that says: `partition` of `connector` stands at `offset`; None forgets it.

    It raises OffsetFormatError unless names are strings and values are strings, whole numbers of 64 bits, finite
    floats, booleans or None.
    """
    return encode_key(connector, partition), encode_offset(offset)


def encode_key(connector: str, partition: SourcePartition | None) -> bytes:
    _check(partition, "partition")
    try:
        return orjson.dumps(
            [connector, partition if partition is None else dict(partition)], option=orjson.OPT_SORT_KEYS
        )
    except TypeError as error:
        raise OffsetFormatError(f"The source partition {partition!r} cannot be stored: {error}") from error


def encode_offset(offset: SourceOffset | None) -> bytes | None:
    if offset is None:
        return None
    _check(offset, "offset")
    try:
        return orjson.dumps(dict(offset))
    except TypeError as error:
        raise OffsetFormatError(f"The source offset {offset!r} cannot be stored: {error}") from error


def merge(own: Iterable[KnownOffset], fallback: Iterable[KnownOffset]) -> list[KnownOffset]:
    """Return what a connector with a topic of its own sees: its own offsets, and the worker's where it has none. Pure.

    A partition that is forgotten in its own topic falls back too, but only to what is newer: whoever forgets it has
    had the tombstone acknowledged in the worker's topic before (E7), so an older value there is the late copy of a
    zombie, a newer one that of a time in which the connector had no topic of its own.
    """
    found = {encode_key("", known.partition): known for known in fallback}
    for known in own:
        canonical = encode_key("", known.partition)
        below = found.get(canonical)
        if known.offset is not None or below is None or below.timestamp_ms <= known.timestamp_ms:
            found[canonical] = known
    return list(found.values())


def stored(known: Iterable[KnownOffset]) -> list[StoredOffset]:
    """Return those that are not forgotten."""
    return [StoredOffset(one.partition, one.offset) for one in known if one.offset is not None]


class OffsetTable:
    """The newest offset of every partition of every connector, folded from records of the topic."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[bytes, KnownOffset]] = {}

    def apply(self, record: LogRecord) -> None:
        parsed = _parse(record)
        if parsed is None:
            return
        connector, partition, offset = parsed
        entries = self._entries.setdefault(connector, {})
        canonical = encode_key(connector, partition)
        before = entries.get(canonical)
        # Two spellings of one key may stand in two topic partitions, which only time can order.
        if before and before.topic_partition != record.partition and before.timestamp_ms > record.timestamp_ms:
            return
        entries[canonical] = KnownOffset(partition, offset, record.key or b"", record.timestamp_ms, record.partition)

    def known(self, connector: str) -> list[KnownOffset]:
        """Return every partition that the topic still holds a record of, tombstones included."""
        return list(self._entries.get(connector, {}).values())

    def key(self, connector: str, partition: SourcePartition | None) -> bytes:
        """Return the key bytes to write: those by which the topic knows the partition, or ours."""
        canonical = encode_key(connector, partition)
        entry = self._entries.get(connector, {}).get(canonical)
        return entry.key if entry is not None else canonical


class OffsetReader:
    """Reads one offsets topic, with a consumer kept from read to read; it rests in between. Thread-safe.

    Those who ask while a read is under way share the next one: many tasks start at once.
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
        """Return where `connector` stands, by everything written before this call; open transactions are waited for.

        It is called only after the predecessor was fenced (E3), and raises ReadTimeoutError if the end is not reached
        in time.
        """
        self._catch_up(timeout_s)
        with self._table_lock:
            return self._table.known(connector)

    def catch_up(self, timeout_s: float) -> None:
        """Read what is committed by now, so that the next read has less to do. Waits for no transaction."""
        self._read_to_end(timeout_s, waits=False)

    def key(self, connector: str, partition: SourcePartition | None) -> bytes:
        """Return the key bytes by which the topic, as it was last read, knows the partition, or ours."""
        # Not after a read: it may be waiting for the very transaction that this record goes into.
        with self._table_lock:
            return self._table.key(connector, partition)

    def close(self) -> None:
        with self._reading:
            self._reader.close()

    def _read_to_end(self, timeout_s: float, *, waits: bool = True) -> None:
        with self._reading:
            self._maybe_begin_anew(timeout_s)
            try:
                self._reader.read_to_end(timeout_s, self._take, waits=waits, looks=False)  # it has just looked
            finally:
                self._reader.rest()

    def _maybe_begin_anew(self, timeout_s: float) -> None:
        """Begin anew if the topic was deleted and created again: what it said before is gone (KIP-618, re-upgrade)."""
        topic_id = self._reader.look(timeout_s)
        if self._topic_id not in (None, topic_id):
            LOG.info("Topic %s is another one than before: it is read anew", self._reader.topic)
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
        key = orjson.loads(record.key or b"")
        offset = None if record.value is None else orjson.loads(record.value)
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
        return value in _INT64
    if isinstance(value, float):
        return value - value == 0  # Neither infinite nor NaN.
    return value is None or isinstance(value, str)
