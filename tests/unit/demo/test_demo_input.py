"""What the demo expects comes from the files, whole and in order."""

import json
import zipfile
from pathlib import Path

import pytest
from demo import dataset
from demo.feeder import Feeder, GrowingFile
from demo.weather import Weather

from fencepost.testing import eventually
from fencepost.testing.verdict import Observation, judge

_CSV = "year,month,day,dep_time,tailnum\n2013,1,1,517,N1\n2013,2,1,NA,N2\n2013,1,2,533,NA\n"
_RECORDS = [
    {"year": 2013, "month": 1, "day": 1, "dep_time": 517, "tailnum": "N1"},
    {"year": 2013, "month": 1, "day": 2, "dep_time": 533, "tailnum": None},
    {"tailnum": "N2", "dep_time": None, "day": 1, "month": 2, "year": 2013},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with zipfile.ZipFile(tmp_path / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", _CSV)
    (tmp_path / "planes.csv").write_text("tailnum,year\nN1,1999\n")
    return tmp_path


def observed(*records: object) -> list[Observation]:
    return [Observation("flights", 0, None, json.dumps(record).encode()) for record in records]


def test_demo_has_a_file_per_month_and_matches_records_in_any_field_order(data: Path) -> None:
    source = dataset.flights(data, data / "months", data / "inbox")
    assert [f.name for f in sorted((data / "months").iterdir())] == ["flights-01.csv", "flights-02.csv"]
    assert source.expected() == {"flights-01.csv": [1, 2], "flights-02.csv": [1]}
    assert judge(source.expected(), observed(*_RECORDS), sighting=source.sighting).is_clean


def test_demo_verdict_counts_changed_missing_and_late_records(data: Path) -> None:
    source = dataset.flights(data, data / "months", data / "inbox")
    first, second, third = _RECORDS
    verdict = judge(
        source.expected(), observed(second, first, {**third, "dep_time": 1}, first), sighting=source.sighting
    )
    counts = (len(verdict.missing), len(verdict.duplicated), len(verdict.reordered), len(verdict.unexpected))
    assert counts == (1, 1, 1, 1)


def test_demo_refuses_indistinguishable_rows(data: Path) -> None:
    source, lines = dataset.lines(data, "planes", data)
    assert lines == [b"tailnum,year\n", b"N1,1999\n"]
    assert source.rows == 2
    with pytest.raises(ValueError, match="already"):
        source.add("planes.txt", [b"N1,1999"])


def test_demo_feeder_completes_a_file_only_after_the_release(tmp_path: Path) -> None:
    lines = [b"%d\n" % n for n in range(100)]
    file = tmp_path / "f.txt"
    with Feeder([GrowingFile(file, lines)]) as feeder:
        assert file.read_bytes() == b"".join(lines[:5])
        feeder.begin()
        eventually(lambda: file.read_bytes().count(b"\n") > 5, within_s=60)
        assert file.read_bytes().count(b"\n") < 100
        feeder.release()
        eventually(lambda: file.read_bytes() == b"".join(lines), within_s=60)


def test_demo_expects_each_reading_in_order_and_each_day_that_is_over_once(tmp_path: Path) -> None:
    lines = (
        "origin,temp,time_hour",
        "JFK,39.02,2013-01-01T06:00:00Z",
        "EWR,NA,2013-01-02T06:00:00Z",
        "JFK,41,2013-01-01T05:00:00Z",
        "EWR,40,2013-01-03T00:00:00Z",
    )
    (tmp_path / "weather.csv").write_text("\n".join(lines))
    weather = Weather(tmp_path, tmp_path)
    table, query = weather.table(), weather.query()
    rows = [
        {"id": 1, "origin": "JFK", "at": "2013-01-01T05:00:00.000000Z", "temp": 41.0},
        {"id": 2, "origin": "JFK", "at": "2013-01-01T06:00:00.000000Z", "temp": 39.02},
        {"id": 3, "origin": "EWR", "at": "2013-01-02T06:00:00.000000Z", "temp": None},
        {"id": 4, "origin": "EWR", "at": "2013-01-03T00:00:00.000000Z", "temp": 40.0},
    ]
    assert judge(table.expected(), observed(*({"after": row} for row in rows)), sighting=table.sighting).is_clean
    days = [
        {"origin": "EWR", "day": 15707, "readings": 1},
        {"origin": "JFK", "day": 15706, "readings": 2, "warmest": 41.0},
    ]
    assert judge(query.expected(), observed(*days), sighting=query.sighting).is_clean
    assert len(judge(query.expected(), observed(*days, days[0]), sighting=query.sighting).duplicated) == 1
