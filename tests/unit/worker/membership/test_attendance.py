"""Who was there before a worker, and who comes after it."""

import threading
from collections.abc import Sequence

import pytest

from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.storage.records import Encoded
from fencepost.worker.membership.attendance import Attendance


class Writer:
    """A `TopicWriter` that takes notes, or does not get through."""

    def __init__(self) -> None:
        self.written: list[Encoded] = []
        self.is_reachable = True

    def write(self, encoded: Sequence[Encoded], timeout_s: float) -> None:
        if not self.is_reachable:
            raise KafkaUnavailableError("no broker")
        self.written += encoded


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def attendance(writer: Writer) -> Attendance:
    return Attendance(writer, "http://w:1/", "me", threading.Event())  # type: ignore[arg-type]


@pytest.mark.parametrize("newest", ["predecessor", None])
def test_a_worker_that_has_not_announced_itself_finds_its_predecessor_and_is_not_replaced(
    attendance: Attendance, newest: str | None
) -> None:
    """Its own late request may have taken its place in the group; then it must join again, not end."""
    assert not attendance.is_followed_by(newest)
    attendance.announce(newest)
    assert not attendance.is_followed_by(newest)
    assert not attendance.is_followed_by("me")


def test_whoever_announces_itself_later_has_the_place(attendance: Attendance) -> None:
    attendance.announce("predecessor")
    assert attendance.is_followed_by("successor")


def test_who_was_there_before_is_remembered_while_the_announcement_is_tried_again(
    attendance: Attendance, writer: Writer
) -> None:
    writer.is_reachable = False
    with pytest.raises(KafkaUnavailableError):
        attendance.announce("predecessor")
    writer.is_reachable = True
    attendance.announce("me")  # the first may have arrived
    assert not attendance.is_followed_by("predecessor")
    assert len(writer.written) == 1
