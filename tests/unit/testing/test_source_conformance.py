"""The conformance class of sources: each check fails for its fault alone, and for no connector without one."""

import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import (
    Batch,
    RecordMetadata,
    SourceConnector,
    SourceRecord,
    SourceTask,
    setting,
)
from fencepost.builtin.connector.file_stream.source import FileStreamSourceConnector
from fencepost.builtin.connector.generator import DatagenConnector, VerifiableSourceConnector
from fencepost.testing import SourceConformance, SourceRun
from support.conformance_verdicts import ensure_only, failed, verdicts

RESUMES = "test_resumes_from_any_offset"
CRASH = "test_nothing_is_skipped_after_a_crash"
STOPS = "test_stops_in_time"
BOUNDARIES = "test_honours_boundaries"
RECONFIGURATION = "test_survives_reconfiguration"
JSON = "test_offsets_are_stable_as_json"
HANGS_S = 120.0  # in a thread that nobody waits for


class LinesTask(SourceTask["LinesConnector"]):
    """The lines of files, two at a time, each file from its committed line on."""

    def start(self) -> None:
        self.files = [Path(name) for name in self.config.files]
        self.at = {file: self.begin(self.context.offset(self.partition(file))) for file in self.files}

    def begin(self, offset: Mapping[str, Any]) -> int:
        return int(offset.get("line", 0))

    def partition(self, file: Path) -> dict[str, Any]:
        return {"file": file.name}

    def offset(self, line: int) -> dict[str, Any]:
        return {"line": line}

    def poll(self) -> list[SourceRecord] | None:
        for file in self.files:
            first = self.at[file]
            lines = file.read_text().splitlines()[first : first + 2]
            if lines:
                self.at[file] = first + len(lines)
                return self.records(file, first, lines)
        self.context.wait(1.0)
        return None

    def records(self, file: Path, first: int, lines: list[str]) -> list[SourceRecord]:
        return [
            SourceRecord(self.partition(file), self.offset(first + number), "lines", line)
            for number, line in enumerate(lines, start=1)
        ]


class LinesConnector(SourceConnector):
    task: Any = LinesTask
    files: list[str] = setting("files")

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        own, count = super().task_configs(1)[0], min(max_tasks, len(self.files))
        return [own | {"files": self.files[number::count]} for number in range(count)]


class Lines(SourceConformance):
    def prepare(self, directory: Path) -> dict[str, object]:
        files = [directory / "a", directory / "b"]
        for file in files:
            file.write_text("".join(f"{file.name}{number}\n" for number in range(4)))
        return {"files": files}


class ImpatientLines(Lines):
    stops_within_s = 0.4


@pytest.fixture(autouse=True)
def waits_are_shorter_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.testing.source_run.SHORT_WAIT_S", 0.001)


# without a fault


class TestLines(Lines):
    connector = LinesConnector


class TestFileStream(SourceConformance):
    connector = FileStreamSourceConnector

    def prepare(self, directory: Path) -> dict[str, object]:
        (directory / "lines").write_text("".join(f"line {number}\n" for number in range(7)))
        return {"file": directory / "lines", "topic": "lines", "batch.size": 2}


class TestVerifiableSource(SourceConformance):
    connector = VerifiableSourceConnector
    config = {"topic": "numbers"}


class TestDatagen(SourceConformance):
    connector = DatagenConnector
    config = {"topic": "made-up", "rows.per.second": 0, "max.rows": 7}


class DefiningTask(LinesTask):
    """Each poll is a transaction, which ends after its last record."""

    def poll(self) -> list[SourceRecord] | None:
        records = super().poll()
        if records and self.context.transaction is not None:
            self.end(records)
        return records

    def end(self, records: list[SourceRecord]) -> None:
        assert self.context.transaction is not None
        self.context.transaction.commit_transaction(records[-1])


class DefiningConnector(LinesConnector):
    task = DefiningTask

    def can_define_transaction_boundaries(self) -> bool:
        return True


def test_a_source_that_defines_its_transactions_passes() -> None:
    class Defining(Lines):
        connector = DefiningConnector

    assert set(verdicts(Defining).values()) == {"passed"}


def test_boundary_check_is_skipped_for_a_source_without_own_transactions() -> None:
    assert {name for name, said in verdicts(TestLines).items() if said == "skipped"} == {BOUNDARIES}


# each with one fault


class SkipsOne(LinesTask):
    def begin(self, offset: Mapping[str, Any]) -> int:
        return super().begin(offset) + bool(offset)


class RepeatsOne(LinesTask):
    def begin(self, offset: Mapping[str, Any]) -> int:
        return max(super().begin(offset) - 1, 0)


class ForgetsOffsets(LinesTask):
    def begin(self, offset: Mapping[str, Any]) -> int:
        return 0


class TakesAway(LinesTask):
    """Empties a file as soon as it is read."""

    def poll(self) -> list[SourceRecord] | None:
        records = super().poll()
        for record in records or ():
            file = next(f for f in self.files if f.name == record.source_partition["file"])
            if self.at[file] == len(file.read_text().splitlines()):
                file.write_text("\n" * self.at[file])
        return records


class TakesAwayTooMuch(LinesTask):
    """Empties what was polled when something was committed, although it is polled ahead."""

    polls_ahead = True

    def commit(self) -> None:
        for file, line in self.at.items():
            lines = file.read_text().splitlines()
            file.write_text("\n" * line + "".join(f"{one}\n" for one in lines[line:]))


