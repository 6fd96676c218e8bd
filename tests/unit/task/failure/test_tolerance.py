"""Retries and tolerance (`errors.*`)."""

import itertools
import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.api import FatalError, RetriableError, SourceRecord, UnavailableError
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import StoppedInRetryError, Tolerance

RECORD = SourceRecord({"f": "a"}, {"n": 1}, "topic-1", "secret value")


def tolerance(**changes: Any) -> Tolerance:
    usual: dict[str, Any] = {
        "tolerates_all": False,
        "retry_timeout_ms": 0,
        "retry_delay_max_ms": 1,
        "logs": False,
        "logs_messages": False,
        "control": Control(is_paused=False),
        "task_id": "c-0",
    }
    return Tolerance(**{**usual, **changes})


def failing(times: int, error: Exception) -> Callable[[], str]:
    left = [times]

    def operation() -> str:
        if left[0]:
            left[0] -= 1
            raise error
        return "done"

    return operation


def test_successful_result_is_passed_on() -> None:
    assert tolerance().run("TRANSFORMATION", lambda: 5, RECORD) == (True, 5)


def test_an_error_fails_the_task_with_its_cause() -> None:
    own = tolerance()
    with pytest.raises(FatalError, match="Tolerance exceeded") as failed:
        own.run("VALUE_CONVERTER", failing(1, ValueError("no")), RECORD)
    assert isinstance(failed.value.__cause__, ValueError)
    assert (own.counters.errors, own.counters.failures, own.counters.skipped) == (1, 1, 0)


def test_a_tolerated_error_drops_the_record() -> None:
    own = tolerance(tolerates_all=True)
    assert own.run("VALUE_CONVERTER", failing(1, ValueError("no")), RECORD) == (False, None)
    assert own.counters.skipped == 1
    assert own.counters.last_error_ms > 0


def test_a_retriable_error_is_not_retried_by_default() -> None:
    own = tolerance(tolerates_all=True)
    assert own.run("TRANSFORMATION", failing(1, RetriableError("later")), RECORD) == (False, None)
    assert own.counters.retries == 0
    assert own.counters.failures == 1


def test_a_retriable_error_is_retried_until_it_works() -> None:
    own = tolerance(retry_timeout_ms=-1)
    assert own.run("TRANSFORMATION", failing(3, RetriableError("later")), RECORD) == (True, "done")
    assert own.counters.retries == 3
    assert own.counters.failures == 3
    assert own.counters.errors == 0


def test_step_is_retried_without_earlier_steps() -> None:
    own, first, second = tolerance(retry_timeout_ms=-1), [0], failing(3, RetriableError("later"))

    def count() -> None:
        first[0] += 1

    assert own.run_steps("TRANSFORMATION", lambda run_step: (run_step(count), run_step(second))[1], RECORD) == (
        True,
        "done",
    )
    assert (first[0], own.counters.retries, own.counters.failures) == (1, 3, 3)


def test_retries_end_when_their_timeout_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = itertools.count(100.0, 0.003)  # a failure looks twice: once to say it, once for the time that is left
    clock = SimpleNamespace(monotonic=lambda: next(now_s), time=lambda: 0.0)
    monkeypatch.setattr("fencepost.task.failure.tolerance.time", clock)
    own = tolerance(retry_timeout_ms=20)
    with pytest.raises(FatalError):
        own.run("TRANSFORMATION", failing(10_000, RetriableError("later")), RECORD)
    assert own.counters.retries == 3  # after 6, 12 and 18 ms


@pytest.mark.parametrize("tolerates_all", [True, False])
def test_stop_ends_retries_and_drops_no_record(tolerates_all: bool) -> None:
    control = Control(is_paused=False)
    own = tolerance(
        retry_timeout_ms=-1, retry_delay_max_ms=60_000, control=control, tolerates_all=tolerates_all, logs=True
    )
    threading.Timer(0.05, control.stop).start()
    with pytest.raises(StoppedInRetryError, match="later"):
        own.run("TRANSFORMATION", failing(10_000, RetriableError("later")), RECORD)
    assert (own.counters.errors, own.counters.skipped, own.counters.logged) == (0, 0, 0)


