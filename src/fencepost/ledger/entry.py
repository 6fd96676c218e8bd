"""Records of a ledger's topic.

The key is the connector's name; the value is JSON:

    {"version": 1, "connector": "c", "task": 0, "incarnation": "…", "producer": "connect-cluster-c-0", "number": 17,
     "runs": [{"topic": "t", "topic_id": "…", "partition": 0, "producer_id": 2000, "producer_epoch": 3, "sequence": 0,
               "after": 41, "records": 130, "bytes": 13000, "values": "…", "keys": "", "lengths": 1234,
               "headers": 5678}]}

`number` counts the entries of one producer (`producer` is its transactional id) of one incarnation of the task, from 0.
A run is what the producer has written to one partition, in this transaction, since the run before. A transaction has
several entries if one would be larger than a record may be. `values` and `keys` are checksums of blocks of records
(`kafka.codec.run_digest`), four bytes each, little endian, in base64. All records of a run come after offset `after`,
which is -1 if that is not known.
"""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from fencepost.api.errors import FatalError
from fencepost.kafka.codec.run_digest import DigestOfRun, WrittenRun
from fencepost.record import TopicPartition

VERSION = 1
BLOCK_BYTES = 11
"""What the checksums of a block of values and keys add to an entry: eight bytes, in base64."""
_RUN_BYTES = 320  # of a run without its topic's name and its checksums, with numbers that are as long as they can be


class LedgerFormatError(FatalError):
    """A record of the ledger's topic cannot be read."""


@dataclass(frozen=True, slots=True)
class Writer:
    """One producer of one incarnation of a task."""

    connector: str
    task: int
    incarnation: str
    transactional_id: str


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What one producer says that it has written to some partitions."""

    writer: Writer
    number: int
    runs: Sequence[WrittenRun]

    def key(self) -> bytes:
        return self.writer.connector.encode()

    def value(self) -> bytes:
        writer = self.writer
        return orjson.dumps({
            "version": VERSION,
            "connector": writer.connector,
            "task": writer.task,
            "incarnation": writer.incarnation,
            "producer": writer.transactional_id,
            "number": self.number,
            "runs": [_of_run(run) for run in self.runs],
        })  # fmt: skip

    @classmethod
    def of(cls, value: bytes) -> "LedgerEntry":
        """Parse a record's value. Raises LedgerFormatError."""
        try:
            found = orjson.loads(value)
            if found["version"] != VERSION:
                raise ValueError(f"its version is {found['version']}, and this Fencepost knows {VERSION}")
            writer = Writer(found["connector"], found["task"], found["incarnation"], found["producer"])
            return cls(writer, found["number"], tuple(map(_run, found["runs"])))
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerFormatError(f"this is not an entry of a ledger: {error}") from error


def parted(runs: Sequence[WrittenRun], most_bytes: int) -> Iterator[Sequence[WrittenRun]]:
    """Divide runs among entries with at most `most_bytes` of them in each; a run that is larger has one for itself."""
    part: list[WrittenRun] = []
    left_bytes = most_bytes
    for run in runs:
        size_bytes = _RUN_BYTES + len(run.place.topic) + BLOCK_BYTES * len(run.digest.values)
        if part and size_bytes > left_bytes:
            yield part
            part, left_bytes = [], most_bytes
        part.append(run)
        left_bytes -= size_bytes
    if part:
        yield part


def _of_run(run: WrittenRun) -> dict[str, Any]:
    digest = run.digest
    return {
        "topic": run.place.topic,
        "topic_id": run.topic_id,
        "partition": run.place.partition,
        "producer_id": run.producer_id,
        "producer_epoch": run.producer_epoch,
        "sequence": run.sequence,
        "after": run.after,
        "records": digest.records,
        "bytes": digest.size_bytes,
        "values": _packed(digest.values),
        "keys": _packed(digest.keys),
        "lengths": digest.lengths,
        "headers": digest.headers,
    }


def _run(found: Any) -> WrittenRun:
    digest = DigestOfRun(
        found["records"],
        found["bytes"],
        _unpacked(found["values"]),
        _unpacked(found["keys"]),
        found["lengths"],
        found["headers"],
    )
    place = TopicPartition(found["topic"], found["partition"])
    return WrittenRun(
        place,
        found["producer_id"],
        found["producer_epoch"],
        found["sequence"],
        digest,
        found["topic_id"],
        found["after"],
    )


def _packed(sums: Sequence[int | None]) -> str:
    return base64.b64encode(b"".join(each.to_bytes(4, "little") for each in sums if each is not None)).decode()


def _unpacked(text: str) -> tuple[int, ...]:
    data = base64.b64decode(text, validate=True)
    if len(data) % 4:
        raise ValueError(f"{len(data)} bytes of checksums")
    return tuple(int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4))
