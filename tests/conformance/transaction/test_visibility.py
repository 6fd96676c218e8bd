"""E1: records and the offsets that cover them become visible together, or not at all."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.browse import TopicBrowser
from fencepost.kafka.read.range_input import RangeInput
from fencepost.kafka.read.record_columns import ALL, schema
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.kafka.setting.table import BATCH
from fencepost.kafka.value.position import LogRange
from fencepost.record import BinaryColumn, Repeated, TopicPartition
from fencepost.task.delivery.lanes import LanedDelivery
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import judge
from fencepost.transaction import ProduceError
from fencepost.transaction.writer import WriterState
from support.clients import column

OFFSET = b'["connector",{"file":"f"}]'


def test_e1_records_and_offsets_become_visible_together(kafka, make_writer, topic, committed):
    writer = make_writer()
    writer.open()
    delivery = LanedDelivery([writer], offsets_topic=topic)
    with CommittedReader(kafka.bootstrap_servers, [topic]) as reader:
        for turn in range(3):
            delivery.send(OutgoingColumns([topic], [b"r%d" % turn], partitions=[0]))
            writer.flush()
            assert len(reader.seen()) == 2 * turn
            delivery.commit([(OFFSET, b"o%d" % turn)])
            assert len(reader.catch_up()) == 2 * turn + 2
    assert sorted(committed(topic)) == [b"o0", b"o1", b"o2", b"r0", b"r1", b"r2"]


def test_e1_neither_records_nor_offsets_are_visible_after_an_abort(make_writer, topic, committed):
    writer = make_writer()
    writer.open()
    writer.send(topic, b"record")
    writer.flush()
    writer.abort()
    assert writer.state is WriterState.OPEN
    writer.send(topic, b"after")
    writer.commit()
    assert committed(topic) == [b"after"]


def test_e1_a_hundred_transactions_arrive_once_and_in_order(make_writer, after_abort, topic, committed):
    writer = make_writer()
    writer.open()
    for turn in range(100):
        for n in range(10):
            writer.send(topic, b"%d" % (turn * 10 + n), partition=0)
        if turn % 3 == 2:
            writer.abort()
            writer = after_abort(writer)
        else:
            writer.commit()
    expected = [t * 10 + n for t in range(100) if t % 3 != 2 for n in range(10)]
    verdict = judge({"all": expected}, (("all", int(value)) for value in committed(topic)))
    assert verdict.is_clean, verdict


@pytest.mark.parametrize("has_keys", [False, True])
def test_e1_a_column_arrives_in_order_when_the_queue_is_smaller_than_it(
    make_writer, kafka, topic_name, committed, has_keys
):
    writer = make_writer(conf={"queue.buffering.max.messages": 1000})
    writer.open()
    values = [b"%06d" % n + b"x" * 100 for n in range(20_000)]
    if has_keys:
        writer.send_columns([topic_name] * len(values), values, [b"key"] * len(values))
    else:
        writer.send_columns(*column(topic_name, values))
    writer.commit()
    verdict = judge({"column": values}, (("column", value) for value in committed(topic_name)))
    assert verdict.is_clean, verdict


def _commit(delivery: LanedDelivery) -> None:
    delivery.commit([(OFFSET, b"covers both")])
    delivery.finished(wait=True)


def test_e1_a_refused_record_cannot_be_left_out_by_a_later_commit(make_writer, topic, committed):
    writer = make_writer()
    writer.open()
    delivery = LanedDelivery([writer], offsets_topic=topic)
    delivery.send(OutgoingColumns([topic], [b"before"]))
    with pytest.raises(ProduceError):
        delivery.send(OutgoingColumns([topic], [b"x" * 2_000_000]))
    with pytest.raises(ProduceError):
        _commit(delivery)
    delivery.abort()
    assert committed(topic) == []


@pytest.mark.parametrize(
    ("name", "size"), [("topic with spaces!", 1), (None, 2_000_000)], ids=["bad topic", "too large"]
)
def test_refused_record_is_named_and_the_writer_is_usable_after_an_abort(make_writer, topic, committed, name, size):
    writer = make_writer()
    writer.open()
    writer.send(topic, b"good")

    def write() -> None:
        writer.send(name or topic, b"x" * size)
        writer.flush()

    with pytest.raises(ProduceError) as refused:
        write()
    assert refused.value.is_refused
    writer.abort()
    assert writer.state is WriterState.OPEN
    writer.send(topic, b"next")
    writer.commit()
    assert committed(topic) == [b"next"]


def test_record_that_only_the_broker_refuses_is_reported_as_refused(make_writer, kafka, topic_name, committed):
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(topic_name, partitions=1, replication=1, configs={"max.message.bytes": "1000"})
    writer = make_writer()
    writer.open()
    writer.send(topic_name, b"x" * 5_000)
    with pytest.raises(ProduceError) as refused:
        writer.commit()
    assert refused.value.is_refused
    writer.abort()
    eventually(lambda: writer.state in (WriterState.OPEN, WriterState.STRUCK))
    writer.close()
    assert committed(topic_name) == []


def test_placed_records_arrive_in_their_partitions_unchanged(kafka, make_writer, topic, client):
    writer = make_writer()
    writer.open()
    headers = [("bytes", b"\x00\xff"), ("none", None), ("bytes", b"")]
    delivery = LanedDelivery([writer], offsets_topic=topic)
    delivery.send(
        OutgoingColumns(
            [topic] * 4,
            [b"a", None, b"c", b"d"],
            [b"k", b"", None, b"k"],
            partitions=[1, 0, 1, 1],
            timestamps=[1_000, 2_000, 3_000, 0],  # 0 is what librdkafka takes for now
            headers=[headers, (), [("x", b"y")], ()],
        )
    )
    delivery.commit([])
    delivery.finished(wait=True)
    assert rows(kafka, topic, 0, 1) == [(b"", None, 2_000, None)]
    assert rows(kafka, topic, 1, 3) == [
        (b"k", b"a", 1_000, headers),
        (None, b"c", 3_000, [("x", b"y")]),
        (b"k", b"d", 0 if client == BATCH else 1, None),
    ]


def test_records_with_only_timestamps_keep_them(kafka, make_writer, topic_name, client):
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=1, replication=1)
    writer = make_writer()
    writer.open()
    values = BinaryColumn(pa.array([b"a", None, b"c", b"d"], pa.binary()))
    delivery = LanedDelivery([writer], offsets_topic=topic_name)
    started_ms = int(time.time() * 1000)
    delivery.send(OutgoingColumns(Repeated(topic_name, 4), values, timestamps=[3_000, None, 2_000, 0]))
    delivery.commit([])
    delivery.finished(wait=True)
    found = rows(kafka, topic_name, 0, 4)
    assert [value for _, value, _, _ in found] == [b"a", None, b"c", b"d"]
    first, now, third, earliest = (at for _, _, at, _ in found)
    assert (first, third, earliest) == (3_000, 2_000, 0 if client == BATCH else 1)
    assert started_ms <= now <= time.time() * 1000


@pytest.mark.parametrize("has_keys", [False, True])
def test_headers_shared_by_all_records_of_a_call_arrive_with_each_record(kafka, make_writer, topic, has_keys):
    """They go where they would go without headers: to the partition of their key."""
    writer = make_writer()
    writer.open()
    count, headers = 100, [("traceparent", b"00-1"), ("none", None)]
    values = BinaryColumn(pa.array([b"%d" % n for n in range(count)], pa.binary()))
    keys = BinaryColumn(pa.array([b"k%d" % (n % 7) for n in range(count)], pa.binary())) if has_keys else None
    delivery = LanedDelivery([writer], offsets_topic=topic)
    for added in (None, Repeated(tuple(headers), count)):
        delivery.send(OutgoingColumns(Repeated(topic, count), values, keys, headers=added))
    delivery.commit([])
    delivery.finished(wait=True)
    seen = Counter(o.partition for o in CommittedReader(kafka.bootstrap_servers, [topic]).read_all(30))
    found = [(p, *row) for p, size in seen.items() for row in rows(kafka, topic, p, size)]
    for wanted in (None, headers):
        own = [(partition, key, int(value)) for partition, key, value, _, each in found if each == wanted]
        assert sorted(number for *_, number in own) == list(range(count))
        assert not has_keys or {(key, p) for p, key, _ in own} == {(key, p) for p, key, *_ in found}
        assert not has_keys or [(p, n) for p, _, n in own] == sorted((p, n) for p, _, n in own)


def rows(kafka: EmbeddedKafka, topic: str, partition: int, count: int) -> list[tuple[Any, ...]]:
    """Return key, value, timestamp in milliseconds and headers of the first records of a partition."""
    conf = range_conf({"bootstrap.servers": kafka.bootstrap_servers}, "looks").conf
    wanted = LogRange(TopicPartition(topic, partition), 0, count)
    found = [row for batch in RangeInput(conf, wanted, columns=schema(ALL)).batches() for row in batch.to_pylist()]
    return [(r["key"], r["value"], round(r["timestamp"].timestamp() * 1000), _pairs(r["headers"])) for r in found]


def _pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]] | None:
    return None if headers is None else [(header["key"], header["value"]) for header in headers]


@pytest.mark.parametrize("has_headers", [False, True])
def test_placed_records_arrive_in_order_when_they_exceed_the_queue(make_writer, kafka, topic, committed, has_headers):
    writer = make_writer(conf={"queue.buffering.max.messages": 100})
    writer.open()
    count = 1_000
    headers = [[("n", b"%d" % n)] if n % 3 else () for n in range(count)] if has_headers else None
    delivery = LanedDelivery([writer], offsets_topic=topic)
    values = [b"%d" % n for n in range(count)]
    delivery.send(OutgoingColumns([topic] * count, values, partitions=[0] * count, headers=headers))
    delivery.commit([])
    delivery.finished(wait=True)
    if has_headers:
        assert [found or () for _, _, _, found in rows(kafka, topic, 0, count)] == headers
    assert [int(value) for value in committed(topic)] == list(range(count))


@pytest.mark.parametrize("short", ["keys", "partitions", "timestamps", "headers", "topics"])
def test_columns_of_different_lengths_are_refused(make_writer, topic, committed, short):
    writer = make_writer()
    writer.open()
    count = 3
    columns = {"topics": [topic], "keys": [b"k"], "partitions": [0], "timestamps": [1_000], "headers": [[("n", b"")]]}
    even = {name: column * (count - (name == short)) for name, column in columns.items()}
    delivery = LanedDelivery([writer], offsets_topic=topic)
    with pytest.raises(ValueError, match="length"):
        delivery.send(OutgoingColumns(values=[b"x"] * count, **even))
    delivery.abort()
    assert committed(topic) == []


def test_record_keeps_the_timestamp_0(kafka: EmbeddedKafka, make_writer: Any, topic: str, client: str) -> None:
    """Except with librdkafka, for which 0 means now."""
    writer = make_writer()
    writer.open()
    delivery = LanedDelivery([writer], offsets_topic=topic)
    times: list[Sequence[int | None]] = [[0, 5, 0], Repeated(0, 1), [None, 0]]
    for each in times:
        count = len(each)
        columns = {"partitions": Repeated(0, count), "timestamps": each}
        delivery.send(OutgoingColumns(Repeated(topic, count), [b"v"] * count, **columns))
    writer.flush()
    delivery.commit([])
    browser = TopicBrowser(dict(range_conf({"bootstrap.servers": kafka.bootstrap_servers}, "test").conf), topic)
    ends = {0: (0, 6)}
    eventually(
        lambda: (
            Admin({"bootstrap.servers": kafka.bootstrap_servers}).offsets.ends([(topic, 0)], read_committed=True)[
                topic, 0
            ]
            >= 6
        )
    )
    found = [record.timestamp_ms or 0 for record in browser.read(ends)]
    first = 0 if client == BATCH else 1
    assert found[4] > 1_700_000_000_000
    assert [*found[:4], *found[5:]] == [first, 5, first, first, first]
