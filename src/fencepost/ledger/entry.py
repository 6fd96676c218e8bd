"""Records with entries: of a ledger's topic, and of an offsets topic that carries them for a while.

The value is JSON; lists that would repeat names have indexes of `producers` and `topics` instead:

    {"version": 1, "connector": "c", "task": 0, "offsets": "connect-offsets",
     "producers": [["connect-cluster-c-0", "INCARNATION"]], "topics": [["t", "TOPIC ID"]],
     "entries": [[PRODUCER, 17, [[TOPIC, PARTITION, PRODUCER ID, PRODUCER EPOCH, SEQUENCE, AFTER,
                                  RECORDS, BYTES, "VALUES", "KEYS", LENGTHS, HEADERS]]]]}

The key in a ledger's topic is the connector's name, that in an offsets topic is in `carried`. `offsets` is the offsets
topic that may carry later entries of the task. A producer is its transactional id, and an incarnation: its entries are
numbered from 0. A run is what the producer has written to one partition, in one transaction, since the run before. A
transaction has several entries if one would be larger than a record may be. VALUES and KEYS are checksums of blocks of
records (`kafka.codec.run_digest`), four bytes each, little endian, in base64. All records of a run come after offset
AFTER, which is -1 if that is not known.
"""

import base64
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from fencepost.api.errors import FatalError
from fencepost.config.check import topic_name
from fencepost.kafka.codec.run_digest import BLOCK, DigestOfRun, WrittenRun
from fencepost.record import TopicPartition

VERSION = 1
BLOCK_BYTES = 11
"""What the checksums of a block of values and keys add to an entry: eight bytes, in base64."""
_END = b"]}"
_fault = topic_name()
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

    @property
    def id(self) -> tuple[str, int]:
        """Return what no other entry has."""
        return self.writer.incarnation, self.number


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """Entries of one task, in their order. `offsets` is the offsets topic that may carry its later ones."""

    task: int
    offsets: str
    entries: Sequence[LedgerEntry]

    @classmethod
    def of(cls, value: bytes) -> "LedgerRecord":
        """Parse a record's value. Raises LedgerFormatError."""
        try:
            found = orjson.loads(value)
            if found["version"] != VERSION:
                raise ValueError(f"its version is {found['version']!r:.20}, and this Fencepost knows {VERSION}")
            connector, task, topics = found["connector"], found["task"], found["topics"]
            texts = connector, found["offsets"], *chain.from_iterable((*found["producers"], *topics))
            if not all(isinstance(text, str) for text in texts):
                raise ValueError("a name is no text")
            _ensure_topics(found["offsets"], *(name for name, _ in topics))
            _ensure_numbers(task, *(each for producer, number, _ in found["entries"] for each in (producer, number)))
            writers = [Writer(connector, task, incarnation, id_) for id_, incarnation in found["producers"]]
            if not all(runs for *_, runs in found["entries"]):
                raise ValueError("an entry has no runs")
            entries = tuple(
                LedgerEntry(writers[producer], number, tuple(_run(each, topics) for each in runs))
                for producer, number, runs in found["entries"]
            )
            return cls(task, found["offsets"], entries)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else error
            raise LedgerFormatError(f"this is no record of a ledger: {reason}") from error


class RecordEncoder:
    """Encodes entries of one task, each once, for several records with the same ones. Their order may not change."""

    def __init__(self, connector: str, task: int, offsets: str) -> None:
        self._beginning = {"version": VERSION, "connector": connector, "task": task, "offsets": offsets}
        self._producers: dict[tuple[str, str], int] = {}
        self._topics: dict[tuple[str, str], int] = {}
        self._head = b""
        self._head_of = (0, 0)  # how many producers and topics it names

    def encoded(self, entry: LedgerEntry) -> bytes:
        """Return one of the `entries`."""
        producers, writer = self._producers, entry.writer
        producer = producers.setdefault((writer.transactional_id, writer.incarnation), len(producers))
        return orjson.dumps((producer, entry.number, [_of_run(run, self._topics) for run in entry.runs]))

    def value(self, encoded: Iterable[bytes]) -> bytes:
        """Return the value of a record with entries that this has encoded."""
        names = len(self._producers), len(self._topics)
        if not self._head or names != self._head_of:
            tables = {"producers": [*self._producers], "topics": [*self._topics], "entries": ()}
            self._head, self._head_of = orjson.dumps({**self._beginning, **tables})[: -len(_END)], names
        return self._head + b",".join(encoded) + _END


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


def _of_run(run: WrittenRun, topics: dict[tuple[str, str], int]) -> tuple[Any, ...]:
    digest = run.digest
    return (
        topics.setdefault((run.place.topic, run.topic_id), len(topics)),
        run.place.partition,
        run.producer_id,
        run.producer_epoch,
        run.sequence,
        run.after,
        digest.records,
        digest.size_bytes,
        _packed(digest.values),
        _packed(digest.keys),
        digest.lengths,
        digest.headers,
    )


def _run(found: Sequence[Any], topics: Sequence[tuple[str, str]]) -> WrittenRun:
    index, partition, producer_id, epoch, sequence, after, records, size_bytes, values, keys, lengths, headers = found
    _ensure_numbers(index, partition, producer_id, epoch, sequence, after + 1, records, size_bytes, lengths, headers)
    topic, topic_id = topics[index]
    digest = DigestOfRun(records, size_bytes, _unpacked(values), _unpacked(keys), lengths, headers)
    blocks = -(-records // BLOCK)
    is_whole = len(digest.values) == blocks and len(digest.keys) in (0, blocks)
    if not is_whole or (any(digest) and not records):  # with 10 ** 18, a loop over the blocks would not end
        raise ValueError(f"a run says that it has {records} records, and its checksums are those of more or fewer")
    return WrittenRun(TopicPartition(topic, partition), producer_id, epoch, sequence, digest, topic_id, after)


def _ensure_topics(*names: str) -> None:
    """Raise ValueError if a broker would refuse a request with one of the names."""
    for fault in filter(None, map(_fault, names)):
        raise ValueError(fault)


def _ensure_numbers(*numbers: Any) -> None:
    """Raise ValueError if one is no integer, or negative: as an index it would count from the end."""
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("what should be a number is none, or negative")


def _packed(sums: Sequence[int | None]) -> str:
    return base64.b64encode(struct.pack(f"<{len(sums)}I", *sums)).decode() if sums else ""


def _unpacked(text: str) -> tuple[int, ...]:
    data = base64.b64decode(text, validate=True)
    if len(data) % 4:
        raise ValueError(f"{len(data)} bytes of checksums")
    return tuple(int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4))
