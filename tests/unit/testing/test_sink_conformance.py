"""The conformance class of sinks: each check fails for its fault alone, and for no connector without one."""

import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import FencedError, SinkBatch, SinkConnector, SinkRecord, SinkTask, TopicPartition, setting
from fencepost.builtin.connector.file_stream.sink import FileStreamSinkConnector
from fencepost.builtin.connector.generator import VerifiableSinkConnector
from fencepost.testing import SinkConformance
from support.conformance_verdicts import ensure_only, verdicts

STORES = "test_stores_records_below_committed_offsets"
OFFSETS = "test_commits_only_offsets_of_taken_records"
EMPTY = "test_takes_empty_batches"
CRASH = "test_nothing_is_lost_by_a_crash"
REBALANCE = "test_survives_a_rebalance"
REPLACED = "test_refuses_a_replaced_task"
STOPS = "test_stops_in_time"
RECONFIGURATION = "test_survives_reconfiguration"
HANGS_S = 120.0  # in a thread that nobody waits for

Offsets = Mapping[TopicPartition, int]


class LinesTask(SinkTask["LinesConnector"]):
    """Appends values to a file, at a flush."""

    def start(self) -> None:
        self.buffer: list[str] = []

    def put(self, batch: SinkBatch) -> None:
        self.buffer += [f"{value['n']}\n" for value in batch.values]

    def flush(self, offsets: Offsets) -> None:
        with Path(self.config.path).open("a") as out:
            out.writelines(self.buffer)
        self.buffer = []


class LinesConnector(SinkConnector):
    task: Any = LinesTask
    path: str = setting("path")


class Lines(SinkConformance):
    def prepare(self, directory: Path) -> dict[str, object]:
        return {"path": directory / "lines"}

    def stored(self, directory: Path) -> list[object]:
        file = directory / "lines"
        return [{"n": int(line)} for line in file.read_text().splitlines()] if file.exists() else []


class ImpatientLines(Lines):
    stops_within_s = 0.4


class RowsTask(SinkTask["RowsConnector"]):
    """Inserts values into a table, with the offset after them and the token, in one transaction."""

    def start(self) -> None:
        self.db = sqlite3.connect(self.config.path, isolation_level=None)
        self.db.execute("CREATE TABLE IF NOT EXISTS rows (n INTEGER)")
        self.db.execute("CREATE TABLE IF NOT EXISTS positions (place TEXT PRIMARY KEY, next INTEGER, a, b)")

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        for place in partitions:
            with self.db:
                begin = self.claimed(place)
                self.keep(place, begin)
            self.context.seek({place: begin})

    def put(self, batch: SinkBatch) -> None:
        with self.db:
            self.db.execute("BEGIN IMMEDIATE")
            for record in batch:
                assert record.at is not None
                self.claimed(record.at)
                self.db.execute("INSERT INTO rows VALUES (?)", [record.value["n"]])
                self.keep(record.at, record.kafka_offset + 1)

    def claimed(self, place: TopicPartition) -> int:
        row = self.db.execute("SELECT next, a, b FROM positions WHERE place = ?", [str(place)]).fetchone()
        if row is not None and row[1:] > tuple(self.context.fencing_token or ()):
            raise FencedError(f"{place} is another task's by now")
        return 0 if row is None else int(row[0])

    def keep(self, place: TopicPartition, begin: int) -> None:
        token = self.context.fencing_token or ()
        self.db.execute("REPLACE INTO positions VALUES (?, ?, ?, ?)", [str(place), begin, *token])

    def stop(self) -> None:
        self.db.close()


class RowsConnector(SinkConnector):
    task: Any = RowsTask
    path: str = setting("path")


class Rows(SinkConformance):
    is_exactly_once = True

    def prepare(self, directory: Path) -> dict[str, object]:
        return {"path": directory / "rows.db"}

    def stored(self, directory: Path) -> list[object]:
        db = sqlite3.connect(directory / "rows.db")
        try:
            return [{"n": n} for (n,) in db.execute("SELECT n FROM rows")]
        finally:
            db.close()


# without a fault


class TestLines(Lines):
    connector = LinesConnector


class TestRows(Rows):
    connector = RowsConnector


class TestFileStream(SinkConformance):
    connector = FileStreamSinkConnector
    values = [f"line {number}" for number in range(10)]

    def prepare(self, directory: Path) -> dict[str, object]:
        return {"file": directory / "lines"}

    def stored(self, directory: Path) -> list[object]:
        return list((directory / "lines").read_text().splitlines())


