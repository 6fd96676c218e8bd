"""Records of a source in a real host that Python converts: they cross with their values."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.builtin.java.client.host import JavaHost
from fencepost.builtin.java.client.session import HostedSourceTask
from fencepost.builtin.java.error import JavaError
from fencepost.builtin.java.port import JavaClass, Location, Polled, SourceTaskStart
from support.java_plugins import CONVERTERS, with_transforms

Scripted = Callable[..., HostedSourceTask]
TOLERANT = {"errors.tolerance": "all"}


@pytest.fixture
def scripted(host: JavaHost, plugins: Location, diary: Path) -> Iterator[Scripted]:
    tasks: list[HostedSourceTask] = []

    def start(polls: str, **config: str) -> HostedSourceTask:
        asked = SourceTaskStart(
            connector="made",
            task=0,
            java_class=JavaClass("tests.ScriptedTask", plugins),
            task_config={"polls": polls, "diary": str(diary)},
            connector_config=CONVERTERS | config,
            passes_records=True,
        )
        tasks.append(host.source_task(asked))
        return tasks[-1]

    yield start
    for task in tasks:
        task.stop(60)


def polled(task: HostedSourceTask, max_bytes: int | None = None) -> Polled:
    found = task.poll(max_bytes)
    assert found is not None
    return found


def test_unsendable_value_fails_only_its_record(scripted: Scripted) -> None:
    found = polled(scripted("a,alien,null,half-value,alien,b", **TOLERANT))
    failures = found.processing.failures
    assert [(each.row, each.stage, each.offset) for each in failures] == [
        (1, "VALUE_CONVERTER", {"n": 2}),
        (4, "VALUE_CONVERTER", {"n": 5}),
    ]
    assert list(found.batch.values) == ["a", None, None, "\ud800", None, "b"]
    assert [end for _, end in found.batch.ends or ()] == [{"n": 6}]


@pytest.mark.parametrize("kind", ["numbers", "flags", "decimals", "bytes", "texts", "times"])
def test_map_with_keys_that_are_equal_in_python_fails_its_record(scripted: Scripted, kind: str) -> None:
    found = polled(scripted(f"other-keys,equal-{kind},b", **TOLERANT))
    assert [each.row for each in found.processing.failures] == [1]
    assert "keys that are equal in Python" in str(found.processing.failures[0].message)
    assert list(found.batch.values) == [{1: "a", 2.5: "b", False: "c", "1": "d", b"\x01": "e"}, None, "b"]


@pytest.mark.parametrize("kind", ["ring", "rings", "wide-ring"])
def test_a_value_that_contains_itself_fails_its_record(scripted: Scripted, kind: str) -> None:
    """However often: the host does not run out of memory first."""
    found = polled(scripted(f"a,{kind},b", **TOLERANT))
    assert [each.row for each in found.processing.failures] == [1]
    assert "nested more than 500 levels deep" in str(found.processing.failures[0].message)
    assert list(found.batch.values) == ["a", None, "b"]


@pytest.mark.parametrize("item", ["nested", "circle"])
def test_dead_letter_has_no_offset_when_the_offset_cannot_be_stored(scripted: Scripted, item: str) -> None:
    """Only the last offset of a batch is stored, and has to be such that it can be."""
    letters = {"errors.deadletterqueue.topic.name": "dead"}
    found = polled(scripted(f"a,{item},b", **TOLERANT, **letters)).batch
    assert [each.source_offset for each in found.records()] == [{"n": 1}, None, {"n": 3}]
    with pytest.raises(JavaError):
        scripted(f"a,{item}", **TOLERANT, **letters).poll()


def test_unstorable_offset_of_a_dropped_record_is_left_out(scripted: Scripted) -> None:
    unfit = with_transforms(
        a={"type": "org.apache.kafka.connect.transforms.InsertField$Value", "static.field": "f", "static.value": "v"}
    )
    found = polled(scripted("a,nested,b", **unfit, **TOLERANT))
    assert [(each.row, each.offset) for each in found.processing.failures] == [(0, {"n": 1}), (1, None), (2, {"n": 3})]


def test_offsets_of_records_are_sent_when_dead_letters_need_them(scripted: Scripted) -> None:
    letters = {"errors.deadletterqueue.topic.name": "dead"}
    found = polled(scripted("a,alien,b", **TOLERANT, **letters)).batch
    assert [each.source_offset for each in found.records()] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert list(found.source_offsets) == [None] * 3, "it is not committed in part"
    plain = polled(scripted("a", **TOLERANT)).batch
    assert [each.source_offset for each in plain.records()] == [None]


def test_unsendable_value_fails_the_task_when_errors_are_not_tolerated(scripted: Scripted) -> None:
    with pytest.raises(JavaError, match="Tolerance exceeded in error handler: stage 'VALUE_CONVERTER' failed"):
        scripted("a,alien").poll()


def test_failures_of_transforms_and_of_values_keep_their_rows_and_offsets(scripted: Scripted) -> None:
    picky = with_transforms(picky={"type": "tests.Picky"})
    found = polled(scripted("alien,bad,drop,a", **picky, **TOLERANT))
    assert sorted((each.row, (each.offset or {})["n"]) for each in found.processing.failures) == [(0, 1), (1, 2)]
    assert found.processing.filtered == 1
    assert list(found.batch.values) == [None, "bad", "a"]


def test_poll_is_returned_in_parts_of_about_the_requested_size(scripted: Scripted) -> None:
    task = scripted(",".join(["x" * 100] * 5))
    parts = [polled(task, 300) for _ in range(2)]
    assert [len(part.batch) for part in parts] == [3, 2]
    assert [part.is_whole for part in parts] == [False, True]
