"""Files of a files sink are read by others: Python, PyArrow and Spark."""

import csv
import glob
import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.api import Epoch, OffsetRange
from fencepost.builtin.connector.files.sink import FilesSink
from fencepost.spark.session.session import SparkRuntime

PIECES = ["a", '"', "\\", ",", "\n", "\r", " ", "\t", "é", "#", "'", "\ufeff", "NULL"]
TEXTS = ["".join(each) for length in range(4) for each in itertools.product(PIECES, repeat=length)]
TIMES = {
    "last": "timestamp'9999-12-31 23:59:59.999999Z'", "gap": "timestamp'1582-10-10 00:00:00Z'",
    "first": "timestamp'0001-01-01 00:00:00Z'", "old": "timestamp'1600-02-29 12:00:00.000001Z'",
}  # fmt: skip
MOMENTS = ["9999-12-31T23:59:59.999999", "1582-10-10T00:00:00", "0001-01-01T00:00:00", "1600-02-29T12:00:00.000001"]
EXPECTED = pa.array(MOMENTS).cast(pa.timestamp("us")).cast(pa.int64())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def written(frame: Any, out: Path, kind: str, **settings: str) -> Path:
    """Have a frame of one partition written as an epoch; returns its only file."""
    given = {key.replace("__", "."): value for key, value in settings.items()}
    sink = FilesSink({"name": "c", "path": str(out), "format": kind, **given})
    sink.owner = "cluster/connect-c"
    epoch = Epoch(1, (OffsetRange("t", 0, 0, 10_000),), "e")
    token = sink.write(frame.sparkSession, frame, epoch)
    sink.publish(frame.sparkSession, epoch, token)
    (found,) = glob.glob(f"{out}/t+0+*")
    return Path(found)


def read_csv(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_csv_is_read_back_unchanged_by_python_and_by_spark(runtime: SparkRuntime, out: Path) -> None:
    session = runtime.session
    rows = [(n, text, None if n % 7 == 0 else text) for n, text in enumerate(TEXTS)]
    frame = session.createDataFrame(rows, "n INT, a STRING, b STRING").coalesce(1)
    path = written(frame, out, "csv", writer__header="true")
    assert read_csv(path) == [["n", "a", "b"], *([str(n), a, b or ""] for n, a, b in rows)]
    reader = session.read.options(header=True, escape='"', multiLine=True, nullValue="\\N", encoding="UTF-8")
    back = [tuple(row) for row in reader.schema(frame.schema).csv(str(path)).collect()]
    assert back == rows


def test_a_row_of_nothing_but_a_null_is_a_row_of_csv(runtime: SparkRuntime, out: Path) -> None:
    rows = [(None,), ("",), ("a",), (" ",)]
    path = written(runtime.session.createDataFrame(rows, "a STRING").coalesce(1), out, "csv")
    assert read_csv(path) == [[""], [""], ["a"], [" "]]


def test_json_lines_keep_null_fields_unless_configured_otherwise(runtime: SparkRuntime, out: Path) -> None:
    frame = runtime.session.sql("SELECT 1 AS id, cast(null AS INT) AS n, struct(cast(null AS INT) AS m) AS s")
    assert json.loads(written(frame, out, "json").read_text()) == {"id": 1, "n": None, "s": {"m": None}}
    short = written(frame, out / "short", "json", writer__ignoreNullFields="true")
    assert json.loads(short.read_text()) == {"id": 1, "s": {}}


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_times_in_text_have_microseconds_and_bytes_are_base64(runtime: SparkRuntime, out: Path, kind: str) -> None:
    columns = [f"{expression} AS {name}" for name, expression in TIMES.items()]
    path = written(runtime.session.sql(f"SELECT {', '.join(columns)}, X'00ff' AS b"), out, kind)
    *texts, data = json.loads(path.read_text()).values() if kind == "json" else read_csv(path)[0]
    assert data == "AP8="
    read = runtime.session.createDataFrame([(text,) for text in texts], "text STRING")
    micros = [row.at for row in read.selectExpr("unix_micros(cast(text AS TIMESTAMP)) AS at").collect()]
    assert micros == EXPECTED.to_pylist()


def test_times_in_parquet_are_utc_microseconds_for_any_year(runtime: SparkRuntime, out: Path) -> None:
    columns = [f"{expression} AS {name}" for name, expression in TIMES.items()]
    nested = ", ".join(TIMES.values())
    frame = runtime.session.sql(f"SELECT {', '.join(columns)}, array({nested}) AS all, date'1582-10-10' AS day")
    path = written(frame, out, "parquet")
    table = pq.read_table(path)
    stamp = pa.timestamp("us", tz="UTC")
    assert [table.schema.field(name).type for name in TIMES] == [stamp] * len(TIMES)
    assert table.schema.field("all").type.value_type == stamp
    assert [table[name].cast(pa.int64())[0] for name in TIMES] == list(EXPECTED)
    assert table["day"].cast(pa.string()).to_pylist() == ["1582-10-10"]
    back = runtime.session.read.parquet(str(path))
    assert back.selectExpr(*(f"unix_micros({name})" for name in TIMES)).collect()[0] == tuple(EXPECTED.to_pylist())