class TestVerifiableSink(SinkConformance):
    """What it has stored is what it prints as flushed."""

    connector = VerifiableSinkConnector

    @pytest.fixture(autouse=True)
    def _prints(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def prepare(self, directory: Path) -> dict[str, object]:
        self.capsys.readouterr()
        self.printed = ""
        return {"name": "sink"}

    def stored(self, directory: Path) -> list[object]:
        self.printed += self.capsys.readouterr().out
        lines = map(json.loads, self.printed.splitlines())
        return [line["seqno"] for line in lines if line["flushed"]]


def test_only_a_sink_that_is_exactly_once_has_to_refuse_a_replaced_task() -> None:
    assert {name for name, said in verdicts(TestLines).items() if said == "skipped"} == {REPLACED}
    assert set(verdicts(TestRows).values()) == {"passed"}


# each with one fault


class FlushesAtTheStop(LinesTask):
    def flush(self, offsets: Offsets) -> None: ...

    def stop(self) -> None:
        super().flush({})


class CommitsOneMore(LinesTask):
    def pre_commit(self, offsets: Offsets) -> Offsets:
        self.flush(offsets)
        return {place: offset + 1 for place, offset in offsets.items()}


class CommitsOthers(LinesTask):
    def pre_commit(self, offsets: Offsets) -> Offsets:
        self.flush(offsets)
        return {**offsets, TopicPartition("other", 0): 1}


class ExpectsRecords(LinesTask):
    def put(self, batch: SinkBatch) -> None:
        assert batch.topics[0] is not None
        super().put(batch)


class RemembersTooEarly(LinesTask):
    """Keeps its own position, but before the rows are written."""

    def note(self, place: TopicPartition) -> Path:
        return Path(f"{self.config.path}-{place}")

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        notes = {place: self.note(place) for place in partitions}
        self.context.seek({place: int(note.read_text()) for place, note in notes.items() if note.exists()})

    def put(self, batch: SinkBatch) -> None:
        super().put(batch)
        for record in batch:
            assert record.at is not None
            self.note(record.at).write_text(str(record.kafka_offset + 1))


class BeginsAnew(LinesTask):
    def open(self, partitions: Sequence[TopicPartition]) -> None:
        Path(self.config.path).write_text("")


class ForgetsAtClose(LinesTask):
    """Writes at a flush only the partitions that are to be committed, and forgets the others when it loses some."""

    def start(self) -> None:
        self.kept: list[SinkRecord] = []

    def put(self, batch: SinkBatch) -> None:
        self.kept += list(batch)

    def flush(self, offsets: Offsets) -> None:
        due = [record for record in self.kept if record.at in offsets]
        with Path(self.config.path).open("a") as out:
            out.writelines(f"{record.value['n']}\n" for record in due)
        self.kept = [record for record in self.kept if record.at not in offsets]

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        self.kept = []


class Hangs(LinesTask):
    def stop(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            threading.Event().wait(HANGS_S)


class HangsInPut(LinesTask):
    def put(self, batch: SinkBatch) -> None:
        super().put(batch)
        if len(batch):
            threading.Event().wait(HANGS_S)


class OwnFiles(LinesConnector):
    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        own = super().task_configs(max_tasks)
        return [one | {"path": f"{self.path}-{n}"} for n, one in enumerate(own)] if max_tasks > 1 else own


class IgnoresTokens(RowsTask):
    def claimed(self, place: TopicPartition) -> int:
        row = self.db.execute("SELECT next FROM positions WHERE place = ?", [str(place)]).fetchone()
        return 0 if row is None else int(row[0])


class ForgetsPositions(RowsTask):
    """Takes what the group says, which may be behind the rows."""

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        for place in partitions:
            self.keep(place, self.claimed(place))


def _with(task: type[Any], connector: type[SinkConnector] = LinesConnector) -> type[SinkConnector]:
    return type(f"With{task.__name__}", (connector,), {"task": task})


@pytest.mark.parametrize(
    ("suite", "made", "check", "said"),
    [
        (
            Lines,
            _with(FlushesAtTheStop),
            STORES,
            r"lets offset 2 of testing-0 be committed, but .* does not see \{'n': 0",
        ),
        (Lines, _with(CommitsOneMore), OFFSETS, "pre_commit returned 3 for testing-0, but put.. has only taken 2"),
        (Lines, _with(CommitsOthers), OFFSETS, "pre_commit returned an offset of other-0, which it was not given"),
        (Lines, _with(RemembersTooEarly), CRASH, "After a crash with 1 batches in flight, 4 records are missing"),
        (Lines, _with(BeginsAnew), REBALANCE, "After testing-1 has moved to another task, .* records are missing"),
        (Lines, _with(ForgetsAtClose), REBALANCE, "After testing-1 has moved to another task, 2 records are missing"),
        (ImpatientLines, _with(Hangs), STOPS, "0.4 s after the task was asked to stop it still runs"),
        (Lines, OwnFiles, RECONFIGURATION, "With 2 tasks, 10 records are missing"),
        (Rows, _with(IgnoresTokens, RowsConnector), REPLACED, r"with the token \(1, 1\) could write although"),
        (Rows, _with(ForgetsPositions, RowsConnector), CRASH, "records are in the store twice, the first is {'n': 0}"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_each_check_fails_for_its_fault_alone(
    suite: type[Any], made: type[SinkConnector], check: str, said: str
) -> None:
    ensure_only(check, said, suite, made)


def test_a_task_that_expects_records_fails_with_its_own_error() -> None:
    class Faulty(Lines):
        connector = _with(ExpectsRecords)

    with pytest.raises(IndexError):
        Faulty().test_takes_empty_batches()


def test_task_that_hangs_in_put_is_reported_with_its_stack() -> None:
    class Faulty(ImpatientLines):
        connector = _with(HangsInPut)

    with pytest.raises(AssertionError, match=r"(?s)0.4 s after the task was asked to stop it still runs, in.*wait"):
        Faulty().test_stops_in_time()
