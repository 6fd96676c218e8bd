"""How a real broker answers batches and requests with faults, and how the batch client handles that."""

import itertools
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.codec.columns import PartitionColumns, binary, encode_columns, rows
from fencepost.kafka.codec.committed import CopiedBatch
from fencepost.kafka.codec.compress import Codec
from fencepost.kafka.codec.encode import encode_batch
from fencepost.kafka.group.memberless import memberless, read_stable
from fencepost.kafka.produce import coordinator, protocol
from fencepost.kafka.produce.batch_client import BatchClient
from fencepost.kafka.produce.protocol import Protocol
from fencepost.kafka.produce.transactional_client import Failure, ProducerError
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.value.position import GroupOffset
from fencepost.kafka.value.whole import NOW, PlacedBatch, PlacedRecords
from fencepost.kafka.wire.cluster import Cluster, Taking
from fencepost.record import Repeated, TopicPartition
from fencepost.task.delivery.lane import HELD_COLUMNS_BYTES
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.transaction import WriterFencedError
from support.clients import believe, cluster_of, column, only_batch, protocol_of, use_version
from support.proxy import Action, ApiKey, KafkaProxy
from support.quotas import PRODUCER, set_quotas

Spoil = Callable[..., bytes]
MakeClient = Callable[..., BatchClient]
_COUNT_AT, _DELTA_AT, _ATTRIBUTES_AT, _CHECKSUM_AT = 57, 23, 21, 17
_CONTROL = 0x20


def _encoded(columns: PartitionColumns, **producer: Any) -> bytes:
    data, _ = encode_columns(columns, **producer)
    return bytes(data)


def _checked(data: bytearray) -> bytes:
    """Return a batch with the checksum that its bytes have now."""
    from kafka.record.util import calc_crc32c

    struct.pack_into(">I", data, _CHECKSUM_AT, calc_crc32c(memoryview(data)[_ATTRIBUTES_AT:]))
    return bytes(data)


def _changed(at: int, layout: str, change: Callable[[int], int]) -> Spoil:
    def spoil(columns: PartitionColumns, **producer: Any) -> bytes:
        data = bytearray(_encoded(columns, **producer))
        (found,) = struct.unpack_from(layout, data, at)
        struct.pack_into(layout, data, at, change(found))
        return _checked(data)

    return spoil


def _wrong_checksum(columns: PartitionColumns, **producer: Any) -> bytes:
    data = bytearray(_encoded(columns, **producer))
    data[-1] ^= 1
    return bytes(data)


def _two_in_one(columns: PartitionColumns, **producer: Any) -> bytes:
    first = _encoded(columns, **producer)
    behind = {**producer, "base_sequence": producer["base_sequence"] + len(columns.values)}
    return first + _encoded(columns, **behind)


def _ahead(columns: PartitionColumns, **producer: Any) -> bytes:
    """Leave a gap in the sequence, but for the first batch."""
    sequence = producer["base_sequence"]
    return _encoded(columns, **{**producer, "base_sequence": sequence + (5 if sequence else 0)})


def _one_spoiled(spoil: Spoil, place: int) -> Callable[..., tuple[bytes, int]]:
    """Return what encodes batches, that of this place (from 0 on) not quite right."""
    places = itertools.count()

    def encode(columns: PartitionColumns, **producer: Any) -> tuple[bytes, int]:
        make = spoil if next(places) == place else _encoded
        return make(columns, **producer), len(columns.values)

    return encode


