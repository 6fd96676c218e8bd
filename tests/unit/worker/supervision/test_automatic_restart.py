"""When what has failed is restarted by itself: the pauses, the count, and when it begins anew."""

from fencepost.worker.supervision.automatic_restart import AutomaticRestarts, RestartPolicy, RestartSchedule

POLICY = RestartPolicy(True, first_s=1, longest_s=10, most=-1, window_s=60)


def restarts(chance: float = 0.5) -> AutomaticRestarts[str]:
    return AutomaticRestarts(lambda: chance)


def test_each_pause_is_twice_the_last_one_up_to_the_longest() -> None:
    counts, pauses = restarts(), []
    for _ in range(6):
        plan = counts.failed("c", POLICY, 0)
        assert plan is not None
        pauses.append(plan.in_s)
        counts.made("c")
    assert pauses == [1, 2, 4, 8, 10, 10]
    assert POLICY.pause_s(10_000, 0.5) == 10


def test_what_fails_together_does_not_come_back_together() -> None:
    pauses = [plan.in_s for chance in (0.0, 0.25, 1.0) if (plan := restarts(chance).failed("c", POLICY, 0))]
    assert pauses == [0.8, 0.9, 1.2]


def test_a_failure_stays_when_there_were_as_many_as_may_be() -> None:
    counts, twice = restarts(), RestartPolicy(True, most=2)
    for made in range(2):
        assert counts.failed("c", twice, 0) == RestartSchedule(made, 2.0**made)
        counts.made("c")
    assert counts.failed("c", twice, 0) == RestartSchedule(2, None)
    assert counts.failed("other", twice, 0) == RestartSchedule(0, 1.0)


def test_none_is_made_where_none_may_be_or_nobody_asks() -> None:
    assert restarts().failed("c", RestartPolicy(True, most=0), 0) == RestartSchedule(0, None)
    assert restarts().failed("c", RestartPolicy(), 0) is None


def test_what_lived_for_the_window_counts_anew() -> None:
    counts = restarts()
    counts.made("c")
    assert counts.failed("c", POLICY, 59.9) == RestartSchedule(1, 2.0)
    assert counts.failed("c", POLICY, 60) == RestartSchedule(0, 1.0)


def test_a_config_says_what_is_wanted() -> None:
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
