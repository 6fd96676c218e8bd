"""Reading a log to its end, on the real broker."""

import os
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.topics import Topic, Topics
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError, ReadTimeoutError
from fencepost.kafka.fork import ForkedClientError
from fencepost.kafka.read.log import LogReader, LogRecord
from support.timing import fastest_s


class Reading:
    def __init__(self, reader: LogReader) -> None:
        self.reader = reader
        self.records: list[LogRecord] = []

    def to_end(self, timeout_s: float = 20.0) -> list[bytes | None]:
        """The values that were read since the last time."""
        before = len(self.records)
        self.reader.read_to_end(timeout_s, self.records.append)
        return [record.value for record in self.records[before:]]


@pytest.fixture
def reading(conf: dict[str, Any], topic: str):
    reader = LogReader(conf, topic)
    yield Reading(reader)
    reader.close()


def test_reader_reads_everything_once_and_resumes_at_its_offset(
    reading: Reading, topic: str, produce: Callable[..., None]
):
    assert reading.to_end() == []
    produce(topic, (b"k", b"1"), (b"k", None))
    assert reading.to_end() == [b"1", None]
    assert reading.to_end() == []
    reading.reader.rest()
    produce(topic, (b"k", b"3"))
    assert reading.to_end() == [b"3"]


@pytest.mark.parametrize(("outcome", "seen"), [("commit_transaction", [b"x"]), ("abort_transaction", [])])
def test_read_waits_for_a_transaction_that_is_open_at_the_call(
    reading: Reading, topic: str, transactional: Callable[[], Producer], outcome: str, seen: list[bytes]
):
    producer = transactional()
    producer.begin_transaction()
    producer.produce(topic, b"x", b"k")
    producer.flush(60)
    ended: list[float] = []

    def end() -> None:
        getattr(producer, outcome)(10)
        ended.append(time.monotonic())

    timer = threading.Timer(0.7, end)
    timer.start()
    assert reading.to_end() == seen
    timer.join()
    assert ended


def test_wait_for_an_open_transaction_ends_in_time_with_a_clear_error(
    reading: Reading, topic: str, transactional: Callable[[], Producer], produce: Callable[..., None]
):
    reading.to_end()
    produce(topic, (b"k", b"before"))
    producer = transactional()
    producer.begin_transaction()
    producer.produce(topic, b"x", b"k")
    producer.flush(60)
    with pytest.raises(ReadTimeoutError, match=r"stands at 1 of 2; a transaction that wrote to it may still be open"):
        reading.to_end(3)
    assert [r.value for r in reading.records] == [b"before"]
    producer.abort_transaction(10)
    assert reading.to_end() == []


def test_fenced_successor_ends_the_wait(reading: Reading, topic: str, transactional: Callable[[], Producer]):
    zombie = transactional()
    zombie.begin_transaction()
    zombie.produce(topic, b"lost", b"k")
    zombie.flush(60)
    transactional()
    assert reading.to_end() == []


def test_end_of_a_transaction_is_seen_within_fetch_wait(
    reading: Reading, topic: str, transactional: Callable[[], Producer]
):
    producer = transactional()
    reading.to_end()

    def took_s() -> float:
        producer.begin_transaction()
        producer.produce(topic, b"x", b"k")
        producer.commit_transaction(60)
        began = time.monotonic()
        assert reading.to_end() == [b"x"]
        return time.monotonic() - began

    def typically_s() -> float:
        return sorted(took_s() for _ in range(10))[5]

    assert fastest_s(typically_s, below_s=0.2, tries=5) < 0.2


def test_read_uncommitted_does_not_wait(conf: dict[str, Any], topic: str, transactional: Callable[[], Producer]):
    producer = transactional()
    producer.begin_transaction()
    producer.produce(topic, b"x", b"k")
    producer.flush(60)
    reader = LogReader(conf, topic, read_committed=False)
    assert Reading(reader).to_end() == [b"x"]
    reader.close()
    producer.abort_transaction(10)


def test_reader_reads_all_partitions(conf: dict[str, Any], admin: Admin, topic_name: str, produce: Callable[..., None]):
    admin.topics.create(topic_name, partitions=7, replication=1)
    produce(topic_name, *((b"k%d" % n, b"%d" % n) for n in range(5_000)))
    reader = LogReader(conf, topic_name)
    assert sorted(int(value) for value in Reading(reader).to_end()) == list(range(5_000))
    assert sorted(reader.positions) == list(range(7))
    reader.close()


def test_missing_topic_is_an_error_and_is_not_created(conf: dict[str, Any], admin: Admin, topic_name: str):
    reader = LogReader(conf, topic_name)
    with pytest.raises(KafkaRequestError, match=f"Topic {topic_name} does not exist"):
        Reading(reader).to_end()
    assert admin.topics.partitions(topic_name) is None


def test_unreachable_broker_is_an_error_in_time():
    began = time.monotonic()
    with pytest.raises(KafkaUnavailableError, match=r"bootstrap.servers=127.0.0.1:1\)"):
        Reading(LogReader({"bootstrap.servers": "127.0.0.1:1"}, "t")).to_end(0.5)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("use", ["read_to_end", "ends", "rest", "close", "admin"])
def test_client_that_crossed_a_fork_raises_at_once(reading: Reading, admin: Admin, use: str):
    reading.to_end()
    calls: dict[str, Callable[[], Any]] = {
        "read_to_end": lambda: reading.to_end(),
        "ends": lambda: reading.reader.ends(20),
        "rest": reading.reader.rest,
        "close": reading.reader.close,
        "admin": admin.cluster_id,
    }
    pid = os.fork()
    if pid == 0:
        began = time.monotonic()
        try:
            calls[use]()
        except ForkedClientError:
            os._exit(0 if time.monotonic() - began < 4 else 2)  # less than any time that is waited for
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_topic_that_a_broker_has_not_heard_of_yet_is_asked_for_again(
    reading: Reading, topic: str, produce: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    """So it is with several brokers, just after one of them has made it."""
    produce(topic, (b"k", b"1"))
    known, unheard = Topics.get_all, [topic, topic]

    def ask(topics: Topics, names: Collection[str], *, timeout_s: float | None = None) -> dict[str, Topic]:
        return {} if unheard and unheard.pop() else known(topics, names, timeout_s=timeout_s)

    monkeypatch.setattr(Topics, "get_all", ask)
    assert reading.to_end() == [b"1"]
    unheard.append(topic)
    assert sum(reading.reader.ends(20).values()) == 1
    assert unheard == []
