"""The conformance class of DataFrame connectors: each check fails for its fault alone, and for none without one."""

import doctest
import re
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import DataFrameConnector, Split, setting
from fencepost.builtin.connector.spool.source import SpoolDirectorySource
from fencepost.spark.session.session import SparkRuntime
from fencepost.testing import DataFrameSourceConformance
from support.conformance_verdicts import ensure_only, failed, verdicts

IDENTITY = "test_splits_keep_their_identity"
DISTINCT = "test_no_two_splits_have_one_identity"
ROWS = "test_reads_the_same_rows_each_time"
UNCHANGED = "test_an_untouched_split_is_unchanged"
OTHERS = "test_others_stay_when_one_is_finished"

pytestmark = pytest.mark.usefixtures("runtime")


class LinesSource(DataFrameConnector):
    """A split for each file of a directory."""

    path: Path = setting("path")
    topic: str = setting("topic", default="lines")

    def splits(self, session: Any) -> Iterable[Split]:
        return [self.split(file) for file in sorted(self.path.glob("*"))]

    def split(self, file: Path) -> Split:
        return Split({"file": file.name}, order=(file.name,))

    def read(self, session: Any, split: Split) -> Any:
        lines = (self.path / split.partition["file"]).read_text().splitlines()
        return session.createDataFrame([(line,) for line in self.chosen(lines)], "line STRING")

    def chosen(self, lines: list[str]) -> list[str]:
        return lines


class Lines(DataFrameSourceConformance):
    connector: Any = LinesSource

    def prepare(self, directory: Path) -> dict[str, object]:
        for name in ("a", "b", "c"):
            (directory / name).write_text(f"{name}1\n{name}2\n")
        return {"path": directory}


class TestLines(Lines):
    pass


class TestSpool(DataFrameSourceConformance):
    connector = SpoolDirectorySource

    def prepare(self, directory: Path) -> dict[str, object]:
        for name in ("a", "b"):
            (directory / name).write_text("1,one\n2,two\n")
        return {"input.path": directory, "topic": "t", "input.schema": "n INT, word STRING"}


class TestSpoolThatDeletes(TestSpool):
    def prepare(self, directory: Path) -> dict[str, object]:
        return {**super().prepare(directory), "finished.action": "delete"}


class NamesTheStart(LinesSource):
    def split(self, file: Path) -> Split:
        return Split({"file": file.name, "start": uuid.uuid4().hex}, order=(file.name,))

    def read(self, session: Any, split: Split) -> Any:
        return super().read(session, Split({"file": split.partition["file"]}))

    def is_unchanged(self, session: Any, split: Split) -> bool:
        return True


class NamesAPath(LinesSource):
    def split(self, file: Path) -> Split:
        return Split({"file": file})

    def read(self, session: Any, split: Split) -> Any:
        return super().read(session, Split({"file": split.partition["file"].name}))


class NamesOneTwice(LinesSource):
    def splits(self, session: Any) -> Iterable[Split]:
        return [split for split in super().splits(session) for _ in range(1 + (split.partition["file"] == "c"))]


class ReadsOtherRows(LinesSource):
    def chosen(self, lines: list[str]) -> list[str]:
        return [*lines, uuid.uuid4().hex]


class ReadsInOtherOrders(LinesSource):
    turns = 0

    def split(self, file: Path) -> Split:
        return Split({"file": file.name}, is_single_file=True)

    def chosen(self, lines: list[str]) -> list[str]:
        ReadsInOtherOrders.turns += 1
        return lines[:: -1 if ReadsInOtherOrders.turns % 2 else 1]


class NeverUnchanged(LinesSource):
    def is_unchanged(self, session: Any, split: Split) -> bool:
        return False


class FinishesAll(LinesSource):
    def finished(self, session: Any, split: Split, rows: int) -> bool:
        for file in self.path.glob("*"):
            file.unlink()
        return True


class KeepsWhatIsOver(LinesSource):
    def finished(self, session: Any, split: Split, rows: int) -> bool:
        return True


@pytest.mark.parametrize(
    ("made", "check", "said"),
    [
        (NamesOneTwice, DISTINCT, "Two splits have the partition .*c.*: only one would be read"),
        (ReadsOtherRows, ROWS, "has other rows when it is read again"),
        (ReadsInOtherOrders, ROWS, "has its rows in another order .*: leave `is_single_file` out"),
        (NeverUnchanged, UNCHANGED, "is false although nothing has changed"),
        (FinishesAll, OTHERS, "After finished.. of .*'a'.*'b'.* is not planned any more"),
        (KeepsWhatIsOver, OTHERS, "finished.. of .*'a'.* was true, .* but splits.. still"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_each_check_fails_for_its_fault_alone(made: type[LinesSource], check: str, said: str) -> None:
    ensure_only(check, said, Lines, made)


def test_an_unstable_or_unstorable_identity_fails_the_checks_that_rely_on_it() -> None:
    class Starts(Lines):
        connector = NamesTheStart

    class Paths(Lines):
        connector = NamesAPath

    assert set(failed(Starts)) == {IDENTITY, OTHERS}
    said = failed(Paths)
    assert set(said) == {IDENTITY, DISTINCT, OTHERS}
    assert re.search(r"The split .*Path.*: .*file", said[IDENTITY])


def test_a_source_of_one_split_proves_nothing() -> None:
    class One(Lines):
        def prepare(self, directory: Path) -> dict[str, object]:
            (directory / "a").write_text("a1\n")
            return {"path": directory}

    found = verdicts(One)
    assert len(found) == 5
    assert all("must make at least 2" in said for said in found.values())


def test_the_example_in_the_docstring_runs(runtime: SparkRuntime) -> None:
    example = doctest.DocTestParser().get_doctest(DataFrameSourceConformance.__doc__ or "", {}, "example", None, 0)
    assert len(example.examples) > 3
    assert not doctest.DocTestRunner().run(example).failed
