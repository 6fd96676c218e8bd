"""What is said of errors after which a task tries again."""

from itertools import pairwise

import pytest

from fencepost.task.failure.tolerance import RetriedErrors


def test_reason_of_a_retry_comes_first_and_stays_until_the_step_succeeds() -> None:
    retried = RetriedErrors()
    assert retried.text is None
    assert retried.met("put", OSError("the store is away"))
    first = retried.text or ""
    assert first.startswith("the store is away\n\nFailing since ")
    assert first.endswith("Z, and retrying")
    assert not retried.passed("commit")
    assert retried.text == first
    assert retried.passed("put")
    assert retried.text is None


def test_newest_failing_step_is_shown_until_all_have_succeeded() -> None:
    retried = RetriedErrors()
    retried.met("put", OSError("first"))
    retried.met("commit", OSError("second"))
    assert (retried.text or "").startswith("second")
    retried.passed("commit")
    assert (retried.text or "").startswith("first")


def test_retries_are_logged_at_growing_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a task that tries again each second, an hour long."""
    clock, retried, said = [100.0], RetriedErrors(), []
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    for second in range(3600):
        clock[0] = 100.0 + second
        if retried.met("turn", OSError(f"try {second}")):
            said.append(second)
    assert said[:10] == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511]
    assert {later - former for former, later in pairwise(said[9:])} == {300}
    assert (retried.text or "").startswith(f"try {said[-1]}\n")


def test_failure_of_another_kind_is_logged_at_once() -> None:
    retried = RetriedErrors()
    assert retried.met("put", OSError("refused"))
    assert not retried.met("put", OSError("refused again"))
    assert retried.met("put", ValueError("unreadable"))
    assert (retried.text or "").startswith("unreadable\n")
