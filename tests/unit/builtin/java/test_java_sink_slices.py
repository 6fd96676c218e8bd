"""The task of a Java sink that gets several batches at once: Java's put gets each in a call of its own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import FatalError, RetriableError
from fencepost.builtin.java import sink_task
from fencepost.builtin.java.error import JavaError
from fencepost.builtin.java.port import Failure, Processing, Put, PutEffects
from fencepost.kafka.value.fetched import Fetched
from fencepost.task.sink import reader
from support.group_stage import A, B, Moment, fetched
from support.java_sink_stage import AWAY, THROWN, Stage, records


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "pause_after", lambda *_: 0.0)
    monkeypatch.setattr(sink_task, "_QUICK_S", 60.0)


def quick(*offsets: int) -> Moment:
    """Return a poll with a record of A for each offset."""
    return records(*[(A, offset) for offset in offsets])


def puts_of(*rows: int, removed: int = 0, **effects: Any) -> PutEffects:
    """Return the effects of so many calls of Java's put, each with its rows."""
    return PutEffects(puts=tuple(Put(each, removed) for each in rows), **effects)


def test_batches_per_call_grow_while_puts_are_quick_and_request_no_commit(tmp_path: Path) -> None:
    stage = Stage(tmp_path, most_records=2)
    asked: list[int] = []
    stage.group.poll = polls(stage, asked)  # type: ignore[method-assign]
    stage.java.script = [puts_of(2), puts_of(2, 2), puts_of(2, 2, 2), puts_of(2, 2, requests_commit=True)]
    stage.run(
        stage.assigned(a=0), quick(0, 1), quick(*range(2, 6)), quick(*range(6, 12)), quick(*range(12, 20)), Fetched
    )
    assert asked[1:6] == [2, 4, 6, 8, 2]
    assert stage.counters.batches == 8
    assert stage.counters.batch_size_max == 2


def test_javas_puts_get_at_most_kafkas_default_unless_the_user_sets_more(tmp_path: Path) -> None:
    assert Stage(tmp_path).context.most_records == 500
    assert Stage(tmp_path, most_records=2_000).context.most_records == 2_000


def test_records_left_by_java_are_read_again_before_its_requested_commit(tmp_path: Path) -> None:
    stage = Stage(tmp_path, puts_of(2, 1, requests_commit=True), most_records=2)
    five = records((A, 0), (B, 7), (A, 1), (A, 2), (B, 9))
    stage.run(stage.assigned(a=0, b=7), five, Fetched)
    seek, commit = ("seek", {A: 2, B: 9}), ("commit", {A: 2, B: 9})
    assert stage.log.index(seek) < stage.log.index(commit)
    assert stage.counters.records_written == stage.counters.records_polled == 3


def test_only_the_rows_that_java_has_refused_are_put_again(tmp_path: Path) -> None:
    refused = puts_of(2, 2, thrown=AWAY, timeout_ms=0)
    stage = Stage(tmp_path, refused, puts_of(2, thrown=AWAY, timeout_ms=0), most_records=2)
    stage.run(stage.assigned(a=0), quick(*range(6)), stage.commits, Fetched)
    assert [what for what in stage.log if what[0] in ("put", "seek")] == [
        ("put", 0, 1, 2, 3, 4, 5),
        ("seek", {A: 4}),
        ("put", 2, 3),
        ("put", 2, 3),
    ]
    assert stage.sink.are_again == [False, True, True]
    assert stage.sink.batches[1] is stage.sink.batches[2]
    assert stage.committed()[-1] == {A: 4}
    assert (stage.counters.records_polled, stage.counters.records_written) == (4, 4)


def test_batches_put_before_a_failed_put_are_committed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, puts_of(2, 2, thrown=JavaError("no table", THROWN)), most_records=2)
    with pytest.raises(FatalError, match="no table"):
        stage.run(stage.assigned(a=0), quick(*range(6)))
    assert stage.committed() == [{A: 2}]


def test_batches_put_before_a_refused_dead_letter_are_committed(tmp_path: Path) -> None:
    failure = Failure(3, "VALUE_CONVERTER", "org.example.Bad", None, "org.example.Json")
    effects = puts_of(2, 2, removed=1, processing=Processing(failures=(failure,)))
    stage = Stage(tmp_path, effects, most_records=2)
    stage.letters.refusals = [RetriableError("no leader")] * 2
    stage.run(stage.assigned(a=0), quick(*range(6)), stage.commits, Fetched, stage.commits)
    assert [what for what in stage.log if what[0] in ("put", "seek", "letter", "commit")] == [
        ("put", 0, 1, 2, 3, 4, 5),
        ("seek", {A: 4}),
        ("commit", {A: 2}),
        ("letter", 3),
        ("commit", {A: 4}),
    ]
    assert stage.counters.records_written == 2


def test_rewind_of_the_task_overrides_the_seek_to_remaining_records(tmp_path: Path) -> None:
    stage = Stage(tmp_path, puts_of(1, rewinds={A: 0}), most_records=1)
    stage.run(stage.assigned(a=5), quick(5, 6, 7))
    assert [what for what in stage.log if what[0] == "seek"] == [("seek", {A: 6}), ("seek", {A: 0})]
    assert stage.committed() == [{A: 0}]


def test_large_records_cross_one_batch_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_task, "_MOST_BYTES", 10)
    stage = Stage(tmp_path, most_records=2)
    large = replace(fetched(*[(A, n) for n in range(6)]), values=[b"1234567"] * 6)
    stage.run(stage.assigned(a=0), lambda: large, Fetched)
    assert [len(batch) for batch in stage.sink.batches] == [2]
    assert ("seek", {A: 2}) in stage.log
    assert stage.task.batches == 1


def test_a_task_with_slow_puts_gets_one_batch_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_task, "_QUICK_S", -1.0)
    stage = Stage(tmp_path, most_records=1)
    stage.run(stage.assigned(a=0), quick(0), quick(1), quick(2))
    assert stage.task.batches == 1


def polls(stage: Stage, asked: list[int]) -> Any:
    """Return a `poll` that notes for how many records it is asked."""
    poll = stage.group.poll

    def noted(timeout_s: float, most: int) -> Fetched:
        asked.append(most)
        return poll(timeout_s, most)

    return noted
