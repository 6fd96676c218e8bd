"""Who is to blame when the process of a slot dies with its tasks."""

from fencepost.cluster.running import Start
from fencepost.storage.change import TaskId
from fencepost.worker.supervision.task.suspicion import EndedStart, Suspicions

CULPRIT, IDLE, BUSY = ((TaskId(name, 0), 7) for name in ("culprit", "idle", "busy"))


def ended(*starts: Start, lived_s: float = 1.0) -> list[EndedStart]:
    return [EndedStart(start, lived_s, is_at_work=start is not BUSY) for start in starts]


def test_all_tasks_start_again_at_once_after_the_first_crash() -> None:
    own = Suspicions()
    outcomes = own.crashed(ended(CULPRIT, IDLE, BUSY))
    assert {outcome.delay_s for outcome in outcomes.values()} == {0.0}
    assert not any(outcome.is_culprit for outcome in outcomes.values())
    assert not any(own.runs_alone(start) for start in (CULPRIT, IDLE, BUSY))


def test_suspects_run_alone_and_start_later_after_the_second_crash() -> None:
    own = Suspicions()
    own.crashed(ended(CULPRIT, IDLE, BUSY))
    outcomes = own.crashed(ended(CULPRIT, IDLE, BUSY))
    assert [own.runs_alone(start) for start in (CULPRIT, IDLE, BUSY)] == [True, True, False]
    assert outcomes[CULPRIT].delay_s > 0
    assert outcomes[BUSY].delay_s == 0


def test_task_that_dies_alone_in_its_process_is_the_culprit() -> None:
    own = Suspicions()
    for _ in range(2):
        own.crashed(ended(CULPRIT, IDLE))
    assert own.crashed(ended(CULPRIT))[CULPRIT].is_culprit
    assert own.crashed(ended(CULPRIT))[CULPRIT].crashes == 4


def test_only_suspect_in_a_crashed_process_is_the_culprit() -> None:
    """Where there is no core for a slot of its own, it stays with those that nobody suspects."""
    own = Suspicions()
    for _ in range(2):
        own.crashed(ended(CULPRIT, IDLE, BUSY))
    assert own.crashed(ended(CULPRIT, BUSY))[CULPRIT].is_culprit


def test_no_task_is_the_culprit_while_there_are_two_suspects() -> None:
    own = Suspicions()
    for _ in range(9):
        outcomes = own.crashed(ended(CULPRIT, IDLE))
        assert not any(outcome.is_culprit for outcome in outcomes.values())


def test_suspect_is_cleared_when_the_process_dies_without_it() -> None:
    """A task that commits something and then kills its process must not fail a neighbour that has nothing to do."""
    own = Suspicions()
    for _ in range(2):
        own.crashed(ended(IDLE, BUSY))
    assert own.runs_alone(IDLE)
    own.crashed(ended(BUSY))
    assert not own.runs_alone(IDLE)
    assert not own.crashed(ended(IDLE, BUSY))[IDLE].is_culprit


def test_death_of_another_process_clears_no_suspect() -> None:
    own, other = Suspicions(), (TaskId("other", 0), 7)
    for _ in range(2):
        own.crashed(ended(CULPRIT, BUSY))
    own.crashed([EndedStart(other, 1.0, is_at_work=False)])
    own.crashed(ended(BUSY, IDLE))
    assert own.runs_alone(CULPRIT)
    assert own.crashed(ended(CULPRIT))[CULPRIT].is_culprit


def test_task_that_had_committed_is_never_blamed_for_the_death_of_its_process() -> None:
    own = Suspicions()
    for _ in range(20):
        outcome = own.crashed(ended(BUSY))[BUSY]
        assert (outcome.is_culprit, outcome.delay_s, own.runs_alone(BUSY)) == (False, 0.0, False)


def test_task_that_has_run_for_long_is_not_blamed() -> None:
    own = Suspicions()
    for _ in range(5):
        assert not own.crashed(ended(IDLE, lived_s=3600))[IDLE].is_culprit


def test_cleared_task_starts_with_a_crash_count_of_zero() -> None:
    own = Suspicions()
    for _ in range(2):
        own.crashed(ended(CULPRIT, IDLE))
    own.clear(IDLE)
    assert (own.runs_alone(IDLE), own.runs_alone(CULPRIT)) == (False, True)
    assert own.crashed(ended(IDLE))[IDLE].crashes == 1


def test_delay_of_a_suspects_start_grows_up_to_a_limit() -> None:
    own = Suspicions()
    delays = [own.crashed(ended(CULPRIT, IDLE))[CULPRIT].delay_s for _ in range(12)]
    assert delays == sorted(delays)
    assert delays[-1] == delays[-2] <= 60
