"""A record of a ledger that is damaged, or that somebody else has written, is refused as such."""

import base64
from typing import Any

import orjson
import pytest

from fencepost.ledger.entry import LedgerFormatError, LedgerRecord

_SUM = "AAAAAA=="
_RUN: list[Any] = [0, 0, 7, 0, 0, -1, 1, 10, _SUM, "", 0, 0]


def value(**changed: Any) -> bytes:
    whole = {
        "version": 1, "connector": "c", "task": 0, "offsets": "offsets", "producers": [["id", "first"]],
        "topics": [["t", "topic-id"]], "entries": [[0, 5, [_RUN]]],
    }  # fmt: skip
    return orjson.dumps(whole | changed)


def test_valid_ledger_record_is_read() -> None:
    (entry,) = LedgerRecord.of(value()).entries
    assert (entry.writer.transactional_id, entry.number, len(entry.runs)) == ("id", 5, 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"topics": [[["t"], "id"]]},
        {"topics": [["t", {}]]},
        {"producers": [["id", ["first"]]]},
        {"producers": [[None, "first"]]},
        {"entries": [[0, [5], [_RUN]]]},
        {"entries": [[0, 5, []]]},
        {"entries": [[0, 5]]},
        {"offsets": 1},
        {"task": "0"},
        {"task": -1},
        {"task": True},
        {"entries": [[-1, 5, [_RUN]]]},
        {"entries": [["0", 5, [_RUN]]]},
        {"entries": [[0, -5, [_RUN]]]},
        *({"entries": [[0, 5, [[*_RUN[:at], -2, *_RUN[at + 1 :]]]]]} for at, part in enumerate(_RUN) if part != ""),
        *({"entries": [[0, 5, [[*_RUN[:at], [1], *_RUN[at + 1 :]]]]]} for at in range(len(_RUN))),
    ],
)
def test_ledger_record_with_values_of_wrong_types_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(LedgerFormatError):
        LedgerRecord.of(value(**changed))


@pytest.mark.parametrize(
    ("records", "values", "keys"),
    [(0, 0, 0), (1, 0, 0), (65, 1, 0), (64, 2, 0), (65, 2, 1), (65, 2, 3), (10**9, 1, 0), (10**18, 0, 0)],
)
def test_run_with_a_wrong_number_of_checksums_is_refused(records: int, values: int, keys: int) -> None:
    """One that said that it has 10 ** 18 records would keep each audit busy for ever."""
    run = [*_RUN[:6], records, 10, _sums(values), _sums(keys), 0, 0]
    with pytest.raises(LedgerFormatError, match="checksums"):
        LedgerRecord.of(value(entries=[[0, 5, [run]]]))


@pytest.mark.parametrize(("records", "values", "keys"), [(1, 1, 1), (64, 1, 0), (65, 2, 2)])
def test_a_run_has_a_checksum_for_each_block(records: int, values: int, keys: int) -> None:
    run = [*_RUN[:6], records, 10, _sums(values), _sums(keys), 0, 0]
    (entry,) = LedgerRecord.of(value(entries=[[0, 5, [run]]])).entries
    assert len(entry.runs[0].digest.values) == values


def test_run_without_records_has_an_empty_digest() -> None:
    """A producer has begun it, and its first record went to another partition."""
    (entry,) = LedgerRecord.of(value(entries=[[0, 5, [[0, 0, 7, 0, 0, -1, 0, 0, "", "", 0, 0]]]])).entries
    assert not any(entry.runs[0].digest)


@pytest.mark.parametrize("name", ["", "not a topic!", "..", "x" * 250, "t\n"])
def test_ledger_record_with_an_impossible_topic_name_is_refused(name: str) -> None:
    """A broker refuses a request that has such a name: that would end each audit."""
    with pytest.raises(LedgerFormatError, match="a topic name"):
        LedgerRecord.of(value(topics=[[name, ""]]))
    with pytest.raises(LedgerFormatError, match="a topic name"):
        LedgerRecord.of(value(offsets=name))


def _sums(count: int) -> str:
    return base64.b64encode(bytes(4 * count)).decode()
