"""Records of mirroring: the bytes are Kafka's, and what is written is read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.builtin.mirror.formats import Checkpoint, FormatError, Heartbeat, OffsetSync
from fencepost.kafka.value.position import LogPosition
from fencepost.record import TopicPartition

PLACE = TopicPartition("töpic", 7)
# What OffsetSync, Checkpoint and Heartbeat of Kafka 4.3.1 made of the same.
BYTES = [
    (
        OffsetSync(PLACE, 5, 1 << 40),
        "000674c3b670696300000007",
        "00000000000000050000010000000000",
    ),
    (
        Checkpoint("g", PLACE, 5, 6, "meta"),
        "000167000674c3b670696300000007",
        "00000000000000000005000000000000000600046d657461",
    ),
    (Heartbeat("A", "B", 1_234_567_890_123), "000141000142", "00000000011f71fb04cb"),
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
PLACES = st.builds(TopicPartition, TEXTS, st.integers(0, (1 << 31) - 1))
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
RECORDS = st.one_of(
    st.builds(OffsetSync, PLACES, LONGS, LONGS),
    st.builds(Checkpoint, TEXTS, PLACES, LONGS, LONGS, TEXTS),
    st.builds(Heartbeat, TEXTS, TEXTS, LONGS),
)
MirrorRecord = OffsetSync | Checkpoint | Heartbeat


@pytest.mark.parametrize(("record", "key", "value"), BYTES)
def test_mirroring_records_have_the_bytes_of_kafka(record: MirrorRecord, key: str, value: str) -> None:
    assert (record.key().hex(), record.value().hex()) == (key, value)


@given(RECORDS)
def test_mirroring_record_is_decoded_unchanged(record: MirrorRecord) -> None:
    assert type(record).decode(record.key(), record.value()) == record


@pytest.mark.parametrize(("topic_id", "epoch"), [("id", 7), ("id", -1), ("", -1)])
def test_offset_sync_carries_topic_id_and_epoch_in_headers(topic_id: str, epoch: int) -> None:
    sync = OffsetSync(PLACE, 41, 50, topic_id, epoch)
    plain = OffsetSync(PLACE, 41, 50)
    assert (sync.key(), sync.value()) == (plain.key(), plain.value())
    assert OffsetSync.decode(sync.key(), sync.value(), sync.headers()).position == LogPosition(42, topic_id, epoch)


def test_unknown_headers_of_an_offset_sync_are_ignored() -> None:
    sync = OffsetSync(PLACE, 41, 50)
    headers = [("topic_id", None), ("leader_epoch", b"x"), ("h", b"\xff")]
    assert OffsetSync.decode(sync.key(), sync.value(), headers).position == LogPosition(42)


@given(RECORDS, st.data())
def test_bytes_that_end_too_early_are_refused(record: MirrorRecord, data: st.DataObject) -> None:
    key, value = record.key(), record.value()
    with pytest.raises(FormatError):
        type(record).decode(key[: data.draw(st.integers(0, len(key) - 1))], value)
    with pytest.raises(FormatError):
        type(record).decode(key, value[: data.draw(st.integers(0, len(value) - 1))])


@pytest.mark.parametrize("kind", [OffsetSync, Checkpoint, Heartbeat])
@given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=40))
def test_any_bytes_are_decoded_or_refused_as_a_mirroring_record(
    kind: type[MirrorRecord], key: bytes | None, value: bytes | None
) -> None:
    try:
        kind.decode(key, value)
    except FormatError:
        pass


def test_heartbeat_of_an_unsupported_version_is_refused() -> None:
    with pytest.raises(FormatError, match="a heartbeat has version 1; only version 0 is supported"):
        Heartbeat.decode(Heartbeat("A", "B", 5).key(), b"\x00\x01" + bytes(8))


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(FormatError, match="40000 bytes"):
        Heartbeat("A" * 40_000, "B", 5).key()


def test_source_partitions_are_those_of_mirrormaker() -> None:
    assert Checkpoint("g", PLACE, 5, 6).source_partition == {"group": "g", "topic": "töpic", "partition": 7}
    assert Heartbeat("A", "B", 5).source_partition == {"sourceClusterAlias": "A", "targetClusterAlias": "B"}
