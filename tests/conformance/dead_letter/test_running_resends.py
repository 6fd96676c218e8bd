"""Resends that a worker runs, on the real broker: one at a time, what is said of them, and what their ends leave."""

import subprocess
import sys
import threading
from typing import Any

import pytest

from fencepost.cluster.errors import ConflictError
from fencepost.cluster.topic_records import ResendProgressInfo
from fencepost.dead_letter.letter import Selection, Skipped
from fencepost.dead_letter.progress import progress_name
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.group.memberless import Bookmark
from fencepost.kafka.read.browse import TopicBrowser
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.testing import eventually
from fencepost.worker.operation.connector.dead_letters import Resends, ResendWork
from support.dead_letters import ENVIRONMENT, DeadLetters
from support.proxy import Action, ApiKey, KafkaProxy


def work(letters: DeadLetters, via: str | None = None, **given: Any) -> ResendWork:
    producer = transactional_conf({"bootstrap.servers": via or letters.bootstrap}, "any").conf
    fields: dict[str, Any] = {"own_topic": "", "selection": None, "skipped": Skipped(), **given}
    reads = given.get("reads", lambda topic: topic == letters.topic)
    return ResendWork(
        letters.topic,
        letters.dead,
        fields["own_topic"],
        fields["selection"],
        fields["skipped"],
        reads,
        dict(letters.reader_conf),
        dict(producer),
    )


def ended(resends: Resends, letters: DeadLetters) -> ResendProgressInfo:
    def found() -> ResendProgressInfo | None:
        info = resends.progress(letters.topic)
        return info if info.ended_ms is not None else None

    info = eventually(found, within_s=120)
    assert info is not None
    return info


def test_resend_reports_its_progress_and_its_result(letters: DeadLetters) -> None:
    letters.bury(*"abc")
    resends = Resends(lambda _: True)
    assert resends.progress(letters.topic).state == "none"
    assert resends.begin(work(letters, skipped=Skipped.of(letters.dead, [letters.place(1)]))).state == "counting"
    info = ended(resends, letters)
    assert (info.state, info.total, info.sent, info.skipped, info.error) == ("done", 2, 2, 1, None)
    assert letters.values == ["a", "c"]


def test_second_resend_at_the_same_time_is_refused(letters: DeadLetters) -> None:
    letters.bury("a", "b")
    resends = Resends(lambda _: True)
    with KafkaProxy(letters.bootstrap) as proxy:
        end = proxy.on(ApiKey.END_TXN, Action.HOLD, 1)
        resends.begin(work(letters, proxy.bootstrap_servers))
        end.await_met(within_s=60)
        assert resends.progress(letters.topic).total == 2
        with pytest.raises(ConflictError, match="are being resent already, and 0 of 2 are sent: wait"):
            resends.begin(work(letters))
        end.release()
        assert ended(resends, letters).state == "done"
    assert letters.values == ["a", "b"]
    resends.begin(work(letters))
    assert ended(resends, letters).sent == 0
    assert letters.values == ["a", "b"]


def test_resend_that_is_fenced_by_another_process_repeats_no_letter(letters: DeadLetters) -> None:
    letters.bury("a", "b")
    resends = Resends(lambda _: True)
    with KafkaProxy(letters.bootstrap) as proxy:
        end = proxy.on(ApiKey.END_TXN, Action.HOLD, 1)
        resends.begin(work(letters, proxy.bootstrap_servers))
        end.await_met(within_s=60)
        assert letters.resend() == 2
        end.release()
        info = ended(resends, letters)
    assert (info.state, info.sent) in (("done", 0), ("failed", 0))
    assert letters.values == ["a", "b"]


def test_cancelled_resend_ends_with_its_transaction_and_another_one_continues(
    letters: DeadLetters,
) -> None:
    """As when a leader leaves, or the connector is deleted."""
    letters.bury(*map(str, range(1_200)))
    wanted = threading.Event()
    wanted.set()
    resends = Resends(lambda _: wanted.is_set())
    with KafkaProxy(letters.bootstrap) as proxy:
        end = proxy.on(ApiKey.END_TXN, Action.HOLD, 1)
        resends.begin(work(letters, proxy.bootstrap_servers))
        end.await_met(within_s=60)
        wanted.clear()
        end.release()
        info = ended(resends, letters)
    assert (info.state, info.total, info.sent) == ("stopped", 1_200, 500)
    wanted.set()
    resends.begin(work(letters))
    info = ended(resends, letters)
    assert (info.state, info.sent) == ("done", 700)
    assert letters.values == [str(n) for n in range(1_200)]


def test_resend_does_not_wait_for_a_transaction_left_open_by_a_killed_process(letters: DeadLetters) -> None:
    """It would be aborted after a minute; whoever asks again takes its id, which ends it at once."""
    letters.bury("a", "b")
    with KafkaProxy(letters.bootstrap) as proxy:
        end = proxy.on(ApiKey.END_TXN, Action.HOLD, 1)
        arguments = [letters.bootstrap, letters.topic, proxy.bootstrap_servers]
        killed = subprocess.Popen([sys.executable, "-m", "support.dead_letters", *arguments], env=ENVIRONMENT)
        try:
            end.await_met(within_s=120)
        finally:
            killed.kill()
            killed.wait(60)
        end.discard()
    browser = TopicBrowser(letters.reader_conf, letters.dead)
    bookmark = Bookmark(letters.reader_conf, progress_name(letters.topic), letters.dead, timeout_s=2)
    with pytest.raises(KafkaUnavailableError):
        bookmark.read(browser.ranges)  # so it is open
    resends = Resends(lambda _: True)
    resends.begin(work(letters))
    info = ended(resends, letters)
    assert (info.state, info.total, info.sent) == ("done", 2, 2)
    assert letters.values == ["a", "b"]


def test_letter_with_a_forged_origin_header_is_not_sent(letters: DeadLetters) -> None:
    """Who can write to the dead letter topic writes nowhere else with the worker's rights."""
    letters.bury("a")
    letters.bury("forged", origin=letters.dead)
    resends = Resends(lambda _: True)
    resends.begin(work(letters))
    info = ended(resends, letters)
    assert (info.state, info.sent) == ("failed", 0)
    assert f"came from topics that it does not read: {letters.dead}" in (info.error or "")
    assert letters.values == []
    resends.begin(work(letters, selection=Selection(letters.dead, [letters.place(0)])))
    assert ended(resends, letters).sent == 1
    assert letters.values == ["a"]


def test_failed_resend_reports_its_error_and_keeps_the_letters_already_sent(letters: DeadLetters) -> None:
    letters.alter(letters.topic, "max.message.bytes", "2000")
    letters.bury("a", "b" * 5_000, "c")
    resends = Resends(lambda _: True)
    resends.begin(work(letters))
    info = ended(resends, letters)
    assert (info.state, info.total, info.sent) == ("failed", 3, 1)
    assert f"Dead letter {letters.place(1)} is refused" in (info.error or "")
    assert letters.values == ["a"]
    resends.begin(work(letters, skipped=Skipped.of(letters.dead, [letters.place(1)])))
    assert ended(resends, letters).state == "done"
    assert letters.values == ["a", "c"]
