"""What is read in batches is what is read record by record, from each offset of logs with everything in them."""

import random
import socket
import struct
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.codec.compress import NAMES
from fencepost.kafka.errors import KafkaRequestError
from fencepost.kafka.read import batch_reader
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.client_reader import ClientReader
from fencepost.kafka.setting.client_settings import plan_conf
from fencepost.kafka.value.position import LogPosition
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.batch_topic import difference, written_batches
from support.clients import believe, cluster_of
from support.log_writer import LogWriter
from support.proxy import Action, ApiKey, KafkaProxy
from support.slow_batch import PlainRecord

Placed = tuple[int, PlainRecord]
_PRODUCERS, _TRANSACTIONS, _ABORTED = 3, 30, 0.3
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def conf(bootstrap: str, **more: str) -> Mapping[str, str | bool]:
    given = {key.replace("_", "."): value for key, value in more.items()}
    return plan_conf({"bootstrap.servers": bootstrap, "fetch.max.wait.ms": "20", **given}).conf


def read(
    reader: BatchReader | ClientReader, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, list[Placed]]:
    """Read partitions up to these offsets, and return what has come."""
    found: dict[TopicPartition, list[Placed]] = {place: [] for place in {*starts, *ends}}
    at = dict.fromkeys(ends, 0) | dict(starts)
    if starts:
        reader.assign({place: LogPosition(start) for place, start in starts.items()})

    def is_there() -> bool:
        fetched = reader.read(0.05, 300).fetched
        headers = fetched.headers or [()] * len(fetched)
        columns = (fetched.places, fetched.offsets, fetched.keys, fetched.values, fetched.timestamps, headers)
        for place, offset, key, value, time, of_record in zip(*columns, strict=True):
            found[place].append((offset, PlainRecord(key, value, time or 0, tuple(of_record))))
        at.update({place: max(at[place], end) for place, end in (fetched.next_offsets() | fetched.ends).items()})
        return all(at[place] >= end for place, end in ends.items())

    try:
        eventually(is_there, within_s=60, every_s=0)
    finally:
        reader.close()
    return found


