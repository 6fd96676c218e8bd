"""A worker that its group does not see any more ends its tasks; time and group are the test's."""

import logging
import threading

import pytest

from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.worker.membership.membership import Lifeline


class Line:
    def __init__(self) -> None:
        self.now = 0.0
        self.answer: bool | Exception = True
        self.answers_in_s = 0.0
        self.said: list[str] = []
        self.lifeline = Lifeline(self.is_member, 10.0, self, lambda: self.now)

    def cut_off(self, is_cut_off: bool) -> None:
        self.said.append("lost" if is_cut_off else "back")

    def is_member(self) -> bool:
        self.now += self.answers_in_s
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def after(self, seconds: float, *, looks: bool = True) -> list[str]:
        self.now += seconds
        if looks:
            self.lifeline.look()
        self.lifeline.judge()
        return self.said


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.mark.parametrize("answer", [False, KafkaUnavailableError("cut off")])
def test_worker_unseen_for_the_session_timeout_is_lost_until_it_is_seen_again(
    line: Line, answer: bool | Exception
) -> None:
    assert line.after(9) == []
    line.answer = answer
    assert line.after(9) == []
    assert line.after(2) == ["lost"]
    assert line.after(9) == ["lost"]
    line.answer = True
    assert line.after(1) == ["lost", "back"]


def test_paused_process_notices_its_loss_before_it_looks_at_the_group(line: Line) -> None:
    line.after(1)
    assert line.after(11, looks=False) == ["lost"]
    assert line.after(0) == ["lost", "back"]


def test_lifeline_is_overdue_at_once_before_the_next_look(line: Line) -> None:
    assert not line.lifeline.is_overdue
    line.now += 11
    assert (line.lifeline.is_overdue, line.lifeline.is_lost) == (True, False)
    line.after(0)
    assert not line.lifeline.is_overdue


def test_slow_look_counts_from_its_beginning(line: Line) -> None:
    line.after(5)
    line.answers_in_s = 10
    assert line.after(0) == []
    assert line.after(0.001, looks=False) == ["lost"]


def test_reason_for_not_being_seen_is_logged(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    line.answer = KafkaUnavailableError("cut off")
    line.after(11)
    assert "(the group cannot be asked: cut off)" in caplog.text
    line.answer = True
    line.after(0)
    line.answer = False
    line.after(11)
    assert "(the group does not contain it)" in caplog.text
    line.answer = True
    line.after(0)
    line.after(11, looks=False)
    assert "(no answer came in that time)" in caplog.text


def test_judgements_of_two_threads_are_passed_on_in_order(line: Line) -> None:
    """Else tasks would stay cut off whose worker is back."""
    other = threading.Thread(target=line.after, args=(0,))

    class IsBackMeanwhile(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not other.ident:
                other.start()
                other.join(0.2)  # it has to wait for us, or is through by then

    logger, handler = logging.getLogger("fencepost.worker.membership.membership"), IsBackMeanwhile()
    logger.addHandler(handler)
    try:
        line.after(11, looks=False)
        other.join()
    finally:
        logger.removeHandler(handler)
    assert line.said == ["lost", "back"]
