"""Who was there before a worker, and who comes after it."""

import threading
from collections.abc import Sequence

import pytest

from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.storage.records import Encoded, worker_incarnation
from fencepost.testing import eventually
from fencepost.worker.membership.membership import Attendance


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
def test_unannounced_worker_finds_its_predecessor_and_is_not_replaced(
    attendance: Attendance, newest: str | None
) -> None:
    """Its own late request may have taken its place in the group; then it must join again, not end."""
    assert not attendance.is_followed_by(newest)
    attendance.announce(newest)
    assert not attendance.is_followed_by(newest)
    assert not attendance.is_followed_by("me")


def test_worker_that_announces_itself_later_replaces_the_earlier_one(attendance: Attendance) -> None:
    attendance.announce("predecessor")
    assert attendance.is_followed_by("successor")


def test_predecessor_is_remembered_while_the_announcement_is_retried(attendance: Attendance, writer: Writer) -> None:
    writer.is_reachable = False
    with pytest.raises(KafkaUnavailableError):
        attendance.announce("predecessor")
    writer.is_reachable = True
    attendance.announce("me")  # the first may have arrived
    assert not attendance.is_followed_by("predecessor")
    assert len(writer.written) == 1


@pytest.mark.parametrize("newest", ["predecessor", None])
def test_worker_announces_itself_again_when_a_predecessor_overwrites_its_entry(
    attendance: Attendance, writer: Writer, newest: str | None
) -> None:
    """The predecessor's last word was late: it erased this worker, or stands in its place, and takes all work to it."""
    attendance.keep_announced(newest)
    assert writer.written == [], "not announced yet"
    attendance.announce("predecessor")
    attendance.be_ready()
    attendance.keep_announced("me")
    eventually(lambda: len(writer.written) == 2, within_s=60)
    attendance.keep_announced(newest)
    eventually(lambda: len(writer.written) == 3, within_s=60)
    assert writer.written[-1] == worker_incarnation("http://w:1/", "me", is_ready=True)


def test_replaced_worker_leaves_its_entry_to_its_successor(attendance: Attendance, writer: Writer) -> None:
    attendance.announce("predecessor")
    attendance.keep_announced("successor")
    attendance.leave()  # which waits for what is still to be said
    assert [key for key, _ in writer.written] == [b"fencepost-worker-http://w:1/", b"fencepost-left-http://w:1/"]
