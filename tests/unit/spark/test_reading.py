"""A number of rows is a position among the same rows only."""

import pytest

from fencepost.spark.reading import ReadingChangedError, changes, ensure_same_reading, fingerprint

BEFORE = {"columns": "id INT", "transforms.sql": "SELECT id FROM split", "reader.header": "true"}
HALF = {"rows": 3000, "reading": fingerprint(BEFORE)}


def test_fingerprint_is_the_same_in_every_process_and_shows_no_value() -> None:
    assert fingerprint({"b": "x", "a": "password"}) == "a=5e884898 b=2d711642"


@pytest.mark.parametrize(
    ("now", "named"),
    [
        (BEFORE | {"transforms.sql": "SELECT id FROM split WHERE id > 1"}, "transforms.sql"),
        ({k: v for k, v in BEFORE.items() if k != "transforms.sql"}, "transforms.sql"),
        (BEFORE | {"columns": "id STRING", "reader.sep": ";"}, "columns, reader.sep"),
    ],
)
def test_a_part_whose_rows_are_made_in_another_way_now_is_refused_and_the_change_named(
    now: dict[str, str], named: str
) -> None:
    with pytest.raises(ReadingChangedError, match=f": {named} changed") as raised:
        ensure_same_reading("a.csv", HALF, fingerprint(now))
    assert "3000 rows of a.csv" in str(raised.value)
    assert "/offsets" in str(raised.value)
    assert changes(HALF["reading"], fingerprint(now)) == named.split(", ")


@pytest.mark.parametrize("position", [None, HALF, {"rows": 3000}, {"done": True, "rows": 3000, "reading": "x=1"}])
def test_the_same_reading_and_positions_that_name_none_are_taken(position: dict[str, object] | None) -> None:
    ensure_same_reading("a.csv", position, fingerprint(BEFORE))
