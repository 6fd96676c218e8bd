"""Periodic work of a connector, in a thread of its own."""

import time

from fencepost.api import RetriableError
from fencepost.builtin.mirror.schedule import Round, Rounds
from fencepost.testing import eventually


def test_failing_round_does_not_delay_the_other_rounds() -> None:
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


def test_round_is_repeated_soon_after_a_retriable_error_and_else_when_due() -> None:
    def raises(error: Exception) -> Round:
        def act() -> None:
            raise error

        made = Round("asking", act, every_s=600)
        made.carry_out()
        return made

    now_s = time.monotonic()
    assert raises(RetriableError("away")).due_s < now_s + 60
    assert raises(ValueError("no")).due_s > now_s + 500


def test_empty_schedule_starts_no_thread() -> None:
    rounds = Rounds("idle", [])
    rounds.start()
    rounds.close()