def test_error_without_retries_is_tolerated_even_while_the_task_stops() -> None:
    control = Control(is_paused=False)
    control.stop()
    own = tolerance(tolerates_all=True, control=control)
    assert own.run("TRANSFORMATION", failing(1, RetriableError("never again")), RECORD) == (False, None)


def test_retries_do_not_spin_while_paused() -> None:
    control = Control(is_paused=True)
    own = tolerance(retry_timeout_ms=100, retry_delay_max_ms=20, control=control)
    with pytest.raises(FatalError):
        own.run("TRANSFORMATION", failing(10_000_000, RetriableError("later")), RECORD)
    assert own.counters.retries <= 10


@pytest.mark.parametrize("error", [ValueError("does not fit"), RetriableError("does not fit")])
def test_failing_error_names_stage_topic_source_partition_and_offset(error: Exception) -> None:
    with pytest.raises(FatalError) as failed:
        tolerance().run("VALUE_CONVERTER", failing(1, error), RECORD)
    text = str(failed.value)
    assert text.startswith("Tolerance exceeded in error handler")
    for part in ("VALUE_CONVERTER", "topic-1", "source partition {'f': 'a'}", "source offset {'n': 1}", "does not fit"):
        assert part in text
    assert "secret value" not in text


@pytest.mark.parametrize(("with_message", "shown"), [(True, True), (False, False)])
def test_logs_name_stage_and_record_if_configured(
    caplog: pytest.LogCaptureFixture, with_message: bool, shown: bool
) -> None:
    own = tolerance(tolerates_all=True, logs=True, logs_messages=with_message)
    with caplog.at_level(logging.ERROR):
        own.run("VALUE_CONVERTER", failing(1, ValueError("does not fit")), RECORD)
    assert "task c-0. Executing stage 'VALUE_CONVERTER'" in caplog.text
    assert "does not fit" in caplog.text
    assert ("topic-1" in caplog.text) is shown
    assert "secret value" not in caplog.text
    assert own.counters.logged == 1


def test_tolerated_errors_are_not_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    tolerance(tolerates_all=True).run("VALUE_CONVERTER", failing(1, ValueError("no")), RECORD)
    assert not caplog.records


@pytest.mark.parametrize("tolerates_all", [False, True])
def test_absent_service_is_awaited_even_without_configured_retries(tolerates_all: bool) -> None:
    own = tolerance(tolerates_all=tolerates_all)
    assert own.run("VALUE_CONVERTER", failing(3, UnavailableError("away")), RECORD) == (True, "done")
    assert (own.counters.retries, own.counters.skipped) == (3, 0)


def test_absent_service_fails_the_task_at_the_timeout_without_dropping_records() -> None:
    own = tolerance(tolerates_all=True, retry_timeout_ms=1)
    with pytest.raises(FatalError, match="away"):
        own.run("VALUE_CONVERTER", failing(1000, UnavailableError("away")), RECORD)
    assert (own.counters.errors, own.counters.skipped) == (1, 0)


def test_fatal_error_of_a_plug_in_fails_the_task_despite_tolerance() -> None:
    told: list[str] = []
    own = tolerance(tolerates_all=True, tell=lambda stage, error, record: told.append(stage))
    with pytest.raises(FatalError, match="refuses our credentials"):
        own.run("VALUE_CONVERTER", failing(1, FatalError("refuses our credentials")), RECORD)
    assert (own.counters.skipped, told) == (0, [])


def test_wait_for_an_absent_service_ends_when_the_task_stops() -> None:
    control = Control(is_paused=False)
    own = tolerance(control=control)
    threading.Timer(0.05, control.stop).start()
    with pytest.raises(StoppedInRetryError):
        own.run("VALUE_CONVERTER", failing(1 << 30, UnavailableError("away")), RECORD)
