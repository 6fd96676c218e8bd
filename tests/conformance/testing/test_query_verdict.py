"""The verdict on a query finds what is wrong with its output and with its transactions, and nothing in a right one."""

import pytest

from fencepost.kafka.produce.batch_client import BatchClient
from fencepost.testing import eventually
from fencepost.testing.verdict import Observation
from support.chaos.query_log import (
    InputRecord,
    Pair,
    Producer,
    QueryVerdict,
    Transaction,
    expected_batches,
    transactions_of,
    verdict,
)
from support.log_writer import LogWriter

INPUT = [InputRecord(p, offset, b"k%d" % (offset % 2), b"%d" % (offset // 2)) for p in (0, 1) for offset in range(6)]
ENDS = [{0: 2, 1: 3}, {0: 6, 1: 3}, {0: 6, 1: 6}]


def judged(query: str, batches: list[list[Pair]], transactions: list[Transaction]) -> QueryVerdict:
    """Judge what the committed ones of these transactions show."""
    shown = [pair for each in transactions if each.is_committed for pair in each.records]
    return verdict(query, batches, [Observation("out", 0, key, value) for key, value in shown], transactions)


def right(batches: list[list[Pair]]) -> list[Transaction]:
    """Return a transaction for each batch."""
    return [Transaction(Producer(1, number), list(batch), True) for number, batch in enumerate(batches)]


@pytest.mark.parametrize("query", ["rows", "unique", "counts"])
def test_output_of_each_query_in_one_transaction_a_batch_is_clean(query: str) -> None:
    batches = expected_batches(query, INPUT, ENDS)
    aborted = Transaction(Producer(1, 9), batches[0][:1], is_committed=False)
    found = judged(query, batches, [*right(batches), aborted])
    assert found.is_clean, found
    assert found.delivery.expected == {"rows": 12, "unique": 3, "counts": 6}[query]


def _doubled(batches: list[list[Pair]]) -> list[Transaction]:
    return [*right(batches), Transaction(Producer(1, 9), list(batches[1]), is_committed=True)]


def _divided(batches: list[list[Pair]]) -> list[Transaction]:
    first, *rest = batches
    return [*right([first[:2], *rest]), Transaction(Producer(1, 9), first[2:], is_committed=True)]


def _half(batches: list[list[Pair]]) -> list[Transaction]:
    return right([batches[0], batches[1][:-1], batches[2]])


def _together(batches: list[list[Pair]]) -> list[Transaction]:
    return right([batches[0] + batches[1], batches[2]])


def _skipped(batches: list[list[Pair]]) -> list[Transaction]:
    return right([batches[0], batches[2]])


def _open(batches: list[list[Pair]]) -> list[Transaction]:
    return [*right(batches), Transaction(Producer(1, 9), list(batches[1]))]


@pytest.mark.parametrize(
    ("made", "symptom"),
    [
        (_doubled, "4 duplicated"),
        (_divided, "batch 0 is in several transactions"),
        (_half, "has 3 of 4 of batch 1"),
        (_together, "has records of several batches"),
        (_skipped, "4 missing"),
        (_open, "is open"),
    ],
)
def test_wrong_transactions_of_a_query_are_named(made: object, symptom: str) -> None:
    batches = expected_batches("rows", INPUT, ENDS)
    found = judged("rows", batches, made(batches))  # type: ignore[operator]
    assert not found.is_clean
    assert symptom in str(found)


def test_missing_update_of_a_count_is_found_though_later_ones_follow() -> None:
    batches = expected_batches("counts", INPUT, ENDS)
    found = judged("counts", batches, right([batches[0], [], batches[2]]))
    assert len(found.delivery.missing) == len(batches[1])


def test_transactions_are_read_from_the_log_with_their_ends(log_writer: LogWriter, topic_name: str) -> None:
    """Also the part of one that is in another partition, and one that is open."""
    topic = log_writer.topic(topic_name, 2)
    log_writer.send(topic, ["in none"])
    client = BatchClient({"bootstrap.servers": log_writer.bootstrap, "transactional.id": topic})
    client.init_transactions(60)
    for values, end in ((("a", "b"), client.commit), (("c",), client.abort), (("d", "e"), client.flush)):
        client.begin()
        for partition, value in enumerate(values):
            client.produce(topic, value.encode(), partition=partition)
        client.flush(60)
        end(60)
    expected = {(b"a", b"b"): True, (b"c",): False, (b"d", b"e"): None}

    def read() -> dict[tuple[bytes | None, ...], bool | None]:
        found = transactions_of(lambda _: log_writer.bootstrap, [(topic, 0), (topic, 1)])
        return {tuple(value for _, value in each.records): each.is_committed for each in found}

    eventually(lambda: read() == expected)  # markers come after the answer
    client.drop()
