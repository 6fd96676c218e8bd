"""Where a group that reads in epochs continues after a loss."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.api import FatalError, RetriableError
from fencepost.record import TopicPartition
from fencepost.task.sink.epoch_plan import EpochMetadata, EpochOffset, OpenEpoch, begun, halved, planned
from fencepost.worker.host.epoch import task as logs_module
from fencepost.worker.host.epoch.membership import HeldPartitions
from fencepost.worker.host.epoch.task import EpochLogs

PLACE = TopicPartition("t", 0)


class Admin:
    """Of a cluster with one log, whose first open transaction begins at `stable`.

    The leader's epoch is 7. `epoch_end`: where earlier epochs end in its log.
    """

    def __init__(self, topic_id: str, begin: int, stable: int, end: int, epoch_end: int = 0) -> None:
        self.topics = SimpleNamespace(get_all=lambda names: {name: SimpleNamespace(id=topic_id) for name in names})
        self.offsets, self.epochs = self, {PLACE: 7}
        self._begin, self._stable, self._end, self._epoch_end = begin, stable, end, epoch_end
        self.asked: list[int] = []  # the epochs of which the ends were asked

    def starts(self, places: Iterable[Any]) -> dict[Any, int]:
        return dict.fromkeys(places, self._begin)

    def ends(self, places: Iterable[Any], *, read_committed: bool) -> dict[Any, int]:
        return dict.fromkeys(places, self._stable if read_committed else self._end)

    def ends_of_epochs(self, epochs: dict[Any, int]) -> dict[Any, int]:
        self.asked += epochs.values()
        return {p: self._epoch_end for p, epoch in epochs.items() if epoch < self.epochs[p]}


class Group:
    """At offset 1000 of a topic, which a leader of `epoch` had."""

    def __init__(self, resets_to: str, topic_id: str | None = "one", epoch: int = 7) -> None:
        self._held = HeldPartitions(dict, lambda: None)
        self._held.offsets[PLACE] = EpochOffset(1000, EpochMetadata(3, topic_id=topic_id), epoch)
        spec: Any = SimpleNamespace(id="s-0", input=SimpleNamespace(consumer_conf={"auto.offset.reset": resets_to}))
        self._logs = EpochLogs(spec)

    def look(self, admin: Admin) -> tuple[int, int]:
        """Return where the group continues, and up to where it may plan."""
        self._logs._admin = admin  # type: ignore[assignment]
        offsets, ends = self._logs.look(self._held, {PLACE})
        assert self._held.offsets == offsets
        return offsets[PLACE].offset, ends[PLACE]

    @property
    def leader_epoch(self) -> int:
        return self._held.offsets[PLACE].leader_epoch


def look(admin: Admin, resets_to: str, topic_id: str | None = "one", epoch: int = 7) -> tuple[int, int]:
    return Group(resets_to, topic_id, epoch).look(admin)


@pytest.fixture
def sure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_module, "SURE_S", 0.0)


@pytest.mark.parametrize("resets_to", ["earliest", "latest"])
def test_reading_continues_at_the_end_of_a_log_that_was_cut(sure: None, resets_to: str) -> None:
    assert look(Admin("one", 0, 980, 990), resets_to) == (990, 980)


def test_reading_continues_at_the_cut_when_the_log_grows_before_it_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group("earliest")
    assert group.look(Admin("one", 0, 900, 900)) == (1000, 1000)
    monkeypatch.setattr(logs_module, "SURE_S", 0.0)
    assert group.look(Admin("one", 0, 990, 990)) == (900, 990)


@pytest.mark.parametrize("end", [1000, 1100])
def test_reading_continues_at_the_cut_when_the_log_grows_past_the_offset(end: int) -> None:
    """One leader has reported both ends. Its log never becomes shorter, so the offset was read from another one."""
    group = Group("earliest")
    assert group.look(Admin("one", 0, 900, 900)) == (1000, 1000)
    assert group.look(Admin("one", 0, 950, 950)) == (1000, 1000)
    assert group.look(Admin("one", 0, end, end)) == (900, end)
    assert group.look(Admin("one", 0, end, end)) == (900, end)


def test_offset_without_topic_id_is_kept_when_the_log_grows_past_it() -> None:
    """Someone may have chosen it."""
    group = Group("earliest", topic_id=None)
    assert group.look(Admin("one", 0, 900, 900)) == (1000, 1000)
    assert group.look(Admin("one", 0, 1100, 1100)) == (1000, 1100)


def test_short_log_of_a_deposed_leader_is_logged_and_is_not_a_cut(caplog: pytest.LogCaptureFixture) -> None:
    group, newer = Group("earliest"), Admin("one", 0, 1100, 1100)
    assert group.look(Admin("one", 0, 900, 900)) == (1000, 1000)
    newer.epochs, newer._epoch_end = {PLACE: 8}, 1100
    assert group.look(newer) == (1000, 1100)
    (text,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert "offsets 900 to 999 are not read" in text
    caplog.clear()
    assert group.look(newer) == (1000, 1100)
    assert not caplog.records


@pytest.mark.parametrize(("resets_to", "goes_on"), [("earliest", 5), ("latest", 1200)])
def test_recreated_topic_is_treated_as_a_new_topic(sure: None, resets_to: str, goes_on: int) -> None:
    """Although it has the offset. The latest offset is before the first open transaction."""
    assert look(Admin("two", 5, 1200, 1300), resets_to) == (goes_on, 1200)


@pytest.mark.parametrize(("topic_id", "end"), [("one", 990), ("two", 1300)])
def test_no_epoch_is_planned_while_one_answer_looks_like_data_loss(topic_id: str, end: int) -> None:
    assert look(Admin(topic_id, 0, end, end), "earliest") == (1000, 1000)


def test_auto_offset_reset_applies_when_an_offset_has_no_topic_id(sure: None) -> None:
    assert look(Admin("one", 0, 990, 990), "earliest", topic_id=None) == (0, 990)


def test_epoch_is_finished_with_the_topic_ids_of_its_plan() -> None:
    again = begun_of({PLACE: EpochOffset(5, EpochMetadata(3, topic_id="one"), 7)}, 9)
    assert again.topic_ids == {"t": "one"}
    assert again.ended()[PLACE].metadata.topic_id == "one"
    assert again.ended()[PLACE].leader_epoch == 7
    assert halved(again) == {PLACE: EpochOffset(5, EpochMetadata(4, topic_id="one"), 7)}


def begun_of(offsets: dict[TopicPartition, EpochOffset], end: int) -> OpenEpoch:
    """Return the epoch up to an end, as a successor finds it in the group."""
    plan = planned(offsets, {PLACE: end}, 100)
    assert plan is not None
    again = begun({p: EpochOffset.of(s.to_commit(p)) for p, s in plan.offsets().items()})
    assert again is not None
    return again


@pytest.mark.parametrize("resets_to", ["earliest", "latest"])
def test_reading_continues_at_the_cut_when_the_log_has_grown_since(
    sure: None, caplog: pytest.LogCaptureFixture, resets_to: str
) -> None:
    """The group did not read meanwhile. Only the leader epoch of its offset says that the log is another one."""
    group = Group(resets_to, epoch=5)
    assert group.look(Admin("one", 0, 1200, 1300, epoch_end=900)) == (900, 1200)
    assert group.leader_epoch == 7
    (text,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert "was cut at 900" in text


def test_cut_is_applied_once_it_has_been_reported_for_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group("earliest", epoch=5)
    assert group.look(Admin("one", 0, 1200, 1200, epoch_end=900)) == (1000, 1000)
    assert group.leader_epoch == 5
    monkeypatch.setattr(logs_module, "SURE_S", 0.0)
    assert group.look(Admin("one", 0, 1300, 1300, epoch_end=900)) == (900, 1300)


def test_cut_is_discarded_when_another_leader_does_not_report_it(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group("earliest", epoch=5)
    assert group.look(Admin("one", 0, 1200, 1200, epoch_end=900)) == (1000, 1000)
    monkeypatch.setattr(logs_module, "SURE_S", 0.0)
    assert group.look(Admin("one", 0, 1200, 1200, epoch_end=1000)) == (1000, 1200)


def test_cut_log_is_read_from_its_start_when_its_kept_part_was_deleted(sure: None) -> None:
    assert look(Admin("one", 950, 1200, 1200, epoch_end=900), "earliest", epoch=5) == (950, 1200)


def test_a_cut_fails_the_task_if_auto_offset_reset_is_none(sure: None) -> None:
    with pytest.raises(FatalError, match="which was cut at 900"):
        look(Admin("one", 0, 1200, 1200, epoch_end=900), "error", epoch=5)


def test_leader_epochs_are_compared_once_for_each_new_leader() -> None:
    admin, group = Admin("one", 0, 1200, 1200, epoch_end=1100), Group("earliest", epoch=5)
    for _ in range(3):
        assert group.look(admin) == (1000, 1200)
    assert admin.asked == [5]


def test_nothing_is_planned_while_brokers_report_only_older_leaders(
    sure: None, caplog: pytest.LogCaptureFixture
) -> None:
    group, newer = Group("earliest", epoch=8), Admin("one", 0, 1200, 1200)
    assert group.look(Admin("one", 0, 1100, 1100)) == (1000, 1000)
    assert group.leader_epoch == 8
    assert "PATCH" in caplog.text
    newer.epochs = {PLACE: 8}
    assert group.look(newer) == (1000, 1200)


def test_no_epoch_is_planned_when_the_leader_changes_between_two_requests() -> None:
    """The end of the log is from another leader than the answer that nothing was cut."""
    admin, group = Admin("one", 0, 1200, 1200), Group("earliest", epoch=5)

    def ends_of_epochs(epochs: dict[Any, int]) -> dict[Any, int]:
        admin.epochs = {PLACE: 8}
        return dict.fromkeys(epochs, 1100)

    admin.ends_of_epochs = ends_of_epochs  # type: ignore[method-assign]
    assert group.look(admin) == (1000, 1000)
    assert group.leader_epoch == 5


@pytest.mark.parametrize("epoch", [-1, 7])
def test_an_offset_copied_from_another_cluster_is_kept(sure: None, epoch: int) -> None:
    """A mirror copies the metadata with the id that the topic has in the other cluster, but no leader epoch."""
    group = Group("earliest", topic_id="of the other cluster" if epoch < 0 else None, epoch=epoch)
    assert group.look(Admin("one", 0, 1200, 1200)) == (1000, 1200)
    assert group._held.offsets[PLACE] == EpochOffset(1000, EpochMetadata(3, topic_id="one"), 7)


def test_epoch_copied_from_another_cluster_has_no_topic_id() -> None:
    assert begun_of({PLACE: EpochOffset(5, EpochMetadata(3, topic_id="of the other cluster"))}, 9).topic_ids == {}


@pytest.mark.parametrize(("epoch_end", "then"), [(1100, 7), (1030, 7), (1000, 7), (990, 5)])
def test_repeated_epoch_reads_the_log_of_the_newest_leader(epoch_end: int, then: int) -> None:
    """If that was cut below the epoch, it is not the log of the offsets before, and the cut is still to be found."""
    group = Group("earliest", epoch=5)
    epoch = begun_of(dict(group._held.offsets), 1050)
    group._logs._admin = Admin("one", 0, 1200, 1200, epoch_end=epoch_end)  # type: ignore[assignment]
    again = group._logs.repeated(epoch)
    assert again.epoch == epoch.epoch
    assert again.ended()[PLACE].leader_epoch == then


def test_cut_is_found_in_an_epoch_that_was_repeated_from_a_shorter_log(sure: None) -> None:
    """The newest leader did not have all of the epoch yet, so its leader epoch says nothing of the epoch's end."""
    group = Group("earliest", epoch=5)
    epoch = begun_of(dict(group._held.offsets), 1050)
    group._logs._admin = Admin("one", 0, 1020, 1020, epoch_end=1010)  # type: ignore[assignment]
    group._held.committed(group._logs.repeated(epoch).ended())
    assert group.look(Admin("one", 0, 1200, 1200, epoch_end=1010)) == (1010, 1200)


def test_epoch_is_not_repeated_from_an_older_leader_than_in_its_plan() -> None:
    """It was deposed. What its log lacks is no loss: the newest leader may have it."""
    group = Group("earliest", epoch=8)
    epoch = begun_of(dict(group._held.offsets), 1050)
    admin = group._logs._admin = Admin("one", 0, 1020, 1020)  # type: ignore[assignment]
    with pytest.raises(RetriableError, match="older leaders of t-0"):
        group._logs.repeated(epoch)
    admin.epochs = {PLACE: 8}
    assert group._logs.repeated(epoch) == epoch


@pytest.mark.parametrize("topic_id", [None, "two"])
def test_epoch_is_finished_when_its_topic_was_deleted(topic_id: str | None) -> None:
    """It may have been created again. Nobody is asked about the log of a topic that is gone: the answer is an error."""
    group, admin = Group("earliest", epoch=5), Admin("two", 0, 1200, 1200, epoch_end=1100)
    epoch = begun_of(dict(group._held.offsets), 1050)
    if topic_id is None:
        admin.topics = SimpleNamespace(get_all=lambda _: {})
    group._logs._admin = admin  # type: ignore[assignment]
    assert group._logs.repeated(epoch) == epoch
    assert admin.asked == []
