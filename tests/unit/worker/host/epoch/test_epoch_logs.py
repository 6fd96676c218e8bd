"""Where a group that reads in epochs continues after a loss."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.record import TopicPartition
from fencepost.task.sink.epoch_plan import EpochMetadata, EpochOffset, begun, planned
from fencepost.worker.host.epoch import logs as logs_module
from fencepost.worker.host.epoch.held_partitions import HeldPartitions
from fencepost.worker.host.epoch.logs import EpochLogs

PLACE = TopicPartition("t", 0)


class Admin:
    """Of a cluster with one log, whose first open transaction begins at `stable`."""

    def __init__(self, topic_id: str, begin: int, stable: int, end: int) -> None:
        self.topics = SimpleNamespace(get_all=lambda names: {name: SimpleNamespace(id=topic_id) for name in names})
        self.offsets, self.epochs = self, {PLACE: 7}
        self._begin, self._stable, self._end = begin, stable, end

    def starts(self, places: Iterable[Any]) -> dict[Any, int]:
        return dict.fromkeys(places, self._begin)

    def ends(self, places: Iterable[Any], *, read_committed: bool) -> dict[Any, int]:
        return dict.fromkeys(places, self._stable if read_committed else self._end)


class Group:
    """At offset 1000 of a topic."""

    def __init__(self, resets_to: str, topic_id: str | None = "one") -> None:
        self._held = HeldPartitions(dict, lambda: None)
        self._held.offsets[PLACE] = EpochOffset(1000, EpochMetadata(3, topic_id=topic_id))
        spec: Any = SimpleNamespace(id="s-0", input=SimpleNamespace(consumer_conf={"auto.offset.reset": resets_to}))
        self._logs = EpochLogs(spec)

    def look(self, admin: Admin) -> tuple[int, int]:
        """Return where the group continues, and up to where it may plan."""
        self._logs._admin = admin  # type: ignore[assignment]
        offsets, ends = self._logs.look(self._held, {PLACE})
        assert self._held.offsets == offsets
        return offsets[PLACE].offset, ends[PLACE]


def look(admin: Admin, resets_to: str, topic_id: str | None = "one") -> tuple[int, int]:
    return Group(resets_to, topic_id).look(admin)


@pytest.fixture
def sure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_module, "SURE_S", 0.0)


@pytest.mark.parametrize("resets_to", ["earliest", "latest"])
def test_reading_continues_at_the_end_of_a_log_that_was_cut(sure: None, resets_to: str) -> None:
    assert look(Admin("one", 0, 980, 990), resets_to) == (990, 980)


def test_reading_continues_where_a_log_was_cut_that_grows_while_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group("earliest")
    assert group.look(Admin("one", 0, 900, 900)) == (1000, 1000)
    monkeypatch.setattr(logs_module, "SURE_S", 0.0)
    assert group.look(Admin("one", 0, 990, 990)) == (900, 990)


@pytest.mark.parametrize("end", [1000, 1100])
def test_reading_continues_where_a_log_was_cut_that_grows_past_the_offset(end: int) -> None:
    """One leader has reported both ends. Its log never becomes shorter, so the offset was read from another one."""
    group = Group("earliest")
    assert group.look(Admin("one", 0, 900, 900)) == (1000, 1000)
    assert group.look(Admin("one", 0, 950, 950)) == (1000, 1000)
    assert group.look(Admin("one", 0, end, end)) == (900, end)
    assert group.look(Admin("one", 0, end, end)) == (900, end)


def test_an_offset_of_an_unknown_topic_is_kept_when_the_log_grows_past_it() -> None:
    """Someone may have chosen it."""
    group = Group("earliest", topic_id=None)
    assert group.look(Admin("one", 0, 900, 900)) == (1000, 1000)
    assert group.look(Admin("one", 0, 1100, 1100)) == (1000, 1100)


def test_a_short_log_of_a_deposed_leader_is_no_cut_but_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    group, newer = Group("earliest"), Admin("one", 0, 1100, 1100)
    assert group.look(Admin("one", 0, 900, 900)) == (1000, 1000)
    newer.epochs = {PLACE: 8}
    assert group.look(newer) == (1000, 1100)
    (text,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert "offsets 900 to 999 are not read" in text
    caplog.clear()
    assert group.look(newer) == (1000, 1100)
    assert not caplog.records


@pytest.mark.parametrize(("resets_to", "goes_on"), [("earliest", 5), ("latest", 1200)])
def test_a_topic_that_was_created_again_is_a_new_one(sure: None, resets_to: str, goes_on: int) -> None:
    """Although it has the offset. The latest offset is before the first open transaction."""
    assert look(Admin("two", 5, 1200, 1300), resets_to) == (goes_on, 1200)


@pytest.mark.parametrize(("topic_id", "end"), [("one", 990), ("two", 1300)])
def test_nothing_is_planned_while_one_answer_seems_to_be_a_loss(topic_id: str, end: int) -> None:
    assert look(Admin(topic_id, 0, end, end), "earliest") == (1000, 1000)


def test_auto_offset_reset_decides_when_the_topic_of_an_offset_is_unknown(sure: None) -> None:
    assert look(Admin("one", 0, 990, 990), "earliest", topic_id=None) == (0, 990)


def test_an_epoch_is_finished_with_the_topic_ids_with_which_it_was_planned() -> None:
    plan = planned({PLACE: EpochOffset(5, EpochMetadata(3, topic_id="one"))}, {PLACE: 9}, 100)
    assert plan is not None
    committed = {
        p: EpochOffset(s.offset, EpochMetadata.of_text(s.metadata.to_text())) for p, s in plan.offsets().items()
    }
    again = begun(committed)
    assert again is not None
    assert again.topic_ids == {"t": "one"}
    assert again.ended()[PLACE].metadata.topic_id == "one"