class Sleeps(LinesTask):
    def poll(self) -> list[SourceRecord] | None:
        records = super().poll()
        if self.context.is_stopping:
            threading.Event().wait(HANGS_S)
        return records


class StopsSlowly(LinesTask):
    def stop(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            threading.Event().wait(HANGS_S)


class ReadsTheClock(LinesTask):
    def offset(self, line: int) -> dict[str, Any]:
        return {**super().offset(line), "read_at": time.time_ns()}


class OffsetIsATuple(LinesTask):
    def offset(self, line: int) -> dict[str, Any]:
        return {"line": line, "place": (1, line)}


class AllFilesForAll(LinesConnector):
    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        return super().task_configs(1) * max_tasks


class FilesAreLost(LinesConnector):
    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        return super().task_configs(max_tasks)[: max(1, max_tasks - 1)]


class TooManyTasks(LinesConnector):
    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        return super().task_configs(max_tasks) + super().task_configs(1) * (max_tasks > 1) * 3


class EndsAfterACopy(DefiningTask):
    def end(self, records: list[SourceRecord]) -> None:
        super().end([records[-1].replace(topic="lines")])


class NeverEnds(DefiningTask):
    def end(self, records: list[SourceRecord]) -> None: ...


class ForgetsTheTail(DefiningTask):
    def end(self, records: list[SourceRecord]) -> None:
        super().end(records[:1])


class WantsBoth(DefiningTask):
    def end(self, records: list[SourceRecord]) -> None:
        super().end(records)
        assert self.context.transaction is not None
        self.context.transaction.abort_transaction(records[-1])


class EndsAfterARow(DefiningTask):
    def poll(self) -> Any:
        records = super().poll()
        return Batch.of_records(records)[0] if records else None


def _with(task: type[LinesTask], connector: type[LinesConnector] = LinesConnector) -> type[LinesConnector]:
    return type(f"With{task.__name__}", (connector,), {"task": task})


@pytest.mark.parametrize(
    ("made", "check", "said"),
    [
        (_with(SkipsOne), RESUMES, r"at the offset \{'line': 1\} of \{'file': 'a'\} \(record 1\) skips .*'a1'"),
        (_with(RepeatsOne), RESUMES, "gives .*'a0'.* again"),
        (_with(ForgetsOffsets), RESUMES, "gives .*'a0'.* again"),
        (_with(TakesAway), CRASH, r"commits and a crash, a new task skips .*release them in `commit`"),
        (_with(TakesAwayTooMuch), CRASH, "After 1 commits and a crash, a new task skips .*'a2'"),
        (_with(Sleeps), STOPS, "0.4 s after the task was asked to stop it still runs, in.*wait"),
        (_with(StopsSlowly), STOPS, "0.4 s after the task was asked to stop it still runs"),
        (AllFilesForAll, RECONFIGURATION, "Two of 2 tasks read"),
        (FilesAreLost, RECONFIGURATION, "After a change from 1 to . tasks, the source skips"),
        (TooManyTasks, RECONFIGURATION, r"task_configs\(2\) returned 5 configs"),
        (_with(ReadsTheClock), JSON, "the first time and .* the second: name only the place"),
        (_with(OffsetIsATuple), JSON, "Record 0: A source offset may only hold strings, .* but 'place' holds"),
        (_with(EndsAfterACopy, DefiningConnector), BOUNDARIES, "asked for no commit"),
        (_with(NeverEnds, DefiningConnector), BOUNDARIES, "asked for no commit in 8 records"),
        (_with(ForgetsTheTail, DefiningConnector), BOUNDARIES, "never ends the transaction of its last 1 records"),
        (_with(WantsBoth, DefiningConnector), BOUNDARIES, "asked for both a commit and an abort"),
        (_with(EndsAfterARow, DefiningConnector), BOUNDARIES, "returned a batch of columns"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_each_check_fails_for_its_fault_alone(made: type[LinesConnector], check: str, said: str) -> None:
    ensure_only(check, said, ImpatientLines if check == STOPS else Lines, made)


def test_source_with_too_few_records_fails_the_checks() -> None:
    class Empty(Lines):
        connector = LinesConnector

        def prepare(self, directory: Path) -> dict[str, object]:
            (directory / "a").write_text("only\n")
            return {"files": [directory / "a"]}

    said = failed(Empty)[RESUMES]
    assert "must make at least 2" in said


def test_unstable_source_partition_fails_the_checks_that_rely_on_it() -> None:
    class Lost(LinesTask):
        def partition(self, file: Path) -> dict[str, Any]:
            return {"file": file.name, "start": uuid.uuid4().hex}

    class Faulty(Lines):
        connector = _with(Lost)

    assert {RESUMES, JSON} <= set(failed(Faulty))


def test_commit_record_is_called_for_each_committed_record(tmp_path: Path) -> None:
    heard: list[tuple[Any, RecordMetadata | None]] = []

    class Hears(LinesTask):
        def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
            heard.append((record.value, metadata))

    made = SourceRun(_with(Hears), Lines().prepare(tmp_path))
    made.poll()
    made.poll()
    made.commit()
    assert [value for value, _ in heard] == ["a0", "a1", "a2", "a3"]
    assert all(metadata is not None for _, metadata in heard)
