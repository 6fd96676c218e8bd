"""Records that wait: handed over once, in order, in slices of any size, and dropped where they are not wanted."""

import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.codec import decode_columns
from fencepost.kafka.codec.committed import Answered, Position, committed_batches
from fencepost.kafka.codec.encode_header import CorruptBatchError
from fencepost.kafka.read.fetched_queue import UnreadBatch, UnreadFetched, WaitingRecords
from fencepost.record import AppendTime, BinaryColumn, Repeated, Runs, TopicPartition
from support.old_messages import APPEND_MS, CODECS, old_log
from support.slow_batch import Kept, PlainRecord, headed, kept_batch

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
_LOG_APPEND_TIME = 0x08


def batch(base: int, count: int, *, key: bytes | None = None, epoch: int = 0) -> bytes:
    """Return a batch of so many records, each with its offset for a value; `epoch` is that of its leader."""
    records = [Kept(n, PlainRecord(key, b"%d" % (base + n), 1_000 + n)) for n in range(count)]
    made = bytearray(kept_batch(base, records, 1_000))
    struct.pack_into(">i", made, 12, epoch)
    return bytes(made)


def unread(place: TopicPartition, log: bytes, wanted: int = 0) -> list[tuple[TopicPartition, UnreadBatch]]:
    batches, _ = committed_batches(Answered(memoryview(log)), Position(wanted))
    return [(place, UnreadBatch(sent, wanted)) for sent in batches]


def read(*entries: tuple[TopicPartition, UnreadBatch], **ends: int) -> UnreadFetched:
    """Return what a reader gives; `one` and `other` end at these offsets, of epoch 9."""
    found = UnreadFetched(entries)
    found.ends = {ONE if name == "one" else OTHER: end for name, end in ends.items()}
    found.epochs = {place: (end, 9) for place, end in found.ends.items()}
    return found


@pytest.fixture(params=[0, 200], ids=["column by column", "row by row"])
def waiting(request: pytest.FixtureRequest) -> WaitingRecords:
    """Nothing yet; even few records are decoded by Arrow, or one after the other."""
    return WaitingRecords(few=request.param)


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=9),
    most=st.integers(1, 40),
    wanted=st.integers(0, 9),
    few=st.sampled_from((0, 10, 200)),
    portion=st.sampled_from((1, 300, 1 << 20)),
)
def test_waiting_records_are_taken_once_and_within_the_requested_count(
    sizes: list[int], most: int, wanted: int, few: int, portion: int
) -> None:
    log, base = b"", 0
    for size in sizes:
        log += batch(base, size)
        base += size
    waiting = WaitingRecords(few, portion)
    waiting.add(read(*unread(ONE, log, min(wanted, base - 1)), *unread(OTHER, batch(0, 3)), other=5))
    found: list[tuple[TopicPartition, int, int | None, bytes | None]] = []
    while len(waiting):
        taken = waiting.take(most)
        assert 0 < len(taken) <= most
        assert isinstance(taken.offsets, list | array if few else array)
        assert type(taken.timestamps) is type(taken.offsets)
        assert isinstance(taken.places, Repeated | Runs)
        assert bool(taken.ends) is (not len(waiting))
        found += zip(taken.places, taken.offsets, taken.timestamps, taken.values, strict=True)
    times = [1_000 + n for size in sizes for n in range(size)]
    expected = [(ONE, n, times[n], b"%d" % n) for n in range(min(wanted, base - 1), base)]
    assert found == expected + [(OTHER, n, 1_000 + n, b"%d" % n) for n in range(3)]


def test_taken_records_carry_the_next_offset_and_epoch_of_each_partition(waiting: WaitingRecords) -> None:
    waiting.add(read(*unread(ONE, batch(0, 3, epoch=4) + batch(3, 2, epoch=5)), one=8))
    assert waiting.take(2).epochs == {ONE: (2, 4)}
    assert waiting.take(1).epochs == {ONE: (3, 4)}
    assert waiting.take(1).epochs == {ONE: (4, 5)}
    last = waiting.take(1)
    assert (last.epochs, last.ends, last.next_offsets()) == ({ONE: (8, 9)}, {ONE: 8}, {ONE: 5})


def test_partition_end_past_the_records_is_returned_after_the_last_record(waiting: WaitingRecords) -> None:
    waiting.add(read(*unread(ONE, batch(0, 3)), one=3, other=7))
    assert waiting.take(2).ends == {}
    assert waiting.take(2).ends == {OTHER: 7}
    assert (len(waiting), waiting.take(9).ends) == (0, {})


