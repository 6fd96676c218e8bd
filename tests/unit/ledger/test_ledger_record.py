"""A record of a ledger that is damaged, or that somebody else has written, is refused as such."""

from typing import Any

import orjson
import pytest

from fencepost.ledger.entry import LedgerFormatError, LedgerRecord

_RUN: list[Any] = [0, 0, 7, 0, 0, -1, 1, 10, "", "", 0, 0]


def value(**changed: Any) -> bytes:
    whole = {
        "version": 1, "connector": "c", "task": 0, "offsets": "offsets", "producers": [["id", "first"]],
        "topics": [["t", "topic-id"]], "entries": [[0, 5, [_RUN]]],
    }  # fmt: skip
    return orjson.dumps(whole | changed)


def test_a_whole_record_is_read() -> None:
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
def test_a_record_of_other_types_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(LedgerFormatError):
        LedgerRecord.of(value(**changed))
