"""When what has failed is restarted by itself: the pauses, the count, and when it begins anew."""

from fencepost.worker.supervision.automatic_restart import AutomaticRestarts, RestartPolicy, RestartSchedule

POLICY = RestartPolicy(True, first_s=1, longest_s=10, most=-1, window_s=60)


def restarts(chance: float = 0.5) -> AutomaticRestarts[str]:
    return AutomaticRestarts(lambda: chance)


def test_delay_doubles_with_each_restart_up_to_the_maximum() -> None:
    counts, pauses = restarts(), []
    for _ in range(6):
        plan = counts.failed("c", POLICY, 0)
        assert plan is not None
        pauses.append(plan.in_s)
        counts.made("c")
    assert pauses == [1, 2, 4, 8, 10, 10]
    assert POLICY.pause_s(10_000, 0.5) == 10


def test_connectors_that_fail_together_are_restarted_at_different_times() -> None:
    pauses = [plan.in_s for chance in (0.0, 0.25, 1.0) if (plan := restarts(chance).failed("c", POLICY, 0))]
    assert pauses == [0.8, 0.9, 1.2]


def test_no_restart_is_scheduled_once_the_attempts_are_used_up() -> None:
    counts, twice = restarts(), RestartPolicy(True, most=2)
    for made in range(2):
        assert counts.failed("c", twice, 0) == RestartSchedule(made, 2.0**made)
        counts.made("c")
    assert counts.failed("c", twice, 0) == RestartSchedule(2, None)
    assert counts.failed("other", twice, 0) == RestartSchedule(0, 1.0)


def test_no_restart_is_scheduled_without_attempts_or_when_disabled() -> None:
    assert restarts().failed("c", RestartPolicy(True, most=0), 0) == RestartSchedule(0, None)
    assert restarts().failed("c", RestartPolicy(), 0) is None


def test_restart_count_is_reset_after_a_life_as_long_as_the_window() -> None:
    counts = restarts()
    counts.made("c")
    assert counts.failed("c", POLICY, 59.9) == RestartSchedule(1, 2.0)
    assert counts.failed("c", POLICY, 60) == RestartSchedule(0, 1.0)


def test_restart_policy_is_read_from_the_config() -> None:
    given = {
        "enabled": "true",
        "backoff.initial.ms": "500",
        "backoff.max.ms": "9000",
        "attempts": "7",
        "window.ms": "1",
    }
    asked = RestartPolicy.of({f"errors.restart.{key}": value for key, value in given.items()})
    assert asked == RestartPolicy(True, 0.5, 9.0, 7, 0.001)
    assert RestartPolicy.of({}) == RestartPolicy()
    assert not RestartPolicy.of({"errors.restart.enabled": "perhaps"}).is_enabled
