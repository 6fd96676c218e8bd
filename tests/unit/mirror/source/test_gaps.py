"""Where a mirror with `on.source.gap=record` continues."""

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.kafka.read import plan_topics
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.read.plan_topics import PlanLosses
from fencepost.kafka.value.log_gap import GapKind, LogGap, LogPosition
from fencepost.mirror.source.task import MirrorSourceTask
from fencepost.record import TopicPartition

PLACE = TopicPartition("t", 0)


class Topics:
    """Of a cluster with one log."""

    def __init__(self, start: int, end: int) -> None:
        self._start, self._end = start, end

    def starts(self, places: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self._start)

    def ends(self, places: Any, *, read_committed: bool) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self._end)


def found(start: int, end: int, *, common: int | None = None) -> LogGap | None:
    """Return the gap of a mirror at offset 1000, if the log has these offsets; its reader may say up to where it is."""
    losses = PlanLosses(Topics(start, end), is_repeated=True)  # type: ignore[arg-type]
    topic: Any = SimpleNamespace(partitions=1, id="id")
    losses.add(Read(lost={PLACE}, cut={} if common is None else {PLACE: LogPosition(common, epoch=5)}))
    losses.take_turn()
    gaps, _ = losses.sure_gaps({PLACE: 1000}, {"t": topic})
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


def test_one_answer_makes_no_gap_of_a_log_that_diverges() -> None:
    assert found(0, 1100, common=990) is None
