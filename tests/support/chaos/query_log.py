"""What streaming queries have written, judged from their checkpoints and the brokers' logs.

The offsets in a checkpoint say which records of the input each micro-batch has. So what each batch must write is
computed from the committed input, by a plain loop, and compared with what a read_committed consumer sees, and with the
transactions in the logs: a batch is in one of them, whole, and each holds one batch.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fencepost.kafka.codec.decode import decoded
from fencepost.kafka.codec.encode_header import HEADER
from fencepost.testing.verdict import Observation, Verdict, judge
from support.batch_topic import BatchWriter
from support.chaos.query_program import SPARKS_OWN

_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_COMMIT = 1
_NAMED = 3

Pair = tuple[bytes | None, bytes | None]
Place = tuple[str, int]


class Producer(NamedTuple):
    """Of a transaction. In protocol version 2 each transaction has an epoch of its own."""

    id: int
    epoch: int


@dataclass
class Transaction:
    """Records of one transaction, of all partitions that were read. `is_committed` is None while it is open."""

    producer: Producer
    records: list[Pair] = field(default_factory=list)
    is_committed: bool | None = None


class InputRecord(NamedTuple):
    """A record that read_committed readers of the input see."""

    partition: int
    offset: int
    key: bytes
    value: bytes


@dataclass(frozen=True)
class QueryVerdict:
    """What is wrong with the output of one query; nothing is if `is_clean`."""

    query: str
    delivery: Verdict
    batches: int
    problems: tuple[str, ...] = ()
    """Of its transactions: batches that are divided or together with another, transactions that are still open."""

    @property
    def is_clean(self) -> bool:
        return self.delivery.is_clean and not self.problems

    def __str__(self) -> str:
        more = "".join(f"\n  {each}" for each in self.problems[:_NAMED])
        more += f"\n  and {len(self.problems) - _NAMED} more" if len(self.problems) > _NAMED else ""
        return f"{self.query}, {self.batches} micro-batches: {self.delivery}{more}"


def verdict(
    query: str,
    expected: Sequence[Sequence[Pair]],
    seen: Iterable[Observation],
    transactions: Sequence[Transaction],
) -> QueryVerdict:
    """Judge a query. `expected` has the records of each batch, `seen` is what a read_committed consumer saw. Pure."""
    by_source: dict[bytes | None, list[bytes | None]] = defaultdict(list)
    for batch in expected:
        for key, value in batch:
            by_source[key].append(value)
    delivery = judge(by_source, seen, sighting=lambda each: (each.key, each.value))
    problems = () if query == SPARKS_OWN else tuple(_problems(expected, transactions))
    return QueryVerdict(query, delivery, len(expected), problems)


def _problems(expected: Sequence[Sequence[Pair]], transactions: Sequence[Transaction]) -> Iterator[str]:
    batch_of = {pair: number for number, batch in enumerate(expected) for pair in batch}
    places: dict[int, set[Producer]] = defaultdict(set)
    for each in transactions:
        if each.is_committed is None:
            yield f"the transaction of {each.producer} is open"
        if not each.is_committed:
            continue
        found = Counter(batch_of.get(pair, -1) for pair in each.records)
        if len(found) > 1:
            yield f"the transaction of {each.producer} has records of several batches: {dict(found)}"
        for number, count in found.items():
            places[number].add(each.producer)
            if number >= 0 and count != len(expected[number]):
                yield f"the transaction of {each.producer} has {count} of {len(expected[number])} of batch {number}"
    for number, producers in places.items():
        if number >= 0 and len(producers) > 1:
            yield f"batch {number} is in several transactions: {sorted(producers)}"


# what each batch must write


def expected_batches(query: str, records: Iterable[InputRecord], ends: Sequence[Mapping[int, int]]) -> list[list[Pair]]:
    """Return what each batch of a query must write, from the input and the batches' ends."""
    batches: list[list[InputRecord]] = [[] for _ in ends]
    for record in sorted(records):
        number = next((n for n, end in enumerate(ends) if record.offset < end.get(record.partition, 0)), None)
        assert number is not None, f"no batch has {record}"
        batches[number].append(record)
    return list(_OUTPUTS[query](batches))


def _rows(batches: Iterable[Sequence[InputRecord]]) -> Iterator[list[Pair]]:
    for batch in batches:
        yield [(b"%d" % r.partition, b"%d:%d:%s" % (r.partition, r.offset, r.value)) for r in batch]


def _unique(batches: Iterable[Sequence[InputRecord]]) -> Iterator[list[Pair]]:
    known: set[bytes] = set()
    for batch in batches:
        new = dict.fromkeys(record.value for record in batch if record.value not in known)
        known.update(new)
        yield [(value, value) for value in new]


def _counts(batches: Iterable[Sequence[InputRecord]]) -> Iterator[list[Pair]]:
    total: Counter[bytes] = Counter()
    for batch in batches:
        total.update(record.key for record in batch)
        yield [(key, b"%d" % total[key]) for key in {record.key for record in batch}]


_OUTPUTS: dict[str, Callable[[Iterable[Sequence[InputRecord]]], Iterator[list[Pair]]]] = {
    "rows": _rows,
    SPARKS_OWN: _rows,
    "unique": _unique,
    "counts": _counts,
}


def batch_ends(checkpoint: Path, topic: str) -> list[dict[int, int]]:
    """Return where each micro-batch of a checkpoint ends, by partition of the input."""
    numbers = sorted(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal())
    assert numbers == list(range(len(numbers))), f"{checkpoint} has not all of its batches: {numbers}"
    texts = [(checkpoint / "offsets" / str(number)).read_text() for number in numbers]
    return [{int(p): end for p, end in json.loads(text.splitlines()[2])[topic].items()} for text in texts]


# the brokers' logs


def transactions_of(server_of: Callable[[Place], str], places: Iterable[Place]) -> list[Transaction]:
    """Return all transactions in the logs of these partitions, each of which is read from its leader."""
    found: dict[Producer, Transaction] = {}
    for topic, partition in places:
        with BatchWriter(server_of((topic, partition))) as reader:
            _read_log(reader.read(topic, partition), found)
    return list(found.values())


def _read_log(batches: Iterable[memoryview], found: dict[Producer, Transaction]) -> None:
    open_here: dict[int, set[Producer]] = defaultdict(set)
    for batch in batches:
        header = HEADER.unpack_from(batch)
        attributes, producer = header[5], Producer(header[9], header[10])
        if not attributes & _TRANSACTIONAL:
            continue
        if attributes & _CONTROL:
            [marker] = decoded(batch)
            is_commit = int.from_bytes((marker.key or b"")[2:4], "big") == _COMMIT
            for each in open_here.pop(producer.id, ()):
                known = found[each].is_committed
                assert known in (None, is_commit), f"{each} is committed in one partition and aborted in another"
                found[each].is_committed = is_commit
            continue
        transaction = found.setdefault(producer, Transaction(producer))
        transaction.records += [(record.key, record.value) for record in decoded(batch)]
        open_here[producer.id].add(producer)
    for each in (producer for left in open_here.values() for producer in left):
        found[each].is_committed = None
