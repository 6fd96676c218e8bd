"""Periodic work of a connector, in a thread of its own."""

import time

from fencepost.api import RetriableError
from fencepost.mirror.schedule.rounds import Round, Rounds
from fencepost.testing import eventually


def test_each_is_done_when_it_is_due_and_none_keeps_another_from_it() -> None:
    done: list[str] = []

    def fails() -> None:
        done.append("fails")
        raise ValueError("no")

    rounds = Rounds("test", [Round("often", lambda: done.append("often"), 0.01), Round("failing", fails, 0.01)])
    rounds.start()
    try:
        eventually(lambda: done.count("often") > 3 and done.count("fails") > 3)
    finally:
        rounds.close()


def test_what_is_not_answered_is_asked_again_soon_and_what_is_refused_when_it_is_due() -> None:
    def raises(error: Exception) -> Round:
        def act() -> None:
            raise error

        made = Round("asking", act, every_s=600)
        made.carry_out()
        return made

    now_s = time.monotonic()
    assert raises(RetriableError("away")).due_s < now_s + 60
    assert raises(ValueError("no")).due_s > now_s + 500


def test_nothing_to_do_takes_no_thread() -> None:
    rounds = Rounds("idle", [])
    rounds.start()
    rounds.close()
