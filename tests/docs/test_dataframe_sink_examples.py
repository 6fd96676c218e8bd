"""The DataFrame sinks of the pages, and what the pages say of reading files, with a real Spark; no Kafka."""

import contextlib
import glob
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from page import ROOT, blocks

from fencepost.api import DataFrameSink, Epoch, OffsetRange
from fencepost.builtin.connector.files.sink import FilesSink
from fencepost.spark.session.session import SparkRuntime
from fencepost.testing import DataFrameSinkConformance
from support.conformance_verdicts import verdicts
from support.quick import spark_properties

pytestmark = pytest.mark.drawn(8)
EPOCH = Epoch(1, (OffsetRange("t", 0, 0, 3), OffsetRange("t", 1, 0, 2)))


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    started = SparkRuntime({**spark_properties(), "spark.master": "local[2]"}, secrets={})
    started.start()
    yield started.session
    started.stop()


def example(name: str, config: dict[str, str]) -> DataFrameSink:
    """Return the sink of the page, made from its text."""
    page = ROOT / "docs/how-to/write-a-dataframe-sink.md"
    [text] = [b.text for b in blocks("python") if b.page == page and f"class {name}" in b.text]
    found: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), found)  # the page's own code
    sink: DataFrameSink = found[name](config)
    return sink


def frame_of(session: Any) -> Any:
    """Return the rows 0 to 4, in two partitions."""
    return session.range(0, 5, 1, 2).selectExpr("id", "id % 2 AS half")


def test_the_directories_of_the_example_appear_once_and_whole(session: Any, tmp_path: Path) -> None:
    sink = example("ParquetEpochs", {"name": "c", "path": str(tmp_path)})
    sink.write(session, frame_of(session), EPOCH)  # and a crash
    assert [path for path in tmp_path.iterdir() if path.name != ".aside"] == []
    token = sink.write(session, frame_of(session), EPOCH)
    sink.started(session, 2, {token})
    assert [path.name for path in (tmp_path / ".aside").iterdir()] == [token]
    for _ in range(2):
        sink.publish(session, EPOCH, token)
    shown = [path.name for path in tmp_path.iterdir() if path.name != ".aside"]
    assert sorted(shown) == ["epoch=1-t-0-0", "epoch=1-t-1-0"]
    assert sorted(pq.read_table(tmp_path)["id"].to_pylist()) == list(range(5))
    assert session.read.parquet(str(tmp_path)).count() == 5
    with pytest.raises(FileNotFoundError):
        sink.publish(session, Epoch(2, EPOCH.ranges), "lost")


def test_the_sink_of_the_page_passes_the_checks_that_the_page_recommends(session: Any) -> None:
    class Page(DataFrameSinkConformance):
        connector = type(example("ParquetEpochs", {"name": "c", "path": "/nowhere"}))

        def prepare(self, directory: Path) -> dict[str, object]:
            return {"path": directory}

        def rows(self, session: Any, directory: Path) -> list[int]:
            files = directory.glob("epoch=*/*.parquet")
            return [n for file in files for n in pq.ParquetFile(file).read(["n"])["n"].to_pylist()]

    found = verdicts(Page)
    assert set(found.values()) == {"passed"}, found


def test_the_test_of_the_page_passes(session: Any) -> None:
    """One of its checks: all of them are made of the same sink in tests/integration/spark."""
    page = ROOT / "docs/how-to/write-a-dataframe-sink.md"
    [text] = [b.text for b in blocks("python") if b.page == page and "class TestFiles" in b.text]
    found: dict[str, Any] = {"__name__": "page"}
    exec(compile(text, "page", "exec"), found)
    found["TestFiles"]().test_a_repeated_write_shows_rows_once()


def test_the_database_of_the_example_takes_the_ranges_of_an_epoch_once(session: Any, tmp_path: Path) -> None:
    path = tmp_path / "db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE records (id INT, half INT)")
    sink = example("SqliteSink", {"name": "c", "path": str(path)})
    later = Epoch(2, (OffsetRange("t", 0, 3, 8),))
    for epoch in (EPOCH, EPOCH, later):
        assert sink.write(session, frame_of(session), epoch) == ""
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*), count(DISTINCT id) FROM records").fetchone() == (10, 5)


def test_readers_on_the_page_see_published_files_and_nothing_else(session: Any, tmp_path: Path) -> None:
    sink = FilesSink({"name": "c", "path": str(tmp_path), "partition.by": "half", "writer.compression": "zstd"})
    sink.write(session, frame_of(session), EPOCH)  # and a crash
    token = sink.write(session, frame_of(session), EPOCH)
    for _ in range(2):
        sink.publish(session, EPOCH, token)
    shown = sorted(glob.glob(f"{tmp_path}/**/*.parquet", recursive=True))
    assert all(path.endswith(".zstd.parquet") for path in shown)
    everywhere = glob.glob(f"{tmp_path}/**/*+*.parquet", recursive=True, include_hidden=True)
    assert sorted(everywhere) == shown
    assert len(glob.glob(f"{tmp_path}/**/*.parquet", recursive=True, include_hidden=True)) > len(shown)
    read = ds.dataset(tmp_path, partitioning="hive").to_table().select(["id", "half"]).to_pylist()
    by_spark = [row.asDict() for row in session.read.parquet(str(tmp_path)).select("id", "half").collect()]
    for rows in (read, by_spark):
        assert sorted(rows, key=lambda row: row["id"]) == [{"id": n, "half": n % 2} for n in range(5)]