def ends_of(bootstrap: str, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    admin = Admin({"bootstrap.servers": bootstrap})
    try:
        found = admin.offsets.ends(places, read_committed=True)
        return {TopicPartition(*place): end for place, end in found.items()}
    finally:
        admin.close()


def assert_same(bootstrap: str, starts: Mapping[TopicPartition, int], **more: str) -> None:
    """Compare what both readers read, of logs that nobody has changed meanwhile: compaction takes its time."""
    ends = ends_of(bootstrap, list(starts))

    def by_records() -> dict[TopicPartition, list[Placed]]:
        return read(ClientReader(conf(bootstrap)), starts, ends)

    before, after = by_records(), None
    while before != after:
        found, before, after = read(BatchReader(conf(bootstrap, **more)), starts, ends), after or before, by_records()
    assert found == after


@pytest.fixture
def bootstrap(log_writer: LogWriter) -> str:
    return log_writer.bootstrap


def test_records_of_every_codec_are_read_from_any_offset_of_a_batch(bootstrap: str, topic_name: str) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    written = written_batches(bootstrap, topic_name, rng)
    for start in (0, rng.randrange(1, 400), rng.randrange(10_000)):
        starts = {TopicPartition(topic_name, partition): start for partition in range(len(NAMES))}
        ends = {place: len(written[place.partition]) for place in starts}
        found = read(BatchReader(conf(bootstrap)), starts, ends)
        assert all([offset for offset, _ in found[place]] == list(range(start, ends[place])) for place in starts)
        records = {place.partition: [record for _, record in found[place]] for place in starts}
        assert difference(records, {partition: one[start:] for partition, one in written.items()}) is None


def write_everything(bootstrap: str, topic: str, rng: random.Random) -> int:
    """Write transactions of several producers, one in the other, some of them aborted.

    Returns how many records were committed.
    """
    committed, open_ = 0, [0] * _PRODUCERS
    producers = [
        Producer({
            "bootstrap.servers": bootstrap,
            "transactional.id": f"{topic}-{n}",
            "linger.ms": 1,
            "compression.type": _CODECS[n],
            "batch.num.messages": 15,
        })
        for n in range(_PRODUCERS)
    ]  # fmt: skip
    for producer in producers:
        producer.init_transactions(30)
        producer.begin_transaction()
    for _ in range(_TRANSACTIONS):
        number, count = rng.randrange(_PRODUCERS), rng.choice((1, 3, 40))
        producer = producers[number]
        open_[number] += count
        for _ in range(count):
            key = rng.choice((None, b"", b"k%d" % rng.randrange(5)))
            value = rng.choice((None, b"", rng.randbytes(100)))
            headers = [("h", rng.choice((None, b"x")))] if rng.random() < 0.3 else []
            producer.produce(topic, value, key or b"never none", 0, headers=headers, timestamp=rng.randrange(1, 2**40))
        producer.flush(30)
        if rng.random() < 0.5:
            is_aborted = rng.random() < _ABORTED
            (producer.abort_transaction if is_aborted else producer.commit_transaction)(30)
            committed += 0 if is_aborted else open_[number]
            open_[number] = 0
            producer.begin_transaction()
    for producer in producers:
        producer.abort_transaction(30)
    return committed


@pytest.mark.parametrize("how", ["as written", "log append time", "compacted"])
def test_e22_batch_reader_returns_exactly_the_committed_records(
    log_writer: LogWriter, bootstrap: str, topic_name: str, how: str
) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    configs = {
        "as written": {},
        "log append time": {"message_timestamp_type": "LogAppendTime"},
        "compacted": {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0.001"},
    }[how]
    topic = log_writer.topic(topic_name, **configs, retention_ms="-1")
    place = TopicPartition(topic, 0)
    committed = write_everything(bootstrap, topic, rng)
    log_writer.settle([topic])
    if how == "compacted":

        def is_compacted() -> bool:
            """Compare with what was written: compaction begins before all of it is."""
            log_writer.send(topic, ["later"], key="never none")
            return len(read(BatchReader(conf(bootstrap)), {place: 0}, ends_of(bootstrap, [place]))[place]) < committed

        eventually(is_compacted, within_s=60, every_s=0.2)
        Admin({"bootstrap.servers": bootstrap}).configs.alter({topic: {"cleanup.policy": "delete"}})
    end = ends_of(bootstrap, [place])[place]
    for start in (0, 1, *(rng.randrange(end) for _ in range(3))):
        assert_same(bootstrap, {place: start})
    assert_same(bootstrap, {place: 0}, max_partition_fetch_bytes="300")


def test_empty_partition_delays_no_other_and_offset_out_of_range_is_reported(
    log_writer: LogWriter, bootstrap: str, topic_name: str
) -> None:
    topic = log_writer.topic(topic_name, partitions=3)
    places = [TopicPartition(topic, n) for n in range(3)]
    log_writer.send(topic, [str(n) for n in range(50)], partition=1)
    reader = BatchReader(conf(bootstrap))
    try:
        reader.assign({place: LogPosition(at) for place, at in zip(places, (0, 0, 7), strict=True)})
        values: list[bytes | None] = []
        lost: set[TopicPartition] = set()

        def has_come() -> bool:
            found = reader.read(0.05, 1)
            values.extend(found.fetched.values)
            lost.update(found.lost)
            return len(values) >= 50 and bool(lost)

        eventually(has_come, every_s=0)
        assert (values, lost) == ([b"%d" % n for n in range(50)], {places[2]})
    finally:
        reader.close()


class BusyAndSilent:
    """A topic that always has an answer, and one whose leader, as far as is known, is behind a proxy: node 2."""

    def __init__(self, log_writer: LogWriter, topic_name: str, proxy: KafkaProxy, **more: str) -> None:
        self._busy, self.silent = (
            TopicPartition(log_writer.topic(f"{topic_name}-{name}"), 0) for name in ("busy", "silent")
        )
        log_writer.send(self._busy.topic, ["x"])
        log_writer.send(self.silent.topic, ["moved"])
        self.values: list[bytes | None] = []
        self.reader = BatchReader(conf(log_writer.bootstrap, **more))
        cluster = cluster_of(self.reader)
        believe(cluster, self.silent.topic, [2], node2=proxy.port)
        self.reader.assign({self.silent: LogPosition(0), self._busy: LogPosition(0)})

    def read(self) -> None:
        """Read, and have the same records of the busy topic once more."""
        self.values.extend(self.reader.read(5, 1).fetched.values)
        self.reader.unassign([self._busy])
        self.reader.assign({self._busy: LogPosition(0)})

    def read_until(self, is_enough: Callable[[], bool]) -> None:
        def has_come() -> bool:
            self.read()
            return is_enough()

        eventually(has_come, within_s=60, every_s=0)


@pytest.mark.parametrize("how", [Action.DROP, Action.HALF_ANSWER])
def test_a_silent_broker_is_dropped_even_while_another_one_always_answers(
    log_writer: LogWriter, bootstrap: str, topic_name: str, how: Action
) -> None:
    with KafkaProxy(bootstrap) as proxy:
        suffered = proxy.on(ApiKey.FETCH, how, count=1_000)
        both = BusyAndSilent(log_writer, topic_name, proxy, request_timeout_ms="2000")
        try:
            both.read_until(lambda: b"moved" in both.values)
        finally:
            both.reader.close()
    assert suffered.met
    assert b"x" in both.values


def test_broker_that_stops_within_an_answer_does_not_delay_other_brokers(
    log_writer: LogWriter, bootstrap: str, topic_name: str
) -> None:
    with KafkaProxy(bootstrap) as proxy:
        half = proxy.on(ApiKey.FETCH, Action.HALF_ANSWER)
        both = BusyAndSilent(log_writer, topic_name, proxy)
        try:
            both.read_until(lambda: half.answered == 1)
            before = len(both.values)
            both.read_until(lambda: len(both.values) > before + 3)
            assert 2 in both.reader._asked  # it has the time that an answer takes
            half.release()
            both.read_until(lambda: b"moved" in both.values)
        finally:
            both.reader.close()
    assert half.met == 1


def test_silent_bootstrap_servers_do_not_keep_the_reader_from_the_others(
    log_writer: LogWriter, bootstrap: str, topic_name: str
) -> None:
    place = TopicPartition(log_writer.topic(topic_name), 0)
    log_writer.send(place.topic, ["a"])
    with ExitStack() as opened:
        silent = [opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        servers = ",".join([*(f"127.0.0.1:{each.getsockname()[1]}" for each in silent), bootstrap])
        found = read(BatchReader(conf(servers)), {place: 0}, {place: 1})
    assert [offset for offset, _ in found[place]] == [0]


@pytest.mark.parametrize(("has_ids", "first_version"), [(True, 13), (False, 12)], ids=["by ids", "by names"])
def test_reader_is_never_sent_to_another_replica(
    log_writer: LogWriter,
    bootstrap: str,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
    has_ids: bool,
    first_version: int,
) -> None:
    """One answers without records where its `replica.selector.class` wants another to be asked: not below version 11.

    What it would answer is written into an answer that has come; this broker is asked in version 10 from then on.
    """
    topic = log_writer.topic(topic_name)
    log_writer.send(topic, ["a"])
    place = TopicPartition(topic, 0)
    with KafkaProxy(bootstrap) as proxy:
        asked = proxy.on(ApiKey.FETCH, Action.PASS, count=1_000)
        reader = BatchReader(conf(proxy.bootstrap_servers))
        taken, answers = reader._answered, []

        def directing(of: Any, answer: Any) -> None:
            answers.append(answer)
            if len(answers) == 1:
                (first,) = answer.responses[0].partitions
                first.preferred_read_replica, first.records = 0, None
            taken(of, answer)

        monkeypatch.setattr(reader, "_answered", directing)
        monkeypatch.setattr(batch_reader, "known_id", lambda *_: "")
        reader.assign({place: LogPosition(0, log_writer.admin.topics.get_all([topic])[topic].id if has_ids else "")})
        found = read(reader, {}, {place: 1})
        assert not reader.knows_topics
    versions = [struct.unpack_from(">h", request.frame, 6)[0] for request in asked.requests]
    assert [offset for offset, _ in found[place]] == [0]
    assert (versions[0], set(versions[1:])) == (first_version, {10})


def test_setting_that_the_batch_reader_lacks_is_named(bootstrap: str) -> None:
    with pytest.raises(KafkaRequestError, match=r"client\.rack: the batch client has no such setting"):
        BatchReader({**conf(bootstrap), "client.rack": "a"})
