"""Records of a ledger's topic.

The key is the connector's name; the value is JSON:

    {"version": 1, "connector": "c", "task": 0, "incarnation": "…", "producer": "connect-cluster-c-0", "number": 17,
     "runs": [{"topic": "t", "partition": 0, "producer_id": 2000, "producer_epoch": 3, "sequence": 0, "records": 130,
               "bytes": 13000, "values": "…", "keys": "", "lengths": 1234, "headers": 5678}]}

`number` counts the entries of one producer (`producer` is its transactional id) of one incarnation of the task, from 0.
A run is what the producer has written to one partition since its entry before, in this transaction. `values` and `keys`
are checksums of blocks of records (`kafka.codec.run_digest`), four bytes each, little endian, in base64.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from fencepost.api.errors import FatalError
from fencepost.kafka.codec.run_digest import DigestOfRun, WrittenRun
from fencepost.record import TopicPartition

VERSION = 1


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
    """What one producer says that it has written since its entry before."""

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


def _of_run(run: WrittenRun) -> dict[str, Any]:
    digest = run.digest
    return {
        "topic": run.place.topic,
        "partition": run.place.partition,
        "producer_id": run.producer_id,
        "producer_epoch": run.producer_epoch,
        "sequence": run.sequence,
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
    return WrittenRun(place, found["producer_id"], found["producer_epoch"], found["sequence"], digest)


def _packed(sums: Sequence[int | None]) -> str:
    return base64.b64encode(b"".join(each.to_bytes(4, "little") for each in sums if each is not None)).decode()


def _unpacked(text: str) -> tuple[int, ...]:
    data = base64.b64decode(text, validate=True)
    if len(data) % 4:
        raise ValueError(f"{len(data)} bytes of checksums")
    return tuple(int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4))
