"""What seems to be lost counts as lost only if it is seen so for a while, at several looks."""

import logging
from collections.abc import Collection

import pytest

from fencepost.kafka.read.doubt import Doubts, LowestEnds, report_loss, sure_ends
from fencepost.record import TopicPartition

SURE_S = 10.0


def looks(doubts: Doubts[str], *times_s: float) -> list[bool]:
    """Say of each look whether it confirms that "a" is lost."""
    return ["a" in doubts.confirmed(["a"], ["a"], time_s, SURE_S) for time_s in times_s]


def test_apparent_loss_is_confirmed_once_it_has_lasted_long_enough():
    assert looks(Doubts(), *(100.0 + n / 2 for n in range(20)), 110.0) == [False] * 20 + [True]


def test_single_look_without_the_loss_clears_the_doubt():
    doubts: Doubts[str] = Doubts()
    for time_s in (0.0, 2.0, 4.0):
        doubts.confirmed(["a", "b"], ["a", "b"], time_s, SURE_S)
    doubts.confirmed(["a"], [], 5.0, SURE_S)
    found = [doubts.confirmed(["a", "b"], ["a", "b"], time_s, SURE_S) for time_s in (6.0, 8.0, 10.0)]
    assert found == [set(), set(), {"b"}]


def test_look_at_other_places_clears_no_doubt_and_a_forgotten_doubt_restarts():
    doubts: Doubts[str] = Doubts()
    for time_s in (0.0, 2.0, 4.0, 6.0, 8.0):
        doubts.confirmed(["a", "b"], ["a", "b"], time_s, SURE_S)
    doubts.confirmed(["c"], [], 9.0, SURE_S)
    doubts.forget(["b"])
    assert len(doubts) == 1
    assert doubts.confirmed(["a", "b"], ["a", "b"], 10.0, SURE_S) == {"a"}


def test_two_wrong_answers_far_apart_confirm_no_loss():
    """Between the two the partition was read on, or another member had it: it did not seem lost all the time."""
    assert looks(Doubts(), 0.0, 3_600.0, 3_601.0) == [False] * 3


@pytest.mark.parametrize("apart_s", [2.5, 10.5, 31.0, 3_600.0])
def test_regular_looks_far_apart_confirm_a_loss(apart_s: float):
    """As of a mirror on a slow link, or of a sink with many partitions: a real loss does not change between looks."""
    assert looks(Doubts(), *(n * apart_s for n in range(5))) == [False] * 4 + [True]


def test_early_end_of_a_log_counts_once_answered_for_a_while():
    asked: list[set[str]] = []

    def ask(places: Collection[str]) -> dict[str, int]:
        """Of "late" one answer came from a broker that was deposed; "cut" is cut."""
        asked.append(set(places))
        return {place: {"late": 3 if len(asked) < 3 else 9, "cut": 4, "whole": 12}[place] for place in places}

    assert sure_ends(ask, {"late": 9, "cut": 5, "whole": 12}, 0.2) == ({"late": 9, "cut": 4, "whole": 12}, {"cut": 4})
    assert asked[:4] == [{"late", "cut", "whole"}, {"late", "cut"}, {"late", "cut"}, {"cut"}]
    assert len(asked) >= 5


def test_the_end_of_a_log_that_was_cut_is_the_lowest_one_seen() -> None:
    ends = iter([4, 5, 6])
    assert sure_ends(lambda keys: dict.fromkeys(keys, next(ends, 7)), {"cut": 9}, 0.2) == ({"cut": 7}, {"cut": 4})


def test_a_log_that_grows_past_the_offset_while_in_doubt_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    ends = iter([4, 9])
    assert sure_ends(lambda keys: dict.fromkeys(keys, next(ends)), {"cut": 9}, 0.2) == ({"cut": 9}, {})
    assert "offsets 4 to 8 are not read" in caplog.text


def test_ends_of_two_leaders_are_not_compared(caplog: pytest.LogCaptureFixture) -> None:
    """The first one may have been deposed: what it lacked was read, and would be read twice."""
    place, lowest = TopicPartition("t", 0), LowestEnds()
    assert [lowest.lowest(place, 100, end, epoch) for end, epoch in ((70, 4), (92, 6), (90, 6), (95, 6))] == [
        70, 92, 90, 90,
    ]  # fmt: skip
    assert "offsets 70 to 91 are not read" in caplog.text
    assert lowest.cut_at(place, 100, 6) == 90


def test_tolerated_loss_is_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    report_loss("offsets 1 to 2 of t-0", "the log ends at 1", is_error=False)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "offsets 1 to 2 of t-0: the log ends at 1" in record.getMessage()
