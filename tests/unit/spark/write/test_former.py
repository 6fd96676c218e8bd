"""Which writes of older versions count as committed, and which are refused."""

from typing import Any

import pytest

from fencepost.spark.write.decision import Decision
from fencepost.spark.write.former import FormerWriteError, ensure_same, whole_write

_OVER = ({}, {"run": "r", "partitions": 2, "over": True})


def _marker(partition: int, *, rows: int = 5, done: bool = True, partitions: int | None = 2) -> tuple[Any, Any]:
    return {"partition": partition}, {"rows": rows, "done": done, "partitions": partitions}


def test_write_without_records_was_not_begun() -> None:
    assert whole_write("w", [], 0) is None


def test_run_that_ended_without_markers_has_committed_nothing() -> None:
    assert whole_write("w", [_OVER], 1) is None


def test_write_with_all_partitions_done_is_committed() -> None:
    found = whole_write("w", [_OVER, _marker(0), _marker(1, rows=7)], 1_000)
    assert found == Decision(0, "", 12, 1_000)
    assert found.text() == "at 1970-01-01 00:00:01 UTC with 12 records"
    ensure_same("w", found, 12)
    with pytest.raises(
        FormerWriteError, match="w was begun by an older Fencepost, which has committed 12 rows, and now"
    ):
        ensure_same("w", found, 13)


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([({}, {"run": "r", "partitions": 2, "over": False})], "has not ended it"),
        ([_OVER, _marker(0)], "has committed 1 of 2 partitions"),
        ([_OVER, _marker(0), _marker(1, done=False)], "has committed 1 of 2 partitions"),
        ([_OVER, _marker(0, partitions=None)], "has committed 1 of 2 partitions"),
    ],
)
def test_write_that_is_not_committed_as_a_whole_is_refused(records: list[Any], why: str) -> None:
    with pytest.raises(FormerWriteError, match=f"write.id w was begun by an older Fencepost, which {why}"):
        whole_write("w", records, 1)
