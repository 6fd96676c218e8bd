"""Dead letters that are sent again, on the real broker: each once, as it was read, whatever fails meanwhile."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from fencepost.api import FatalError
from fencepost.cli.connect import Connect
from fencepost.cli.dead_letters.connector import DescribedConnector, Where
from fencepost.cli.dead_letters.progress import progress_name
from fencepost.cli.dead_letters.resend import DeadLetterRefusedError, Resend, Skipped
from fencepost.cli.dead_letters.send import send_again
from fencepost.cli.rest import Access
from fencepost.config import ConfigError
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.bookmark import Bookmark
from fencepost.kafka.read.browse import TopicBrowser, TopicRecord
from fencepost.kafka.setting.client_settings import range_conf, transactional_conf
from fencepost.testing import eventually
from support.proxy import Action, ApiKey, KafkaProxy

Send = Callable[..., int]


@pytest.fixture
def topic(kafka: EmbeddedKafka, topic_name: str) -> str:
    """A topic that a sink reads, beside it one of dead letters; both have two partitions."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    for name in (topic_name, f"{topic_name}-dead"):
        admin.topics.create(name, partitions=2, replication=1, configs={"retention.ms": "-1"})  # from 1970
    return topic_name


@pytest.fixture
def bury(kafka: EmbeddedKafka, topic: str) -> Callable[..., None]:
    """Writes dead letters with the given values."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    def write(
        *values: str, connector: str = topic, partition: int = 0, origin: str = topic, at: int = 1, **fields: Any
    ) -> None:
        facts = {"topic": origin, "partition": str(at), "offset": "7", "connector.name": connector, "stage": "TASK_PUT"}
        context = [(f"__connect.errors.{name}", fact.encode()) for name, fact in facts.items()]
        for value in values:
            headers = [("own", b"1"), *context]
            producer.produce(f"{topic}-dead", value.encode(), headers=headers, partition=partition, **fields)
        assert producer.flush(30) == 0

    return write


def resend(kafka: EmbeddedKafka, topic: str, via: str | None = None, skip: tuple[str, ...] = ()) -> int:
    """What `fencepost dead-letters C --resend` does once it is confirmed."""
    conf = dict(range_conf({"bootstrap.servers": kafka.bootstrap_servers}, "test").conf)
    group, dead = progress_name(topic), f"{topic}-dead"
    browser = TopicBrowser(conf, dead)
    with Bookmark(conf, group, dead) as bookmark:
        own = Resend(topic, browser, bookmark, skipped=Skipped.of(skip))
        return own.send(transactional_conf({"bootstrap.servers": via or kafka.bootstrap_servers}, group).conf)


def read(kafka: EmbeddedKafka, topic: str) -> list[TopicRecord]:
    """Return what is committed; a commit is answered before its markers are in the log."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    places = [(topic, 0), (topic, 1)]
    eventually(
        lambda: admin.offsets.ends(places, read_committed=True) == admin.offsets.ends(places, read_committed=False)
    )
    browser = TopicBrowser(range_conf({"bootstrap.servers": kafka.bootstrap_servers}, "test").conf, topic)
    return list(browser.read(browser.ranges))


def values(kafka: EmbeddedKafka, topic: str) -> list[str]:
    return [(record.value or b"").decode() for record in read(kafka, topic)]