def test_records_of_a_dropped_partition_are_removed_within_a_batch(waiting: WaitingRecords) -> None:
    waiting.add(read(*unread(ONE, batch(0, 5)), *unread(OTHER, batch(0, 5)), one=9, other=9))
    assert list(waiting.take(2).offsets) == [0, 1]
    waiting.drop([OTHER])
    assert len(waiting) == 3
    left = waiting.take(9)
    assert (set(left.places), list(left.offsets), left.ends) == ({ONE}, [2, 3, 4], {ONE: 9})
    waiting.add(read(*unread(ONE, batch(0, 5)), one=9))
    waiting.take(2)
    waiting.drop([ONE])
    assert (len(waiting), len(waiting.take(9))) == (0, 0)


def test_missing_keys_headers_and_timestamps_are_none(waiting: WaitingRecords) -> None:
    records = [
        Kept(0, PlainRecord(None, b"a", -1)),
        Kept(1, PlainRecord(None, None, 5)),
        Kept(2, PlainRecord(b"k", b"c", 6, (("h", b"x"),))),
    ]
    waiting.add(read(*unread(ONE, kept_batch(7, records, -1))))
    first = waiting.take(2)
    assert isinstance(first.keys, Repeated)
    assert isinstance(first.values, BinaryColumn)
    assert (list(first.keys), list(first.values), first.headers) == ([None, None], [b"a", None], None)
    assert first.timestamps == [None, 5]
    last = waiting.take(2)
    assert isinstance(last.keys, BinaryColumn)
    assert (list(last.keys), last.timestamps, last.headers) == ([b"k"], [6], [(("h", b"x"),)])


def test_records_of_a_log_append_time_batch_have_its_append_time(waiting: WaitingRecords) -> None:
    records = [Kept(n, PlainRecord(None, b"a", 5)) for n in range(2)]
    created = kept_batch(2, [Kept(0, PlainRecord(None, b"b", 6))], 6)
    log = kept_batch(0, records, 5, newest=77, attributes=_LOG_APPEND_TIME) + created
    waiting.add(read(*unread(ONE, log)))
    found = waiting.take(9).timestamps
    assert found == [77, 77, 6]
    assert [type(each) for each in found] == [AppendTime, AppendTime, int]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_batches_from_before_kafka_0_11_are_read_with_or_without_timestamps(magic: int, codec: str) -> None:
    waiting = WaitingRecords()
    waiting.add(read(*unread(ONE, old_log(30, 12, magic, codec), wanted=32)))
    found = waiting.take(50)
    assert list(found.values) == [b"v%d" % n for n in range(2, 12)]
    assert found.offsets == list(range(32, 42))
    assert found.timestamps == ([1_000 + n for n in range(2, 12)] if magic else [None] * 10)


@pytest.mark.parametrize("codec", CODECS)
def test_old_messages_have_the_append_time_of_the_broker(codec: str) -> None:
    waiting = WaitingRecords()
    waiting.add(read(*unread(ONE, old_log(0, 3, 1, codec, is_appended=True))))
    found = waiting.take(50).timestamps
    assert found == [APPEND_MS] * 3
    assert {type(each) for each in found} == {AppendTime}


def test_old_lz4_frame_with_the_size_of_its_content_is_read() -> None:
    waiting = WaitingRecords()
    waiting.add(read(*unread(ONE, old_log(0, 3, 0, "lz4", is_sized=True))))
    assert list(waiting.take(50).values) == [b"v0", b"v1", b"v2"]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_old_message_with_a_changed_byte_is_refused(magic: int, codec: str) -> None:
    log = bytearray(old_log(0, 3, magic, codec))
    log[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="a checksum is wrong"):
        WaitingRecords().add(read(*unread(ONE, bytes(log))))


def test_error_of_an_undecodable_batch_names_its_partition(waiting: WaitingRecords) -> None:
    entries = [*unread(OTHER, batch(0, 3)), *unread(ONE, headed(5, 1, b"\x99" * 9, 2))]
    with pytest.raises(CorruptBatchError, match=r"t-0: The records of the batch(es)? at offsets? 5.* cannot be read"):
        waiting.add(read(*entries))


def test_batches_too_large_for_one_column_are_decoded_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that were sent in a few bytes may hold more than a column does."""
    monkeypatch.setattr(decode_columns, "_MOST_BYTES", 250)
    waiting = WaitingRecords(few=0)
    waiting.add(read(*unread(ONE, batch(0, 20) + batch(20, 20))))
    assert list(waiting.take(100).offsets) == list(range(40))
