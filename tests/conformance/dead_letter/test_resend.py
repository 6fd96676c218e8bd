"""Dead letters that are sent again, on the real broker: each once, as it was read, whatever fails meanwhile."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from fencepost.api import FatalError
from fencepost.cli.connect import Access, Connect
from fencepost.cli.connector.dead_letters import DescribedConnector, Where, send_again
from fencepost.config import ConfigError
from fencepost.dead_letter.progress import progress_name
from fencepost.dead_letter.resend import DeadLetterRefusedError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.browse import TopicBrowser, TopicRecord
from fencepost.testing import eventually
from support.dead_letters import ENVIRONMENT, DeadLetters
from support.proxy import Action, ApiKey, KafkaProxy


def test_letter_is_resent_once_with_the_content_it_was_read_with(letters: DeadLetters) -> None:
    letters.bury("a", key=b"k", timestamp=1_000)
    letters.bury("other", connector="somebody-else")
    assert letters.resend() == 1
    [record] = letters.read()
    assert (record.timestamp_ms or 0) > 1_700_000_000_000  # its own: it is no older than this test to retention
    own = (("own", b"1"), ("__fencepost.resent.timestamp", b"1000"))
    assert record == TopicRecord(1, 0, record.timestamp_ms, b"k", b"a", own)
    assert letters.resend() == 0
    letters.bury("b", partition=1)
    assert letters.resend() == 1
    assert letters.values == ["a", "b"]


def test_refused_letter_is_named_and_can_be_skipped(letters: DeadLetters) -> None:
    """One that is too large for its topic, as the topic of the letters takes larger ones."""
    letters.alter(letters.topic, "max.message.bytes", "2000")
    letters.bury("a", "b" * 5_000, "c")
    with pytest.raises(
        DeadLetterRefusedError, match=rf"^Dead letter {letters.topic}-dead-0@1 .*--skip {letters.topic}-dead-0@1"
    ):
        letters.resend()
    assert letters.values == ["a"]
    assert letters.resend(skip=(f"{letters.topic}-dead-0@1",)) == 1
    assert letters.values == ["a", "c"]
    assert letters.resend() == 0


def test_letters_of_a_deleted_topic_are_named_and_can_be_skipped(
    letters: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold up none of those after them."""
    letters.bury("gone", origin=f"{letters.topic}-gone")
    letters.bury("no such partition", at=7)
    letters.bury("here")
    found = DescribedConnector(letters.topic, "sink", {"errors.deadletterqueue.topic.name": letters.dead}, "")
    monkeypatch.setattr("fencepost.cli.connector.dead_letters.connector_at", lambda connect, name: found)

    def send(*skip: str) -> None:
        send_again(
            letters.topic,
            Where(Connect(Access("")), None, letters.bootstrap),
            topic=None,
            is_confirmed=True,
            skipped=skip,
        )

    with pytest.raises(ConfigError) as refused:
        send()
    text = str(refused.value)
    assert f"1 of topic {letters.topic}-gone, which does not exist ({letters.topic}-dead-0@0)" in text
    assert f"1 of partition 7 of topic {letters.topic}, which has 2 ({letters.topic}-dead-0@1)" in text
    assert letters.values == []
    send(f"{letters.topic}-gone", f"{letters.topic}-dead-0@1")
    assert letters.values == ["here"]
    send()
    assert letters.values == ["here"]


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_progress_survives_the_deletion_of_its_groups_offsets(letters: DeadLetters, policy: str) -> None:
    """A broker deletes a group without members after offsets.retention.minutes; this is what it leaves."""
    admin = Admin({"bootstrap.servers": letters.bootstrap})
    dead = letters.dead
    eventually(lambda: admin.topics.partitions(dead) == 2)
    letters.alter(letters.dead, "cleanup.policy", policy)
    letters.bury("a", key=b"a")
    assert letters.resend() == 1
    letters.bury("b", key=b"b")
    assert letters.resend() == 1
    letters.bury("other", connector="somebody-else", key=b"o")
    letters.forget_group()
    letters.bury("c", key=b"c")
    assert letters.resend() == 1
    assert letters.values == ["a", "b", "c"]


def test_a_letter_without_context_headers_is_not_sent(letters: DeadLetters) -> None:
    producer = Producer({"bootstrap.servers": letters.bootstrap})
    producer.produce(letters.dead, b"whose?")
    producer.flush(30)
    assert letters.resend() == 0
    assert letters.values == []


