"""A files sink that cuts its files by bytes."""

import glob
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fencepost.api import Epoch, OffsetRange
from fencepost.builtin.connector.files.sink import FilesSink
from fencepost.spark.session.session import SparkRuntime

LIMIT = 1_000_000
ROWS = 8_000


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def sink_of(out: Path, **settings: str) -> FilesSink:
    given = {key.replace("__", "."): value for key, value in settings.items()}
    made = FilesSink({"name": "c", "path": str(out), "file.bytes.max": str(LIMIT), **given})
    made.owner = "cluster/connect-c"
    return made


def written(session: Any, sink: FilesSink, number: int, rows: Any) -> list[Path]:
    """Have an epoch of one partition written, and shown; returns its files, in the order of their names."""
    epoch = Epoch(number, (OffsetRange("t", 0, (number - 1) * ROWS, number * ROWS),), f"e{number}")
    token = sink.write(session, rows, epoch)
    sink.publish(session, epoch, token)
    sink.published(session, epoch, token)
    found = glob.glob(f"{sink.path}/**/t+0+{(number - 1) * ROWS:020d}-*", recursive=True)
    return sorted(map(Path, found))


def texts(session: Any, width: int) -> Any:
    """Return rows that no codec makes smaller than half of their width."""
    digits = "||".join(['""', *(f"sha2(concat({n}, id), 512)" for n in range(width // 128))])
    return session.range(0, ROWS, 1, 1).selectExpr("id", f"{digits} AS text")


def numbers(files: Sequence[Path]) -> list[int]:
    if files[0].suffix == ".parquet":
        return [n for path in files for n in pq.ParquetFile(path).read(["id"])["id"].to_pylist()]
    return [json.loads(line)["id"] for path in files for line in path.read_text().splitlines()]


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_no_file_exceeds_its_maximum_size(runtime: SparkRuntime, out: Path, kind: str) -> None:
    session, sink = runtime.session, sink_of(out, format=kind)
    before = 0
    for number, width in enumerate((512, 512, 1_280, 256), start=1):
        files = written(session, sink, number, texts(session, width))
        sizes = [path.stat().st_size for path in files]
        assert max(sizes) <= LIMIT
        assert numbers(files) == list(range(ROWS))
        assert [path.name.split("+")[3].split(".")[0] for path in files] == [f"{n:05d}" for n in range(len(files))]
        if number == 2:  # by what was learned
            assert len(files) == before
        before = len(files)
    files = written(
        session, sink, 5, texts(session, 256)
    )  # smaller rows: after an epoch of them the files are full again
    assert max(path.stat().st_size for path in files) > LIMIT * 0.7
    left = {path.name for path in (out / ".fencepost").glob("*/*/*")}
    assert left <= {"moves.json"}  # of the newest epoch, which tells its number


def test_an_epoch_that_fits_is_written_once(runtime: SparkRuntime, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, sink, saved = runtime.session, sink_of(out), []
    save = FilesSink.save
    monkeypatch.setattr(FilesSink, "save", lambda *given: (saved.append(1), save(*given)))
    for number, times in enumerate((1, 2, 1), start=1):
        saved.clear()
        written(session, sink, number, texts(session, 512 if number > 1 else 0))
        assert len(saved) == times, number


def test_an_oversized_row_makes_one_oversized_file_and_splits_no_others(runtime: SparkRuntime, out: Path) -> None:
    session, sink = runtime.session, sink_of(out, format="json")
    rows = session.range(0, ROWS, 1, 1).selectExpr("id", "repeat('x', if(id = 4000, 1500000, 100)) AS text")
    files = written(session, sink, 1, rows)
    assert numbers(files) == list(range(ROWS))
    assert len(files) < 30
