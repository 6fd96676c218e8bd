"""The records of direct writes in the topic of option `offsets.topic`, and the comparison of two writes.

Keys are those of an offsets topic, with the owner `fencepost-write`:

    {"id", "partition"}   what a partition has committed, in the transaction that committed it
    {"id"}                the newest run of the write, the only one that may commit
    {"id", "pulse"}       no value: a heartbeat of the partition, whose transaction has been open for a while
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from fencepost.api import FatalError
from fencepost.kafka.read.log import LogRecord
from fencepost.spark.direct_write.digest import Digested
from fencepost.storage.offset_topic import encode

OWNER = "fencepost-write"
_PREFIX = f'["{OWNER}",'.encode()


class WriteDiffersError(FatalError):
    """The rows to be written now are not those of the write that was begun with the same `write.id`."""


@dataclass(frozen=True)
class Marker:
    """What a partition has committed: its number of rows, their digest, and properties of the write."""

    rows: int
    is_done: bool
    digest: str | None
    partitions: int | None
    topic: str | None
    columns: str | None
    run: str | None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "Marker":
        """Parse a value of the topic. Values of older versions have no digest."""
        known = {name: value.get(name) for name in ("digest", "partitions", "topic", "columns", "run")}
        return cls(rows=int(value.get("rows", 0)), is_done=bool(value.get("done")), **known)

    def value(self) -> dict[str, Any]:
        """Return the value to be written: the position, and what a rerun compares."""
        return {
            "rows": self.rows,
            "done": self.is_done,
            "digest": self.digest,
            "partitions": self.partitions,
            "topic": self.topic,
            "columns": self.columns,
            "run": self.run,
        }


@dataclass(frozen=True)
class AnnouncedRun:
    """A run of a write: once it is announced, no other run of the same write commits anything."""

    run: str
    partitions: int | None
    is_over: bool
    timestamp_ms: int


class Journal:
    """Everything that the topic says about writes, folded from its records.

    If it is read uncommitted, only the runs count, as these are written without a transaction.
    """

    def __init__(self) -> None:
        self.markers: dict[str, dict[int, Marker]] = {}
        self.runs: dict[str, AnnouncedRun] = {}
        self.before: dict[str, AnnouncedRun] = {}  # each write's run before its newest one
        self.heartbeats: set[str] = set()  # transactional ids
        self._newest: dict[tuple[str, int], LogRecord] = {}  # of each partition of a write

    def take(self, record: LogRecord) -> None:
        """Fold in one record. Records of others are ignored."""
        if not (record.key or b"").startswith(_PREFIX):
            return
        key = orjson.loads(record.key or b"")
        name, value = key[1], None if record.value is None else orjson.loads(record.value)
        if "pulse" in name:
            self.heartbeats.add(transactional_id(name["id"], name["pulse"]))
        elif "partition" in name:
            if self._is_newest(name["id"], name["partition"], record):
                self._take_marker(name["id"], name["partition"], value)
        else:
            self._take_run(name["id"], value, record.timestamp_ms)

    def _is_newest(self, write: str, partition: int, record: LogRecord) -> bool:
        """Say whether a marker counts, and remember it: within a partition of the topic the last, across two the newer.

        A key is in two partitions if the topic has grown, or another partitioner wrote it; they are read in any order.
        """
        before = self._newest.get((write, partition))
        if before is not None and before.partition != record.partition and before.timestamp_ms > record.timestamp_ms:
            return False
        self._newest[write, partition] = record
        return True

    def _take_marker(self, write: str, partition: int, value: Mapping[str, Any] | None) -> None:
        markers = self.markers.setdefault(write, {})
        markers.pop(partition, None)
        if value is not None:
            markers[partition] = Marker.of(value)

    def _take_run(self, write: str, value: Mapping[str, Any] | None, timestamp_ms: int) -> None:
        if value is None:
            self.runs.pop(write, None)
            return
        found = AnnouncedRun(value["run"], value.get("partitions"), bool(value.get("over")), timestamp_ms)
        newest = self.runs.get(write)
        if newest is not None and newest.run != found.run:
            if found.is_over:
                return  # written late, by a run that was superseded
            self.before[write] = newest
        self.runs[write] = found


def transactional_id(write: str, partition: int) -> str:
    return f"{OWNER}-{write}-{partition}"


def marker_record(write: str, partition: int, marker: Marker | None) -> tuple[bytes, bytes | None]:
    return encode(OWNER, {"id": write, "partition": partition}, None if marker is None else marker.value())


def run_record(write: str, begun: AnnouncedRun | None) -> tuple[bytes, bytes | None]:
    value = None if begun is None else {"run": begun.run, "partitions": begun.partitions, "over": begun.is_over}
    return encode(OWNER, {"id": write}, value)


def heartbeat_record(write: str, partition: int) -> tuple[bytes, bytes | None]:
    return encode(OWNER, {"id": write, "pulse": partition}, None)


def differences(markers: Mapping[int, Marker], *, topic: str | None, columns: str) -> list[str]:
    """Return what differs, before any row is read, from the write that left `markers`.

    Their `write.partitions` is not compared: it may have been wrong, and rows are compared partition by partition.
    """
    found = []
    for marker in markers.values():
        if marker.digest is None:
            found.append("it was begun by an older Fencepost, which did not record what it wrote")
        elif marker.topic != topic:
            found.append(f"it was begun with {_topic(marker.topic)}, and now it is {_topic(topic)}")
        elif marker.columns != columns:
            found.append(f"its columns were {marker.columns}, and now they are {columns}")
    return sorted(set(found))


def cut_differences(markers: Mapping[int, Marker], partitions: int) -> list[str]:
    """Return differences of the number of partitions, which may explain why rows differ."""
    before = {marker.partitions for marker in markers.values()} - {partitions}
    return [f"it was begun with write.partitions={number}, and now it is {partitions}" for number in before]


def row_differences(markers: Mapping[int, Marker], found: Mapping[int, Digested]) -> list[str]:
    """Return which partitions no longer begin with the rows that they have committed, and how they differ."""
    nothing = Digested(0, "", {})
    compared = (
        (p, marker, found.get(p, nothing)) for p, marker in sorted(markers.items()) if p in found or marker.rows
    )
    differing = (row_difference(partition, marker, now) for partition, marker, now in compared)
    return [difference for difference in differing if difference is not None]


def row_difference(partition: int, marker: Marker, now: Digested) -> str | None:
    """Return how a partition differs from what it has committed; None if it does not."""
    if now.rows < marker.rows or (marker.is_done and now.rows != marker.rows):
        return f"partition {partition} had {marker.rows} rows, and now it has {now.rows}"
    if (now.digest if marker.is_done else now.ends.get(marker.rows)) != marker.digest:
        return f"partition {partition} has other rows than the {marker.rows} that are committed, or in another order"
    return None


def differs(write: str, found: Sequence[str]) -> WriteDiffersError:
    """Return the error for these differences, with what to do."""
    more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
    return WriteDiffersError(
        f"write.id {write} was used for a different write: {'; '.join(found[:3])}{more}. Write the same rows in the "
        "same partitions and order, or use another write.id for a different write. How a scan of files is cut depends "
        "on the number of cores, unless spark.sql.files.minPartitionNum is set; Spark does not keep the order of rows "
        "after a shuffle, unless they are sorted"
    )


def _topic(topic: str | None) -> str:
    return "topics of its rows" if topic is None else f"topic={topic}"
