"""A mirror copies whole batches unless something looks at single records."""

import random

import pytest
from confluent_kafka import Producer
from flow import Flow
from mirrored import SOON, await_same

from fencepost.builtin.mirror.formats import OffsetSync
from fencepost.kafka.codec.compress import NAMES
from fencepost.kafka.read.client_reader import ClientReader
from fencepost.kafka.read.log import LogReader
from fencepost.kafka.setting.client_settings import plan_conf
from fencepost.kafka.value.position import LogPosition
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.batch_topic import BatchWriter
from support.log_writer import LogWriter

BATCHES = {**SOON, "transaction.producer": "true", "producer__client": "batch"}
_CODEC = 0x07


def fill(source: LogWriter, topic: str, partition: int, codec: str, rng: random.Random) -> None:
    """Write a large batch, an aborted one between committed ones, and some that have a record each."""
    producer = Producer({
        "bootstrap.servers": source.bootstrap,
        "transactional.id": f"{topic}-{partition}",
        "compression.type": codec,
        "linger.ms": 30_000,  # what fills a batch is never the clock
        "batch.num.messages": 400,
    })  # fmt: skip
    producer.init_transactions(30)
    for lot, is_committed in enumerate((True, False, True)):
        producer.begin_transaction()
        for n in range(500):
            value = rng.choice((None, b"", b"value %d of lot %d" % (n, lot) * 4))
            producer.produce(topic, value, rng.choice((None, b"k")), partition, headers=[("h", None)] if n % 3 else [])
        producer.flush(30)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
    for n in range(10):
        source.send(topic, [f"alone {n}"], partition=partition)


def by_offset(bootstrap: str, places: list[TopicPartition], ends: dict[TopicPartition, int]) -> dict[object, object]:
    """Return key, value and timestamp of each record of these partitions by partition and offset."""
    reader = ClientReader(plan_conf({"bootstrap.servers": bootstrap, "fetch.max.wait.ms": "20"}).conf)
    reader.assign(dict.fromkeys(places, LogPosition(0)))
    found: dict[object, object] = {}
    at = dict.fromkeys(places, 0)

    def is_read() -> bool:
        fetched = reader.read(0.1, 500).fetched
        columns = (fetched.keys, fetched.values, fetched.timestamps)
        for place, offset, *row in zip(fetched.places, fetched.offsets, *columns, strict=True):
            found[place.partition, offset] = tuple(row)
        at.update(fetched.next_offsets() | fetched.ends)
        return all(at[place] >= end for place, end in ends.items())

    try:
        eventually(is_read, every_s=0)
    finally:
        reader.close()
    return found


def ends_of(where: LogWriter, places: list[TopicPartition]) -> dict[TopicPartition, int]:
    return {TopicPartition(*place): end for place, end in where.admin.offsets.ends(places, read_committed=True).items()}


def syncs_of(flow: Flow, topic: str) -> list[OffsetSync]:
    found: list[OffsetSync] = []
    reader = LogReader({"bootstrap.servers": flow.target.bootstrap}, f"mm2-offset-syncs.{flow.source_alias}.internal")
    try:
        reader.read_to_end(30, lambda record: found.append(OffsetSync.decode(record.key, record.value)))
    finally:
        reader.close()
    return [sync for sync in found if sync.topic_partition.topic == topic]


@pytest.mark.parametrize("times", ["CreateTime", "LogAppendTime"])
def test_batches_of_every_codec_arrive_unchanged_and_every_sync_is_exact(
    flow: Flow, topic_name: str, times: str
) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    count = len(NAMES)
    topic = flow.source.topic(topic_name, partitions=count, message_timestamp_type=times)
    for partition, codec in enumerate(NAMES):
        fill(flow.source, topic, partition, codec, random.Random(seed + partition))
    name = flow.start("Sink", **BATCHES, topics=topic)
    remote = flow.remote(topic)
    if times == "CreateTime":
        await_same(flow, topic)
    places, remotes = ([TopicPartition(each, number) for number in range(count)] for each in (topic, remote))
    ends = ends_of(flow.source, places)
    offsets = {place.partition: end - 1 for place, end in ends.items()}
    eventually(
        lambda: {o["partition"]["partition"]: o["offset"]["offset"] for o in flow.offsets(name)} == offsets, within_s=60
    )
    ids = {o["offset"]["topic_id"] for o in flow.offsets(name)}
    assert ids == {flow.source.admin.topics.get_all([topic_name])[topic_name].id}
    assert {o["offset"]["leader_epoch"] for o in flow.offsets(name)} == {0}  # nobody else has led yet
    here = by_offset(flow.source.bootstrap, places, ends)
    there = by_offset(flow.target.bootstrap, remotes, ends_of(flow.target, remotes))
    assert [here[each] for each in sorted(here)] == [there[each] for each in sorted(there)]  # type: ignore[type-var]
    syncs = syncs_of(flow, topic)
    assert {sync.topic_partition for sync in syncs} == set(places)
    for sync in syncs:
        number = sync.topic_partition.partition
        assert here[number, sync.upstream_offset] == there[number, sync.downstream_offset]
    with BatchWriter(flow.target.bootstrap) as raw:
        codecs = [next(raw.read(remote, number))[22] & _CODEC for number in range(count)]
    assert codecs == list(range(count))  # they are made anew where the times are, and keep that
    assert f"{flow.source_alias}->{flow.target_alias} copies whole batches" in flow.worker.log_text()


def test_batches_refused_by_the_target_are_copied_record_by_record(flow: Flow, topic_name: str) -> None:
    topic = flow.source.topic(topic_name)
    flow.target.topic(flow.remote(topic), max_message_bytes="20000")
    with flow.source.transaction() as producer:
        for n in range(1_000):
            producer.produce(topic, f"{n}" * 50, partition=0)
    flow.start("Sink", **BATCHES, topics=topic)
    await_same(flow, topic)


def test_mirror_copies_records_and_names_a_setting_that_whole_batches_lack(flow: Flow, topic_name: str) -> None:
    topic = flow.source.topic(topic_name)
    flow.source.send(topic, ["a", "b"])
    flow.start("Sink", **BATCHES, topics=topic, source__consumer__client__rack="somewhere")
    await_same(flow, topic)
    told = "copies record by record, not whole batches: client.rack: the batch client has no such setting"
    assert f"{flow.source_alias}->{flow.target_alias} {told}" in flow.worker.log_text()
