"""A number of rows is a position among the same rows only."""

from typing import Any

import pytest

from fencepost.spark.split.run import ReadingChangedError, changes, ensure_same_reading, fingerprint

BEFORE = {"columns": "id INT", "transforms.sql": "SELECT id FROM split", "reader.header": "true"}
HALF: dict[str, Any] = {"rows": 3000, "reading": fingerprint(BEFORE)}


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
def test_partly_read_file_is_refused_when_reader_options_have_changed(now: dict[str, str], named: str) -> None:
    with pytest.raises(ReadingChangedError, match=f": {named} changed") as raised:
        ensure_same_reading("a.csv", HALF, fingerprint(now))
    assert "3000 rows of a.csv" in str(raised.value)
    assert "/offsets" in str(raised.value)
    assert changes(HALF["reading"], fingerprint(now)) == named.split(", ")


def test_unknown_reading_fingerprint_is_refused() -> None:
    with pytest.raises(ReadingChangedError, match="mine"):
        ensure_same_reading("a.csv", {"rows": 3000, "reading": "mine"}, fingerprint(BEFORE))


def test_time_zone_is_compared_only_if_both_readings_name_one() -> None:
    zone = "spark.sql.session.timeZone"
    london, paris = (fingerprint(BEFORE | {zone: place}) for place in ("Europe/London", "Europe/Paris"))
    assert changes(london, paris) == [zone]
    assert changes(london, HALF["reading"]) == changes(HALF["reading"], london) == []
    ensure_same_reading("a.csv", HALF, london)


@pytest.mark.parametrize("position", [None, HALF, {"rows": 3000}, {"done": True, "rows": 3000, "reading": "x=1"}])
def test_positions_with_the_same_or_no_fingerprint_are_accepted(position: dict[str, object] | None) -> None:
    ensure_same_reading("a.csv", position, fingerprint(BEFORE))


def test_csv_part_of_an_older_release_continues_only_with_its_options() -> None:
    """It had a backslash as the escape, and read by the line, and its positions do not say so."""
    now = {"reader.escape": '"', "reader.multiLine": "found in each file"}
    assert changes(HALF["reading"], fingerprint(BEFORE | now)) == ["reader.escape", "reader.multiLine"]
    assert changes(fingerprint(BEFORE | now), fingerprint(BEFORE | now)) == []
    put_back = {"reader.escape": "\\", "reader.multiLine": "false"}
    ensure_same_reading("a.csv", HALF, fingerprint(BEFORE | put_back))