SPOILED = {
    "two batches of a partition": (_two_in_one, "INVALID_RECORD"),
    "more records than offsets": (_changed(_COUNT_AT, ">i", lambda count: count + 1), "INVALID_RECORD"),
    "fewer records than offsets": (_changed(_DELTA_AT, ">i", lambda delta: delta + 1), "INVALID_RECORD"),
    "a marker": (_changed(_ATTRIBUTES_AT, ">h", lambda attributes: attributes | _CONTROL), "INVALID_RECORD"),
    "a wrong checksum": (_wrong_checksum, "INVALID_MSG"),
    "a gap in the sequence": (_ahead, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
}


@pytest.fixture
def make_client(kafka: EmbeddedKafka, topic: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeClient]:
    made: list[BatchClient] = []

    def make(encode: Any = encode_columns, bootstrap: str | None = None, **conf: Any) -> BatchClient:
        monkeypatch.setattr("fencepost.kafka.produce.protocol.encode_columns", encode)
        servers = {"bootstrap.servers": bootstrap or kafka.bootstrap_servers}
        made.append(BatchClient({**transactional_conf(servers, f"id-{topic}").conf, **conf}))
        made[-1].init_transactions(30)
        made[-1].begin()
        return made[-1]

    yield make
    for client in made:
        client.drop()


@pytest.mark.parametrize(("spoil", "said"), SPOILED.values(), ids=SPOILED)
def test_corrupt_batch_is_refused_and_nothing_of_its_transaction_is_committed(
    make_client: MakeClient, topic: str, committed: Callable[..., list[bytes]], spoil: Spoil, said: str
) -> None:
    client = make_client(lambda columns, **producer: (spoil(columns, **producer), len(columns.values)))

    def write() -> None:
        for number in range(2):  # a gap needs something before it
            client.produce(topic, b"%d" % number, partition=0)
            client.produce(topic, b"%d" % number, partition=0)
            client.flush(30)

    with pytest.raises(ProducerError, match=said):
        write()
    with pytest.raises(ProducerError, match=said):
        client.commit(10)
    client.abort(10)
    assert client.strikes == 1
    assert committed(topic) == []


def test_a_request_never_holds_a_partition_twice(make_client: MakeClient, topic: str) -> None:
    """A broker would answer that all is well, and drop the first batch."""
    client = make_client()
    spoken = protocol_of(client)
    twice = [spoken.batches.encoded(TopicPartition(topic, 0), PartitionColumns(binary([b"x"]))) for _ in range(2)]
    with pytest.raises(ValueError, match="one batch per partition"):
        spoken.batches.produce(twice, time.monotonic() + 30)


def test_produce_in_version_1_is_refused_when_the_partition_was_not_added(
    make_client: MakeClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_version(1, monkeypatch)
    monkeypatch.setattr(Protocol, "join", lambda *_: None)
    client = make_client()
    client.produce(topic, b"x", partition=0)
    with pytest.raises(ProducerError, match=r"TRANSACTION_ABORTABLE|INVALID_TXN_STATE"):
        client.flush(30)


def test_sequence_continues_at_0_after_the_largest_number(
    make_client: MakeClient, topic: str, committed: Callable[..., list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With version 2 each transaction begins at 0."""
    use_version(1, monkeypatch)
    client = make_client(**{"batch.num.messages": "2"})
    spoken = protocol_of(client)
    unknown = TopicPartition(topic, 0)  # to the partition, as the producer's
    spoken.coordinator.sequences[unknown] = (1 << 31) - 3
    values = [b"%d" % number for number in range(10)]
    client.produce_placed(_placed(topic, values))
    client.flush(30)
    client.commit(30)
    assert committed(topic) == values


def _placed(topic: str, values: list[bytes], partition: int = 0) -> Any:
    count = len(values)
    return PlacedRecords(
        [topic] * count, values, [None] * count, [partition] * count, [NOW] * count, Repeated((), count)
    )


def test_hundreds_of_requests_can_be_in_flight(
    make_client: MakeClient, topic: str, committed: Callable[..., list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "IN_FLIGHT", 300)
    client = make_client(**{"batch.num.messages": "1"})
    values = [b"%d" % number for number in range(400)]
    client.produce_placed(_placed(topic, values))
    client.flush(60)
    client.commit(30)
    assert committed(topic) == values


@pytest.mark.parametrize("version", [1, 2])
def test_first_batches_of_partitions_are_sent_one_request_at_a_time(
    make_client: MakeClient, proxy: KafkaProxy, topic: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two leaders that ask the coordinator at once about one producer: the older question fails."""
    use_version(version, monkeypatch)
    client = make_client(bootstrap=proxy.bootstrap_servers, **{"batch.num.messages": "1"})
    first = proxy.on(ApiKey.PRODUCE, Action.HOLD_ANSWER)
    others = proxy.on(ApiKey.PRODUCE, Action.PASS, count=10)

    def write() -> None:
        client.produce(topic, b"0", partition=0)
        client.produce(topic, b"1", partition=1)
        client.flush(30)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        first.await_met()
        assert others.met == 0
        first.release()
        writing.result(30)
    assert others.met >= 1


@pytest.mark.parametrize("version", [1, 2])
def test_second_batch_is_built_while_the_first_is_in_flight_and_sent_after_it(
    make_client: MakeClient,
    proxy: KafkaProxy,
    topic: str,
    committed: Callable[..., list[bytes]],
    version: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_version(version, monkeypatch)
    made: list[int] = []

    def encode(columns: PartitionColumns, **producer: Any) -> tuple[bytes, int]:
        made.append(len(columns.values))
        return _encoded(columns, **producer), len(columns.values)

    client = make_client(encode, bootstrap=proxy.bootstrap_servers, **{"batch.num.messages": "2"})
    first = proxy.on(ApiKey.PRODUCE, Action.HOLD_ANSWER)
    others = proxy.on(ApiKey.PRODUCE, Action.PASS, count=10)
    values = [b"%d" % number for number in range(6)]

    def write() -> None:
        client.produce_placed(_placed(topic, values))
        client.flush(30)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        first.await_met()
        eventually(lambda: made == [2, 2])
        assert others.met == 0
        first.release()
        writing.result(30)
    client.commit(30)
    assert committed(topic) == values


@pytest.mark.parametrize("version", [1, 2])
def test_refused_batch_is_not_resent_after_an_abort_and_is_a_strike(
    make_client: MakeClient,
    proxy: KafkaProxy,
    topic: str,
    committed: Callable[..., list[bytes]],
    version: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first batch of a partition is sent again where its leader was busy: not once it is given up.

    Nor may the writer go on: the sequence of its next batch would not be the partition's next.
    """
    use_version(version, monkeypatch)
    client = make_client(
        _one_spoiled(_wrong_checksum, 1), bootstrap=proxy.bootstrap_servers, **{"batch.num.messages": "1"}
    )
    client.produce(topic, b"before", partition=0)
    client.commit(30)
    sent = proxy.on(ApiKey.PRODUCE, Action.PASS, count=10)
    client.begin()
    client.produce(topic, b"refused", partition=0)  # nobody has looked at the answer yet
    with suppress(ProducerError):  # of a transaction that has not begun the coordinator may know nothing to end
        client.abort(10)
    assert sent.met == 1
    assert client.strikes == 1
    client.init_transactions(30)
    client.begin()
    client.produce(topic, b"behind", partition=0)
    client.commit(30)
    assert sent.met == 2
    assert committed(topic) == [b"before", b"behind"]


@pytest.mark.parametrize("version", [1, 2])
def test_first_refusal_is_reported_instead_of_the_failures_that_follow_it(
    make_client: MakeClient, topic: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that only learns of a gap in the sequence would try the same again, for ever."""
    use_version(version, monkeypatch)
    client = make_client(_one_spoiled(_two_in_one, 2), **{"batch.num.messages": "1"})

    def write() -> None:
        client.produce_placed(_placed(topic, [b"%d" % number for number in range(5)]))
        client.flush(30)

    with pytest.raises(ProducerError, match="INVALID_RECORD") as refused:
        write()
    assert refused.value.failure is Failure.REFUSED_RECORD


def test_batches_stay_below_the_default_limit_when_the_topics_limit_is_unknown(
    make_client: MakeClient, topic: str, committed: Callable[..., list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "taking", lambda *_: Taking(None, None))
    sizes: list[int] = []

    def encode(columns: PartitionColumns, **producer: Any) -> tuple[bytes, int]:
        data = _encoded(columns, **producer)
        sizes.append(len(data))
        return data, len(columns.values)

    client = make_client(encode, **{"batch.size": str(HELD_COLUMNS_BYTES)})
    values = [b"%07d" % number + b"x" * 1_000 for number in range(3_000)]
    client.produce_placed(_placed(topic, values))
    assert not sizes
    client.flush(30)
    client.commit(30)
    assert max(sizes) <= 1_000_000
    assert committed(topic) == values


@pytest.mark.parametrize("version", [1, 2])
def test_requests_during_the_end_of_the_previous_transaction_are_repeated(
    make_client: MakeClient, kafka: EmbeddedKafka, topic: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_version(version, monkeypatch)
    client = make_client()
    for number in range(1, 51):
        client.produce(topic, b"%d" % number, partition=number % 2)
        client.begin_offsets([GroupOffset(topic, 0, number)], memberless(f"group-{topic}"), 30)
        client.await_offsets()
        client.commit(30)
        client.begin()
        client.begin_offsets([GroupOffset(topic, 1, number)], memberless(f"group-{topic}"), 30)
        client.await_offsets()
        client.commit(30)
        client.begin()
    assert client.strikes == 0


@pytest.mark.parametrize("size", [1, 100])
def test_nothing_is_sent_before_a_flush_while_a_batch_is_not_full(
    make_client: MakeClient, proxy: KafkaProxy, topic: str, committed: Callable[..., list[bytes]], size: int
) -> None:
    """Lanes count on it, and they count bytes of records: a batch of small ones takes several times as many."""
    client = make_client(bootstrap=proxy.bootstrap_servers, **{"batch.size": "50000", "batch.num.messages": "100000"})
    sent = proxy.on(ApiKey.PRODUCE, Action.PASS, count=1000)
    values = [b"x" * size] * (49_999 // size)
    for start in range(0, len(values), 1000):
        client.produce_placed(_placed(topic, values[start : start + 1000]))
    assert sent.met == 0
    client.flush(30)
    assert sent.met > 1
    client.commit(30)
    assert committed(topic) == values


def _believe_in(client: BatchClient, place: TopicPartition) -> None:
    """Have the client take a partition for one that the same broker leads."""
    cluster = cluster_of(client)
    leaders = cluster.leaders(place.topic, time.monotonic() + 30)
    believe(cluster, place.topic, [leaders[0]] * (place.partition + 1))


@pytest.mark.parametrize("has_begun", [False, True], ids=["the other is begun", "both are begun"])
@pytest.mark.parametrize("version", [1, 2])
def test_e1_refusal_that_arrives_while_another_partition_is_written_is_reported(
    make_client: MakeClient, topic: str, version: int, has_begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked again for a new partition has nothing to do with what was sent before, whose answer comes then."""
    use_version(version, monkeypatch)
    client = make_client(**{"batch.num.messages": "1"})
    if has_begun:
        client.produce(topic, b"first", partition=0)
    missing = TopicPartition(topic, 2)
    _believe_in(client, missing)  # from now on: a leader that does not know the new topic yet would end the belief
    spoken = protocol_of(client)
    spoken.transaction.produced.add(missing)  # as if it had moved away, or been deleted, in the middle of a transaction
    spoken.transaction.joined.add(missing)

    def write() -> None:
        client.produce(topic, b"refused", partition=2)
        client.produce(topic, b"taken", partition=0)
        client.flush(30)

    with pytest.raises(ProducerError, match="UNKNOWN_TOPIC_OR_PART"):
        write()
    with pytest.raises(ProducerError):
        client.commit(10)


def test_record_for_a_partition_missing_after_recreation_is_refused(
    make_client: MakeClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "_MOVING_S", 0.1)
    client = make_client()
    _believe_in(client, TopicPartition(topic, 2))
    client.produce(topic, b"x", partition=2)
    with pytest.raises(ProducerError, match="UNKNOWN_TOPIC_OR_PART"):
        client.flush(30)
    client.abort(10)


def test_e1_error_in_a_delivery_callback_ends_the_incarnation(make_client: MakeClient, topic: str) -> None:
    """Other answers were not looked at, and batches not sent: a commit would leave them out."""
    client = make_client()

    def fail(_error: Any, _message: Any) -> None:
        raise LookupError("of a callback")

    client.produce(topic, b"x", partition=0, on_delivery=fail)
    with pytest.raises(LookupError):
        client.flush(30)
    with pytest.raises(ProducerError, match="of a callback"):
        client.commit(10)


@pytest.mark.parametrize("version", [1, 2])
def test_empty_transaction_is_committed_after_a_flush(
    make_client: MakeClient, topic: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker knows of it: the end of it would be refused, and its outcome seem unknown."""
    use_version(version, monkeypatch)
    client = make_client()
    client.produce_columns(*column(topic, []))
    client.flush(30)
    client.commit(30)


def test_time_limit_for_offsets_begins_when_they_are_awaited(
    make_client: MakeClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not under way before: records that took long to be flushed leave them no less."""
    deadlines: list[float] = []
    monkeypatch.setattr(Protocol, "offsets", lambda *arguments: deadlines.append(arguments[-1]))
    client = make_client()
    client.begin_offsets([GroupOffset(topic, 0, 1)], memberless(f"group-{topic}"), 1_000)
    before_s = time.monotonic()
    client.await_offsets()
    assert deadlines[0] >= before_s + 1_000


@only_batch
def test_expired_transaction_is_distinguished_from_fencing_by_a_successor(make_writer, kafka, topic) -> None:
    writer = make_writer(conf={"transaction.timeout.ms": "5000"})
    writer.open()
    writer.send(topic, b"x")
    writer.flush()
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    ids = [writer.transactional_id]
    eventually(lambda: admin.transactions.describe(ids)[ids[0]].state == "CompleteAbort", within_s=60)
    writer.send(topic, b"y")
    with pytest.raises(WriterFencedError) as fenced:
        writer.flush()
    assert fenced.value.has_expired


def test_append_time_of_the_broker_is_in_the_delivery_report(
    make_client: MakeClient, kafka: EmbeddedKafka, topic: str
) -> None:
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    configs = {"message.timestamp.type": "LogAppendTime"}
    appended = f"{topic}-appended"
    admin.topics.create(appended, partitions=1, replication=1, configs=configs)
    client = make_client(**{"delivery.report.only.error": False})
    told: list[Any] = []
    client.produce(appended, b"x", timestamp=1, on_delivery=lambda error, message: told.append(message))
    client.flush(30)
    kind, at_ms = told[0].timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert at_ms > 1
    assert (told[0].topic(), told[0].partition(), told[0].offset()) == (appended, 0, 0)


def test_invalid_topic_or_partition_is_refused_and_the_incarnation_continues(
    make_client: MakeClient, topic: str, committed: Callable[..., list[bytes]]
) -> None:
    client = make_client()
    client.produce(topic, b"x", partition=0)
    with pytest.raises(ProducerError, match="TOPIC_EXCEPTION") as refused:
        client.produce("not a topic!", b"x")
    assert refused.value.failure is Failure.REFUSED_RECORD
    with pytest.raises(ProducerError, match="_UNKNOWN_PARTITION"):
        client.produce(topic, b"x", partition=7)
    client.flush(30)
    client.commit(30)
    assert client.strikes == 0
    assert committed(topic) == [b"x"]


def test_a_producer_above_its_quota_is_slowed_down_and_not_struck(
    make_client: MakeClient, kafka: EmbeddedKafka, topic: str, committed: Callable[..., list[bytes]]
) -> None:
    """The broker answers at once, says how long it will not listen, and the client waits for as long."""
    name = f"quota-{topic}"
    set_quotas(kafka.bootstrap_servers, name, **{PRODUCER: 33_000.0})
    client = make_client(**{"client.id": name, "batch.size": "50000"})
    began_s = time.monotonic()
    values: list[bytes] = []

    def is_slowed_down() -> bool:
        """A broker hears of a quota a little later, and counts what comes in ten seconds."""
        more = [b"%06d" % (len(values) + number) + b"x" * 50_000 for number in range(8)]
        client.produce_placed(_placed(topic, more))
        client.flush(60)
        values.extend(more)
        return max(each.throttled_until_s for each in cluster_of(client).connections()) > began_s

    eventually(is_slowed_down, within_s=60)
    client.commit(60)
    assert client.strikes == 0
    assert committed(topic) == values


def _limited(kafka: EmbeddedKafka, topic: str, limit_bytes: int, compression: str = "producer") -> str:
    """Create a topic that takes batches of so many bytes, and return its name."""
    name = f"{topic}-limited"
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    configs = {"max.message.bytes": str(limit_bytes), "compression.type": compression}
    admin.topics.create(name, partitions=1, replication=1, configs=configs)
    return name


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_batches_are_cut_to_the_size_limit_of_their_topic(
    make_client: MakeClient,
    kafka: EmbeddedKafka,
    topic: str,
    committed: Callable[..., list[bytes]],
    compression: str,
) -> None:
    limited = _limited(kafka, topic, 1_000)
    client = make_client(**{"compression.type": compression})
    values = [b"%06d" % number + random.Random(number).randbytes(number % 900) for number in range(150)]
    client.produce_columns(*column(limited, values[:75]))
    client.produce_placed(_placed(limited, values[75:]))
    client.flush(30)
    client.commit(30)
    assert client.strikes == 0
    assert committed(limited) == values


def test_record_above_its_topics_limit_is_refused_before_anything_is_sent(
    make_client: MakeClient, kafka: EmbeddedKafka, proxy: KafkaProxy, topic: str, committed: Callable[..., list[bytes]]
) -> None:
    limited = _limited(kafka, topic, 1_000)
    client = make_client(bootstrap=proxy.bootstrap_servers)
    sent = proxy.on(ApiKey.PRODUCE, Action.PASS, count=100)
    client.produce(limited, b"x" * 2_000)
    with pytest.raises(ProducerError, match=r"MSG_SIZE_TOO_LARGE.*max\.message\.bytes") as refused:
        client.flush(30)
    assert refused.value.failure is Failure.REFUSED_RECORD
    assert sent.met == 0
    with pytest.raises(ProducerError, match="MSG_SIZE_TOO_LARGE"):
        client.commit(10)
    client.abort(10)
    assert committed(limited) == []


def test_topics_size_limit_applies_after_compression(
    make_client: MakeClient, kafka: EmbeddedKafka, topic: str, committed: Callable[..., list[bytes]]
) -> None:
    limited = _limited(kafka, topic, 1_000)
    client = make_client(**{"compression.type": "lz4"})
    client.produce(limited, b"x" * 50_000)
    client.flush(30)
    client.commit(30)
    assert committed(limited) == [b"x" * 50_000]


def test_whole_batch_is_written_when_it_exceeds_the_limit_only_uncompressed(
    make_client: MakeClient, kafka: EmbeddedKafka, topic: str, committed: Callable[..., list[bytes]]
) -> None:
    limited = _limited(kafka, topic, 10_000, "uncompressed")
    client = make_client()
    values = [b"%06d" % number * 100 for number in range(100)]
    batch = encode_batch(rows(binary(values), now_ms=1_750_000_000_000), Codec("lz4"))
    assert len(batch) < 10_000
    client.produce_whole([PlacedBatch(TopicPartition(limited, 0), CopiedBatch(batch, range(100)), {})])
    client.flush(30)
    client.commit(30)
    assert committed(limited) == values


def test_raised_size_limit_of_a_topic_applies_to_a_running_producer(
    make_client: MakeClient, kafka: EmbeddedKafka, topic: str, committed: Callable[..., list[bytes]]
) -> None:
    limited = _limited(kafka, topic, 1_000)
    client = make_client()
    client.produce(limited, b"small")
    client.flush(30)
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    Admin(servers).configs.alter({limited: {"max.message.bytes": "100000"}})
    eventually(lambda: _is_taken(Producer(servers), limited, b"x" * 50_000))  # it counts a little later
    client.produce(limited, b"y" * 50_000)
    client.flush(30)
    client.commit(30)
    assert committed(limited)[-1] == b"y" * 50_000


def _is_taken(producer: Producer, topic: str, value: bytes) -> bool:
    taken: list[bool] = []
    # A KafkaError is never compared: `== None` answers and leaves a TypeError, which the next call of anything raises.
    producer.produce(topic, value, on_delivery=lambda error, _: taken.append(error is None))
    producer.flush(30)
    return taken == [True]


def test_other_servers_are_used_when_the_first_one_does_not_answer(
    kafka: EmbeddedKafka, topic: str, make_client: MakeClient, committed: Callable[..., list[bytes]]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it is connected to, and nobody is there
        client = make_client(bootstrap=f"127.0.0.1:{silent.getsockname()[1]},{kafka.bootstrap_servers}")
        client.produce(topic, b"x")
        client.flush(30)
        client.commit(30)
    assert committed(topic) == [b"x"]


def test_records_without_keys_go_to_partitions_that_have_a_leader(
    make_client: MakeClient, kafka: EmbeddedKafka, topic: str, committed: Callable[..., list[bytes]]
) -> None:
    client = make_client()
    cluster = cluster_of(client)
    values = [b"%03d" % number for number in range(61)]
    client.produce(topic, values[0], partition=1)
    client.flush(30)  # else a leader that does not know the new topic yet would end the belief
    [leader, *_] = cluster.leaders(topic, time.monotonic() + 30)
    believe(cluster, topic, [-1, leader])
    for index in range(1, len(values), 3):
        client.produce(topic, values[index])
        client.flush(30)
        client.produce_columns(Repeated(topic, 2), values[index + 1 : index + 3], [None, None])
        client.flush(30)
    client.commit(30)
    found = CommittedReader(kafka.bootstrap_servers, [topic]).read_all(30)
    assert {seen.partition for seen in found} == {1}
    assert committed(topic) == values


@pytest.mark.parametrize("version", [1, 2])
def test_offsets_that_need_a_preparing_request_are_sent_after_all_batch_answers(
    make_client: MakeClient, proxy: KafkaProxy, topic: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That request adds the group to the transaction, or finds the group's coordinator."""
    use_version(version, monkeypatch)
    client = make_client(bootstrap=proxy.bootstrap_servers)
    held = proxy.on(ApiKey.PRODUCE, Action.HOLD_ANSWER)
    offsets = [proxy.on(key, Action.PASS) for key in (ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT)]
    client.produce(topic, b"x", partition=0)
    client.begin_offsets([GroupOffset(topic, 0, 1)], memberless(f"group-{topic}"), 30)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.await_offsets)
        held.await_met()
        assert [each.met for each in offsets] == [0, 0]
        held.release()
        waiting.result(60)
    client.commit(30)
    assert client.strikes == 0


class Beside:
    """A client whose first transaction had a record and a position, and whose next one begins with a position."""

    def __init__(self, client: BatchClient, topic: str) -> None:
        self._client, self._topic = client, topic
        self.group = f"group-{topic}"
        self.begin(1)
        self.end()
        client.begin()

    def begin(self, number: int) -> None:
        self._client.produce(self._topic, b"%d" % number, partition=0)
        self._client.begin_offsets([GroupOffset(self._topic, 0, number)], memberless(self.group), 30)

    def end(self) -> None:
        self._client.flush(30)
        self._client.await_offsets()
        self._client.commit(30)

    def position(self, bootstrap: str) -> int:
        place = TopicPartition(self._topic, 0)
        return read_stable({"bootstrap.servers": bootstrap}, self.group, 30.0, [place])[place].offset


def test_offsets_are_sent_while_records_are_in_flight(
    make_client: MakeClient, proxy: KafkaProxy, kafka: EmbeddedKafka, topic: str, committed: Callable[..., list[bytes]]
) -> None:
    client = make_client(bootstrap=proxy.bootstrap_servers)
    beside = Beside(client, topic)
    held = proxy.on(ApiKey.TXN_OFFSET_COMMIT, Action.HOLD_ANSWER)
    records = proxy.on(ApiKey.PRODUCE, Action.PASS)
    beside.begin(2)
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(beside.end)
        held.await_met()
        records.await_met()
        held.release()
        ending.result(60)
    assert client.strikes == 0
    assert (beside.position(kafka.bootstrap_servers), committed(topic)) == (2, [b"1", b"2"])


def test_offsets_wait_for_records_that_another_broker_leads(
    make_client: MakeClient, proxy: KafkaProxy, kafka: EmbeddedKafka, topic: str
) -> None:
    """It would ask the coordinator about the producer while the group's does, and one of the two would be sent away."""
    client = make_client(bootstrap=proxy.bootstrap_servers)
    beside = Beside(client, topic)
    cluster = cluster_of(client)
    believe(cluster, topic, [2, 1], node2=proxy.port)
    held = proxy.on(ApiKey.PRODUCE, Action.HOLD_ANSWER)
    offsets = proxy.on(ApiKey.TXN_OFFSET_COMMIT, Action.PASS)
    beside.begin(2)
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(beside.end)
        held.await_met()
        assert offsets.met == 0
        held.release()
        ending.result(60)
    assert beside.position(kafka.bootstrap_servers) == 2


def test_offsets_are_sent_again_when_the_coordinator_was_busy(
    make_client: MakeClient, kafka: EmbeddedKafka, topic: str, proxy: KafkaProxy, committed: Callable[..., list[bytes]]
) -> None:
    """It ends the transaction before, or is asked by a leader about this one."""
    client = make_client(bootstrap=proxy.bootstrap_servers)
    beside = Beside(client, topic)
    asked = proxy.on(ApiKey.TXN_OFFSET_COMMIT, Action.PASS, count=100)
    beside.begin(2)
    client.flush(30)
    for of_topic in protocol_of(client)._offsets_answer.topics:
        for each in of_topic.partitions:
            each.error_code = KafkaError.CONCURRENT_TRANSACTIONS
    beside.end()
    assert asked.met == 2
    assert beside.position(kafka.bootstrap_servers) == 2
    client.begin()
    beside.begin(3)
    beside.end()
    assert (beside.position(kafka.bootstrap_servers), committed(topic)) == (3, [b"1", b"2", b"3"])


def test_offsets_of_an_aborted_transaction_are_not_confused_with_the_next_ones(
    make_client: MakeClient, kafka: EmbeddedKafka, topic: str, committed: Callable[..., list[bytes]]
) -> None:
    client = make_client()
    beside = Beside(client, topic)
    beside.begin(2)
    client.flush(30)
    client.abort(30)
    client.begin()
    beside.begin(3)
    client.flush(30)
    client.abort(30)
    assert beside.position(kafka.bootstrap_servers) == 1
    client.begin()
    beside.begin(4)
    beside.end()
    assert (beside.position(kafka.bootstrap_servers), committed(topic)) == (4, [b"1", b"4"])


def test_deleted_topic_is_named_in_the_error_and_nothing_is_committed(
    make_client: MakeClient, kafka: EmbeddedKafka, topic: str, committed: Callable[..., list[bytes]]
) -> None:
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    gone = f"{topic}-gone"
    admin.topics.create(gone, partitions=1, replication=1)
    client = make_client()
    client.produce(topic, b"x", partition=0)
    client.produce(gone, b"x", partition=0)
    client.flush(30)
    admin.topics.delete([gone])

    def refusal() -> ProducerError | None:
        try:
            client.produce(gone, b"y", partition=0)
            client.flush(30)
        except ProducerError as error:
            return error
        return None

    refused = eventually(refusal)  # the broker closes its log a little later
    assert refused is not None
    assert refused.failure is Failure.REFUSED_RECORD
    with pytest.raises(ProducerError, match=f"UNKNOWN_TOPIC_OR_PART.*{gone}"):
        client.commit(10)
    client.abort(10)
    assert committed(topic) == []