def alter(kafka: EmbeddedKafka, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in client.incremental_alter_configs([resource]).values():
        future.result(30)


def forget_group(kafka: EmbeddedKafka, group: str) -> None:
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in client.delete_consumer_groups([group]).values():
        future.result(30)


def test_a_letter_is_sent_again_once_as_it_was_read(
    kafka: EmbeddedKafka, topic: str, bury: Callable[..., None]
) -> None:
    bury("a", key=b"k", timestamp=1_000)
    bury("other", connector="somebody-else")
    assert resend(kafka, topic) == 1
    [record] = read(kafka, topic)
    assert (record.timestamp_ms or 0) > 1_700_000_000_000  # its own: it is no older than this test to retention
    own = (("own", b"1"), ("__fencepost.resent.timestamp", b"1000"))
    assert record == TopicRecord(1, 0, record.timestamp_ms, b"k", b"a", own)
    assert resend(kafka, topic) == 0
    bury("b", partition=1)
    assert resend(kafka, topic) == 1
    assert values(kafka, topic) == ["a", "b"]


def test_a_letter_that_is_not_taken_is_named_and_can_be_passed_over(
    kafka: EmbeddedKafka, topic: str, bury: Callable[..., None]
) -> None:
    """One that is too large for its topic, as the topic of the letters takes larger ones."""
    alter(kafka, topic, "max.message.bytes", "2000")
    bury("a", "b" * 5_000, "c")
    with pytest.raises(DeadLetterRefusedError, match=rf"^Dead letter {topic}-dead-0@1 .*--skip {topic}-dead-0@1"):
        resend(kafka, topic)
    assert values(kafka, topic) == ["a"]
    assert resend(kafka, topic, skip=(f"{topic}-dead-0@1",)) == 1
    assert values(kafka, topic) == ["a", "c"]
    assert resend(kafka, topic) == 0


def test_letters_of_a_topic_that_is_gone_are_named_and_can_be_passed_over(
    kafka: EmbeddedKafka, topic: str, bury: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold up none of those after them."""
    bury("gone", origin=f"{topic}-gone")
    bury("no such partition", origin=topic, at=7)
    bury("here")
    found = DescribedConnector(topic, "sink", {"errors.deadletterqueue.topic.name": f"{topic}-dead"}, "")
    monkeypatch.setattr("fencepost.cli.dead_letters.send.connector_at", lambda connect, name: found)

    def send(*skip: str) -> None:
        send_again(
            topic,
            Where(Connect(Access("")), None, kafka.bootstrap_servers),
            topic=None,
            is_confirmed=True,
            skipped=skip,
        )

    with pytest.raises(ConfigError) as refused:
        send()
    text = str(refused.value)
    assert f"1 of topic {topic}-gone, which does not exist ({topic}-dead-0@0)" in text
    assert f"1 of partition 7 of topic {topic}, which has 2 ({topic}-dead-0@1)" in text
    assert values(kafka, topic) == []
    send(f"{topic}-gone", f"{topic}-dead-0@1")
    assert values(kafka, topic) == ["here"]
    send()
    assert values(kafka, topic) == ["here"]


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_progress_outlives_the_offsets_of_its_group(
    kafka: EmbeddedKafka, topic: str, bury: Callable[..., None], policy: str
) -> None:
    """A broker deletes a group without members after offsets.retention.minutes; this is what it leaves."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    dead = f"{topic}-dead"
    eventually(lambda: admin.topics.partitions(dead) == 2)
    alter(kafka, dead, "cleanup.policy", policy)
    bury("a", key=b"a")
    assert resend(kafka, topic) == 1
    bury("b", key=b"b")
    assert resend(kafka, topic) == 1
    bury("other", connector="somebody-else", key=b"o")
    forget_group(kafka, progress_name(topic))
    bury("c", key=b"c")
    assert resend(kafka, topic) == 1
    assert values(kafka, topic) == ["a", "b", "c"]


def test_a_letter_without_context_headers_is_not_sent(kafka: EmbeddedKafka, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(f"{topic}-dead", b"whose?")
    producer.flush(30)
    assert resend(kafka, topic) == 0
    assert values(kafka, topic) == []


def test_e10_nothing_is_sent_in_the_name_of_a_group_that_has_members(
    kafka: EmbeddedKafka, topic: str, bury: Callable[..., None]
) -> None:
    """Their offsets are theirs, and the broker would take ours."""
    bury("a")
    conf = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": progress_name(topic)}
    consumer = Consumer({**conf, "session.timeout.ms": 6000})
    try:
        consumer.subscribe([f"{topic}-dead"])
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment())
        with pytest.raises(FatalError, match="has members"):
            resend(kafka, topic)
    finally:
        consumer.close()
    assert values(kafka, topic) == []
    assert resend(kafka, topic) == 1


def test_more_letters_than_a_transaction_holds_are_sent_in_order(
    kafka: EmbeddedKafka, topic: str, bury: Callable[..., None]
) -> None:
    bury(*map(str, range(1_200)))
    assert resend(kafka, topic) == 1_200
    assert values(kafka, topic) == [str(n) for n in range(1_200)]


@pytest.fixture
def hanging(
    kafka: EmbeddedKafka, topic: str, bury: Callable[..., None]
) -> Iterator[tuple[Any, threading.Thread, list[object]]]:
    """Somebody who sends two letters again, and has not been heard of since the commit was asked for."""
    bury("a", "b")
    outcome: list[object] = []

    def run(via: str) -> None:
        try:
            outcome.append(resend(kafka, topic, via))
        except Exception as error:
            outcome.append(error)

    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        end = proxy.on(ApiKey.END_TXN, Action.HOLD, 1)
        thread = threading.Thread(target=run, args=(proxy.bootstrap_servers,))
        thread.start()
        end.await_met()
        yield end, thread, outcome
        thread.join(60)


def test_two_processes_that_resend_the_same_dead_letters_send_each_once(
    kafka: EmbeddedKafka, topic: str, hanging: tuple[Any, threading.Thread, list[object]]
) -> None:
    """The one who comes later fences the other, whose transaction is gone with what it said of the progress."""
    end, thread, outcome = hanging
    assert resend(kafka, topic) == 2
    end.release()
    thread.join(60)
    assert outcome == [0] or isinstance(outcome[0], Exception)  # it finds that all is sent, or that it is fenced
    assert values(kafka, topic) == ["a", "b"]
    assert resend(kafka, topic) == 0


def test_the_newest_letters_are_found_from_the_end(kafka: EmbeddedKafka, topic: str, bury: Callable[..., None]) -> None:
    """Also where others have written many behind them."""
    bury(*"abc", timestamp=1_000)
    bury(*map(str, range(700)), connector="somebody-else", timestamp=2_000)
    conf = dict(range_conf({"bootstrap.servers": kafka.bootstrap_servers}, "test").conf)
    browser = TopicBrowser(conf, f"{topic}-dead")
    found = browser.newest(2, lambda record: record.value is not None and record.value.isalpha())
    assert [record.value for record in found] == [b"b", b"c"]
