"""Where a mirror with `on.source.gap=record` continues."""

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.builtin.mirror.source.connector import MirrorSourceTask
from fencepost.kafka.read import plan_topics
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.read.plan_topics import PlanLosses
from fencepost.kafka.value.position import GapKind, LogGap, LogPosition
from fencepost.record import TopicPartition

PLACE = TopicPartition("t", 0)


class Topics:
    """Of a cluster with one log."""

    def __init__(self, start: int, end: int) -> None:
        self._start, self.end, self.epoch = start, end, 6

    def starts(self, places: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self._start)

    def ends(self, places: Any, *, read_committed: bool) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self.end)

    def leader_epoch(self, place: TopicPartition) -> int:
        return self.epoch


def found(start: int, end: int, *, common: int | None = None, is_repeated: bool = True) -> LogGap | None:
    """Return the gap of a mirror at offset 1000, if the log has these offsets; its reader may say up to where it is."""
    losses = PlanLosses(Topics(start, end), is_repeated=is_repeated)  # type: ignore[arg-type]
    losses.add(Read(lost={PLACE}, cut={} if common is None else {PLACE: LogPosition(common, epoch=5)}))
    return look(losses)


def look(losses: PlanLosses) -> LogGap | None:
    losses.take_turn()
    gaps, in_doubt = losses.sure_gaps({PLACE: 1000}, {"t": SimpleNamespace(partitions=1, id="id")})  # type: ignore[dict-item]
    losses.looked(in_doubt)
    return gaps.get(PLACE)


@pytest.mark.parametrize(
    ("start", "end", "common", "kind", "goes_on"),
    [
        (0, 1100, 990, GapKind.DIVERGED, 990),
        (0, 995, 990, GapKind.CUT, 990),
        (0, 990, None, GapKind.CUT, 990),
        (993, 1100, 990, GapKind.DIVERGED, 993),
        (1005, 1100, None, GapKind.TRUNCATED, 1005),
    ],
)
def test_a_mirror_continues_with_the_first_record_that_is_not_mirrored(
    monkeypatch: pytest.MonkeyPatch, start: int, end: int, common: int | None, kind: GapKind, goes_on: int
) -> None:
    monkeypatch.setattr(plan_topics, "SURE_S", 0.0)
    gap = found(start, end, common=common)
    assert gap is not None
    assert gap.kind is kind
    task, went_on = MirrorSourceTask(), []
    task.config, task._alias = SimpleNamespace(on_gap="record", flow="a->b"), "a"  # type: ignore[assignment]
    task._input, task._committed = SimpleNamespace(gaps={PLACE: gap}, go_on=lambda *at: went_on.append(at)), []  # type: ignore[assignment]
    task._see_to_gaps()
    assert went_on == [(PLACE, goes_on)]


def test_single_answer_about_a_diverging_log_makes_no_gap() -> None:
    assert found(0, 1100, common=990) is None


@pytest.mark.parametrize("end", [985, 995, 1100])
def test_one_report_of_a_cut_is_enough_when_its_reader_makes_no_other(end: int) -> None:
    gap = found(0, end, common=985, is_repeated=False)
    assert gap is not None
    assert gap.next_offset == 985


@pytest.mark.parametrize("is_repeated", [True, False])
@pytest.mark.parametrize("end", [995, 1000, 1100])
def test_a_gap_begins_where_a_log_was_cut_that_grows_while_in_doubt(
    monkeypatch: pytest.MonkeyPatch, end: int, is_repeated: bool
) -> None:
    topics = Topics(0, 985)
    losses = PlanLosses(topics, is_repeated=is_repeated)  # type: ignore[arg-type]
    losses.add(Read(lost={PLACE}))
    assert look(losses) is None
    assert losses.lost == {PLACE}  # it is looked at again
    monkeypatch.setattr(plan_topics, "SURE_S", 0.0)
    monkeypatch.setattr(plan_topics, "DOUBT_EVERY_S", 0.0)
    topics.end = end
    gap = look(losses)
    assert gap is not None
    assert gap.next_offset == 985
    assert not losses.lost


def test_a_short_log_of_a_deposed_leader_is_no_gap_but_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    topics = Topics(0, 985)
    losses = PlanLosses(topics, is_repeated=False)  # type: ignore[arg-type]
    losses.add(Read(lost={PLACE}))
    assert look(losses) is None
    topics.end, topics.epoch = 1100, 7
    assert look(losses) is None
    assert not losses.lost
    assert "offsets 985 to 999 are not read" in caplog.text


def test_a_second_cut_before_the_same_position_is_not_taken_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_topics, "SURE_S", 0.0)
    topics = Topics(0, 980)
    losses = PlanLosses(topics, is_repeated=False)  # type: ignore[arg-type]
    begins = []
    for topics.end in (980, 995):
        losses.add(Read(lost={PLACE}))
        gap = look(losses) or look(losses)
        assert gap is not None
        begins.append(gap.next_offset)
        losses.decided([PLACE])
    assert begins == [980, 995]
