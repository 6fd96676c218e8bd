"""What seems to be lost counts as lost only if it is seen so for a while, without a break."""

from fencepost.kafka.doubt import Doubts


def test_what_seems_lost_is_confirmed_once_it_has_seemed_so_for_long_enough():
    doubts: Doubts[str] = Doubts()
    assert doubts.confirmed(["a"], ["a"], 100.0, 10.0) == set()
    assert doubts.confirmed(["a"], ["a"], 109.9, 10.0) == set()
    assert doubts.confirmed(["a"], ["a"], 110.0, 10.0) == {"a"}


def test_one_look_at_which_it_was_there_clears_it():
    doubts: Doubts[str] = Doubts()
    doubts.confirmed(["a", "b"], ["a", "b"], 0.0, 10.0)
    doubts.confirmed(["a"], [], 5.0, 10.0)
    assert doubts.confirmed(["a", "b"], ["a", "b"], 10.0, 10.0) == {"b"}


def test_a_look_at_others_clears_nothing_and_what_is_forgotten_begins_again():
    doubts: Doubts[str] = Doubts()
    doubts.confirmed(["a", "b"], ["a", "b"], 0.0, 10.0)
    doubts.confirmed(["c"], [], 5.0, 10.0)
    doubts.forget(["b"])
    assert len(doubts) == 1
    assert doubts.confirmed(["a", "b"], ["a", "b"], 10.0, 10.0) == {"a"}


def test_a_doubt_that_nobody_has_looked_into_for_long_begins_again():
    """What was read on meanwhile, or was somebody else's, has not seemed lost all the time."""
    doubts: Doubts[str] = Doubts(most_apart_s=30.0)
    doubts.confirmed(["a"], ["a"], 0.0, 10.0)
    assert doubts.confirmed(["a"], ["a"], 3_600.0, 10.0) == set()
    assert doubts.confirmed(["a"], ["a"], 3_609.9, 10.0) == set()
    assert doubts.confirmed(["a"], ["a"], 3_610.0, 10.0) == {"a"}


def test_looks_that_are_rare_as_brokers_answer_late_confirm_all_the_same():
    doubts: Doubts[str] = Doubts(most_apart_s=30.0)
    assert doubts.confirmed(["a"], ["a"], 0.0, 10.0) == set()
    assert doubts.confirmed(["a"], ["a"], 25.0, 10.0) == {"a"}
