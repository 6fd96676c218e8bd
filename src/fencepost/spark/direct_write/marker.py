"""What stands in the topic of option `offsets.topic` about writes by hand, and how to tell whether two are the same.

Keys are those of an offsets topic, with the owner `fencepost-write`:

    {"id", "partition"}   what a partition has committed, in the transaction that committed it
    {"id"}                which run of the write is the newest: it alone may commit
    {"id", "pulse"}       no value: the partition's transaction has been open for a while, and somebody is at it
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
    """What is to be written now is not what was begun under the same `write.id`."""


@dataclass(frozen=True)
class Marker:
    """What a partition has committed: so many rows with this digest, of a write that looked like this."""

    rows: int
    is_done: bool
    digest: str | None
    partitions: int | None
    topic: str | None
    columns: str | None
    run: str | None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "Marker":
        """Return what a value of the topic says. One of an older version has no digest."""
        known = {name: value.get(name) for name in ("digest", "partitions", "topic", "columns", "run")}
        return cls(rows=int(value.get("rows", 0)), is_done=bool(value.get("done")), **known)

    def value(self) -> dict[str, Any]:
        """Return what is written: the position, and what a rerun compares."""
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
class Begun:
    """A run of a write: from its planning on no other run of the same write commits anything."""

    run: str
    partitions: int | None
    is_over: bool
    timestamp_ms: int


class Journal:
    """All that the topic says of writes, folded from its records. Read uncommitted, of runs only, as these are in no
    transaction.
    """

    def __init__(self) -> None:
        self.markers: dict[str, dict[int, Marker]] = {}
        self.runs: dict[str, Begun] = {}
        self.before: dict[str, Begun] = {}  # each write's run before the newest
        self.pulses: set[str] = set()  # transactional ids
        self._newest: dict[tuple[str, int], LogRecord] = {}  # of each partition of a write

    def take(self, record: LogRecord) -> None:
        """Fold one record in. What is not ours is left alone."""
        if not (record.key or b"").startswith(_PREFIX):
            return
        key = orjson.loads(record.key or b"")
        name, value = key[1], None if record.value is None else orjson.loads(record.value)
        if "pulse" in name:
            self.pulses.add(transactional_id(name["id"], name["pulse"]))
        elif "partition" in name:
            if self._is_newest(name["id"], name["partition"], record):
                self._take_marker(name["id"], name["partition"], value)
        else:
            self._take_run(name["id"], value, record.timestamp_ms)

    def _is_newest(self, write: str, partition: int, record: LogRecord) -> bool:
        """Say whether a marker counts, and note it: in one partition of the topic the last, of two the newer one.

        A key is in two where the topic has grown, or another partitioner wrote it; they are read in any order.
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
        found = Begun(value["run"], value.get("partitions"), bool(value.get("over")), timestamp_ms)
        newest = self.runs.get(write)
        if newest is not None and newest.run != found.run:
            if found.is_over:
                return  # said late, by one that was superseded
            self.before[write] = newest
        self.runs[write] = found


def transactional_id(write: str, partition: int) -> str:
    return f"{OWNER}-{write}-{partition}"


def marker_record(write: str, partition: int, marker: Marker | None) -> tuple[bytes, bytes | None]:
    return encode(OWNER, {"id": write, "partition": partition}, None if marker is None else marker.value())


def run_record(write: str, begun: Begun | None) -> tuple[bytes, bytes | None]:
    value = None if begun is None else {"run": begun.run, "partitions": begun.partitions, "over": begun.is_over}
    return encode(OWNER, {"id": write}, value)


def pulse_record(write: str, partition: int) -> tuple[bytes, bytes | None]:
    return encode(OWNER, {"id": write, "pulse": partition}, None)


def differences(markers: Mapping[int, Marker], *, topic: str | None, columns: str) -> list[str]:
    """Return what can be said, before any row is read, to be another write than the one that left `markers`.

    Not their `write.partitions`: it may have been wrong then, and rows are compared partition by partition.
    """
    found = []
    for marker in markers.values():
        if marker.digest is None:
            found.append("it was begun by an older Fencepost, which did not note what it wrote")
        elif marker.topic != topic:
            found.append(f"it was begun with {_topic(marker.topic)}, and now it is {_topic(topic)}")
        elif marker.columns != columns:
            found.append(f"its columns were {marker.columns}, and now they are {columns}")
    return sorted(set(found))


def cut_differences(markers: Mapping[int, Marker], partitions: int) -> list[str]:
    """Return what the numbers of partitions say of why rows differ."""
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
    """Return how a partition differs from what it has committed, None where it does not."""
    if now.rows < marker.rows or (marker.is_done and now.rows != marker.rows):
        return f"partition {partition} had {marker.rows} rows, and now it has {now.rows}"
    if (now.digest if marker.is_done else now.ends.get(marker.rows)) != marker.digest:
        return f"partition {partition} has other rows than the {marker.rows} that are committed, or in another order"
    return None


def differs(write: str, found: Sequence[str]) -> WriteDiffersError:
    """Return the error that says so, and what to do."""
    more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
    return WriteDiffersError(
        f"write.id {write} is another write than before: {'; '.join(found[:3])}{more}. Write the same rows in the same "
        "partitions and order or, if it is to be another write, with another write.id. How a scan of files is cut "
        "depends on the number of cores, unless spark.sql.files.minPartitionNum is set; the order of rows behind a "
        "shuffle is Spark's own, unless they are sorted"
    )


def _topic(topic: str | None) -> str:
    return "topics of its rows" if topic is None else f"topic={topic}"
