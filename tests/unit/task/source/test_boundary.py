"""Where transactions end."""

import pytest

from fencepost.api import FatalError, SourceRecord
from fencepost.task.source.boundary import (
    BoundaryDecision,
    ConnectorBoundary,
    IntervalBoundary,
    PollBoundary,
    boundary_of,
)


def records(count: int) -> list[SourceRecord]:
    return [SourceRecord({}, None, "t", n) for n in range(count)]


def test_each_poll_is_a_transaction_even_an_empty_poll() -> None:
    boundary = PollBoundary()
    assert list(boundary.segments(None, 3)) == [(0, 3, BoundaryDecision.COMMIT)]
    assert list(boundary.segments([], 0)) == [(0, 0, BoundaryDecision.COMMIT)]
    assert boundary.should_commit_at_end()


def test_an_interval_ends_with_the_first_batch_after_it() -> None:
    now = 100.0
    boundary = IntervalBoundary(10.0, lambda: now)
    assert list(boundary.segments(None, 3)) == [(0, 3, BoundaryDecision.GO_ON)]
    now = 110.0
    assert list(boundary.segments(None, 2)) == [(0, 2, BoundaryDecision.COMMIT)]
    boundary.committed()
    assert list(boundary.segments(None, 2)) == [(0, 2, BoundaryDecision.GO_ON)]
    assert boundary.should_commit_at_end()


def test_interval_is_counted_from_the_commit_not_from_its_due_time() -> None:
    now = 0.0
    boundary = IntervalBoundary(10.0, lambda: now)
    now = 19.0
    boundary.committed()
    now = 28.0
    assert list(boundary.segments(None, 1)) == [(0, 1, BoundaryDecision.GO_ON)]
    now = 29.0
    assert list(boundary.segments(None, 0)) == [(0, 0, BoundaryDecision.COMMIT)]


def test_commit_before_its_interval_does_not_delay_the_next_one() -> None:
    now = 0.0
    boundary = IntervalBoundary(10.0, lambda: now)
    now = 7.0
    boundary.committed()
    now = 10.0
    assert list(boundary.segments(None, 1)) == [(0, 1, BoundaryDecision.COMMIT)]


def test_connector_without_commit_requests_is_not_committed_at_the_end() -> None:
    boundary = ConnectorBoundary()
    batch = records(2)
    assert list(boundary.segments(batch, 2)) == [(0, 2, BoundaryDecision.GO_ON)]
    assert not boundary.should_commit_at_end()


def test_commit_request_of_a_connector_ends_one_batch_only() -> None:
    boundary = ConnectorBoundary()
    boundary.commit_transaction()
    assert list(boundary.segments(records(2), 2)) == [(0, 2, BoundaryDecision.COMMIT)]
    assert list(boundary.segments(records(2), 2)) == [(0, 2, BoundaryDecision.GO_ON)]


def test_requests_after_records_cut_the_batch() -> None:
    boundary = ConnectorBoundary()
    batch = records(5)
    boundary.commit_transaction(batch[1])
    boundary.abort_transaction(batch[2])
    boundary.commit_transaction()
    assert list(boundary.segments(batch, 5)) == [
        (0, 2, BoundaryDecision.COMMIT),
        (2, 3, BoundaryDecision.ABORT),
        (3, 5, BoundaryDecision.COMMIT),
    ]


def test_equal_records_are_distinguished_by_identity() -> None:
    boundary = ConnectorBoundary()
    batch = [SourceRecord({}, None, "t", 1), SourceRecord({}, None, "t", 1)]
    boundary.abort_transaction(batch[1])
    assert list(boundary.segments(batch, 2)) == [(0, 2, BoundaryDecision.ABORT), (2, 2, BoundaryDecision.GO_ON)]


@pytest.mark.parametrize("at_record", [True, False])
def test_commit_and_abort_requests_at_the_same_place_fail_the_task(at_record: bool) -> None:
    boundary = ConnectorBoundary()
    batch = records(1)
    place = batch[0] if at_record else None
    boundary.commit_transaction(place)
    boundary.abort_transaction(place)
    with pytest.raises(FatalError, match="both a commit and an abort"):
        list(boundary.segments(batch, 1))


def test_request_after_a_record_of_a_later_poll_is_kept_until_that_poll() -> None:
    boundary = ConnectorBoundary()
    first, later = records(2), records(3)
    boundary.commit_transaction(later[1])
    assert list(boundary.segments(first, 2)) == [(0, 2, BoundaryDecision.GO_ON)]
    assert list(boundary.segments(None, 0)) == [(0, 0, BoundaryDecision.GO_ON)]
    assert list(boundary.segments(later, 3)) == [(0, 2, BoundaryDecision.COMMIT), (2, 3, BoundaryDecision.GO_ON)]


def test_waiting_request_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    boundary = ConnectorBoundary()
    boundary.commit_transaction(records(1)[0])
    for _ in range(3):
        list(boundary.segments(records(2), 2))
    assert sum("is kept until" in message for message in caplog.messages) == 1


def test_request_after_a_record_fails_the_task_when_poll_returns_columns() -> None:
    boundary = ConnectorBoundary()
    boundary.abort_transaction(records(1)[0])
    with pytest.raises(FatalError, match=r"batch of columns.*without a record"):
        list(boundary.segments(None, 5))


def test_a_request_at_the_end_of_a_batch_of_columns_is_carried_out() -> None:
    boundary = ConnectorBoundary()
    boundary.commit_transaction()
    assert list(boundary.segments(None, 5)) == [(0, 5, BoundaryDecision.COMMIT)]


def test_too_many_requests_after_records_never_polled_fail_the_task() -> None:
    boundary = ConnectorBoundary()
    for record in records(10_000):
        boundary.commit_transaction(record)
    with pytest.raises(FatalError, match="10000 records that poll has not returned"):
        boundary.commit_transaction(records(1)[0])


def test_boundary_is_chosen_by_its_name() -> None:
    assert isinstance(boundary_of("poll", 0), PollBoundary)
    assert isinstance(boundary_of("interval", 10), IntervalBoundary)
    assert isinstance(boundary_of("connector", 0), ConnectorBoundary)
