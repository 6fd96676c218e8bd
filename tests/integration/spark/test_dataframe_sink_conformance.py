"""The conformance class of DataFrame sinks: each check fails for its fault alone, and for no sink without one."""

import doctest
import glob
import json
import re
import shutil
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fencepost.api import DataFrameSink, Epoch, OffsetRange, setting
from fencepost.builtin.connector.files.sink import FilesSink
from fencepost.spark.session.session import SparkRuntime
from fencepost.testing import DataFrameSinkConformance
from support.conformance_verdicts import failed, verdicts

BEFORE = "test_shows_nothing_before_publish"
WRITE = "test_a_repeated_write_shows_rows_once"
PUBLISH = "test_a_repeated_publish_shows_rows_once"
RANGES = "test_publishes_only_the_ranges_of_its_epoch"
STARTED = "test_started_keeps_rows_of_unpublished_epochs"
TOKENS = "test_tokens_are_short"

pytestmark = pytest.mark.usefixtures("runtime")


class LinesSink(DataFrameSink):
    """A file of lines for each range, which is renamed to be shown."""

    path: Path = setting("path")

    def started(self, session: Any, number: int, tokens: Collection[str]) -> int | None:
        for aside in self.path.glob(".*"):
            if int(aside.name.strip(".").partition("-")[0]) < number and aside.name not in tokens:
                shutil.rmtree(aside)
        return None

    def write(self, session: Any, frame: Any, epoch: Epoch) -> str:
        token = f".{epoch.number}-{uuid.uuid4().hex}"
        (self.path / token).mkdir()
        for range_, rows in zip(epoch.ranges, frame.rdd.glom().collect(), strict=True):
            (self.path / token / self.name(range_)).write_text("".join(f"{row['n']}\n" for row in rows))
        return token

    def name(self, of: OffsetRange) -> str:
        return f"{of.place}-{of.start}"

    def publish(self, session: Any, epoch: Epoch, token: str) -> None:
        for range_ in epoch.ranges:
            file = self.path / token / self.name(range_)
            if file.exists():
                file.rename(self.path / self.name(range_))


class Lines(DataFrameSinkConformance):
    connector: Any = LinesSink

    def prepare(self, directory: Path) -> dict[str, object]:
        return {"path": directory}

    def rows(self, session: Any, directory: Path) -> list[int]:
        return [int(line) for file in directory.glob("[!.]*") for line in file.read_text().splitlines()]


class TestLines(Lines):
    pass


class TestFiles(DataFrameSinkConformance):
    connector = FilesSink

    def prepare(self, directory: Path) -> dict[str, object]:
        return {"path": directory, "format": "parquet"}

    def rows(self, session: Any, directory: Path) -> list[int]:
        return [n for file in glob.glob(f"{directory}/*.parquet") for n in pq.read_table(file)["n"].to_pylist()]


class OverwritingSink(LinesSink):
    """Shows rows at once; writing them again changes nothing."""

    def started(self, session: Any, number: int, tokens: Collection[str]) -> int | None:
        return None

    def write(self, session: Any, frame: Any, epoch: Epoch) -> str:
        for range_, rows in zip(epoch.ranges, frame.rdd.glom().collect(), strict=True):
            (self.path / self.name(range_)).write_text("".join(f"{row['n']}\n" for row in rows))
        return ""

    def publish(self, session: Any, epoch: Epoch, token: str) -> None: ...


def test_a_sink_that_overwrites_has_fewer_checks() -> None:
    class Overwriting(Lines):
        connector = OverwritingSink

    found = verdicts(Overwriting)
    assert {name for name, said in found.items() if said == "skipped"} == {BEFORE, RANGES, STARTED}
    assert {name for name, said in found.items() if said == "passed"} == {WRITE, PUBLISH, TOKENS}


class ShowsAtOnce(LinesSink):
    def write(self, session: Any, frame: Any, epoch: Epoch) -> str:
        token = super().write(session, frame, epoch)
        super().publish(session, epoch, token)
        return token


class AddsEachTime(OverwritingSink):
    def name(self, of: OffsetRange) -> str:
        return f"{super().name(of)}-{uuid.uuid4().hex}"


class CopiesEachTime(LinesSink):
    def publish(self, session: Any, epoch: Epoch, token: str) -> None:
        for range_ in epoch.ranges:
            shutil.copy(self.path / token / self.name(range_), self.path / f"{self.name(range_)}-{uuid.uuid4().hex}")


class PublishesAll(LinesSink):
    def publish(self, session: Any, epoch: Epoch, token: str) -> None:
        for file in (self.path / token).iterdir():
            file.rename(self.path / file.name)


class DeletesAll(LinesSink):
    def started(self, session: Any, number: int, tokens: Collection[str]) -> int | None:
        for aside in self.path.glob(".*"):
            if aside.name not in tokens:
                shutil.rmtree(aside)
        return None


class NamesAllFiles(LinesSink):
    """Its token is a list of all that it has written, and then some."""

    def write(self, session: Any, frame: Any, epoch: Epoch) -> str:
        return json.dumps([super().write(session, frame, epoch)] * 100)

    def started(self, session: Any, number: int, tokens: Collection[str]) -> int | None:
        return super().started(session, number, {json.loads(token)[0] for token in tokens})

    def publish(self, session: Any, epoch: Epoch, token: str) -> None:
        super().publish(session, epoch, json.loads(token)[0])


@pytest.mark.parametrize(
    ("made", "check", "said"),
    [
        (ShowsAtOnce, BEFORE, "before publish.. a reader sees 10 rows"),
        (AddsEachTime, WRITE, "After write.. was called twice, a reader sees 10 rows twice, the first is 0"),
        (CopiesEachTime, PUBLISH, "After publish.. was called twice, a reader sees 10 rows twice"),
        (PublishesAll, RANGES, "with the first of two ranges, a reader sees 5 rows that were not published"),
        (DeletesAll, STARTED, "After a late started.., a reader does not see 10 rows, the first is 10"),
        (NamesAllFiles, TOKENS, "return a name, not a list"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_each_check_fails_for_its_fault_alone(
    runtime: SparkRuntime, made: type[LinesSink], check: str, said: str
) -> None:
    class Faulty(Lines):
        connector = made

    found = failed(Faulty)
    assert set(found) == ({check} if made is not ShowsAtOnce else {BEFORE, RANGES})
    assert re.search(said, found[check], re.DOTALL), found[check]


def test_the_example_in_the_docstring_runs(runtime: SparkRuntime) -> None:
    example = doctest.DocTestParser().get_doctest(DataFrameSinkConformance.__doc__ or "", {}, "example", None, 0)
    assert len(example.examples) > 4
    assert not doctest.DocTestRunner().run(example).failed