def test_letter_without_an_origin_is_refused_until_it_is_skipped(letters: DeadLetters) -> None:
    producer = Producer({"bootstrap.servers": letters.bootstrap})
    headers = [("__connect.errors.connector.name", letters.topic.encode())]
    producer.produce(letters.dead, b"whence?", partition=0, headers=headers)
    producer.flush(30)
    letters.bury("here")
    with pytest.raises(ConfigError, match=rf"^Dead letter {letters.place(0)} cannot be resent"):
        letters.resend()
    assert letters.values == []
    assert letters.resend(skip=(letters.place(0),)) == 1
    assert letters.values == ["here"]


def test_e10_no_letter_is_sent_while_its_progress_group_has_members(letters: DeadLetters) -> None:
    """Their offsets are theirs, and the broker would take ours."""
    letters.bury("a")
    conf = {"bootstrap.servers": letters.bootstrap, "group.id": progress_name(letters.topic)}
    consumer = Consumer({**conf, "session.timeout.ms": 6000})
    try:
        consumer.subscribe([letters.dead])
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment())
        with pytest.raises(FatalError, match="has members"):
            letters.resend()
    finally:
        consumer.close()
    assert letters.values == []
    assert letters.resend() == 1


def test_more_letters_than_a_transaction_holds_are_sent_in_order(letters: DeadLetters) -> None:
    letters.bury(*map(str, range(1_200)))
    assert letters.resend() == 1_200
    assert letters.values == [str(n) for n in range(1_200)]


@pytest.fixture
def hanging(letters: DeadLetters) -> Iterator[tuple[Any, threading.Thread, list[object]]]:
    """Somebody who sends two letters again, and has not been heard of since the commit was asked for."""
    letters.bury("a", "b")
    outcome: list[object] = []

    def run(via: str) -> None:
        try:
            outcome.append(letters.resend(via))
        except Exception as error:
            outcome.append(error)

    with KafkaProxy(letters.bootstrap) as proxy:
        end = proxy.on(ApiKey.END_TXN, Action.HOLD, 1)
        thread = threading.Thread(target=run, args=(proxy.bootstrap_servers,))
        thread.start()
        end.await_met()
        yield end, thread, outcome
        thread.join(60)


def test_two_processes_that_resend_the_same_dead_letters_send_each_once(
    letters: DeadLetters, hanging: tuple[Any, threading.Thread, list[object]]
) -> None:
    """The one who comes later fences the other, whose transaction is gone with what it said of the progress."""
    end, thread, outcome = hanging
    assert letters.resend() == 2
    end.release()
    thread.join(60)
    assert outcome == [0] or isinstance(outcome[0], Exception)  # it finds that all is sent, or that it is fenced
    assert letters.values == ["a", "b"]
    assert letters.resend() == 0


def test_resend_killed_within_a_transaction_neither_loses_nor_repeats_letters(letters: DeadLetters) -> None:
    """Its first transaction is committed, and of the second the commit is asked for; then comes SIGKILL."""
    letters.bury(*map(str, range(1_200)))
    with KafkaProxy(letters.bootstrap) as proxy:
        proxy.on(ApiKey.END_TXN, Action.PASS, 1)
        end = proxy.on(ApiKey.END_TXN, Action.HOLD, 1)
        arguments = [letters.bootstrap, letters.topic, proxy.bootstrap_servers]
        process = subprocess.Popen([sys.executable, "-m", "support.dead_letters", *arguments], env=ENVIRONMENT)
        try:
            end.await_met(within_s=120)
        finally:
            process.kill()
            process.wait(180)
        end.discard()
    assert letters.resend() == 700
    assert letters.values == [str(n) for n in range(1_200)]
    assert letters.resend() == 0


def test_newest_letters_are_found_by_reading_backwards(letters: DeadLetters) -> None:
    """Also where others have written many behind them."""
    letters.bury(*"abc", timestamp=1_000)
    letters.bury(*map(str, range(700)), connector="somebody-else", timestamp=2_000)
    browser = TopicBrowser(letters.reader_conf, letters.dead)
    found = browser.newest(2, lambda record: record.value is not None and record.value.isalpha())
    assert [record.value for record in found] == [b"b", b"c"]
