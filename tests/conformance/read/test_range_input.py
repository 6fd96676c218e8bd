"""A range of a partition, read from the real broker: all of it, nothing else, and never in silence."""

import logging
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from fencepost.kafka.codec.decode_columns import DecodedColumns, decoded_columns
from fencepost.kafka.codec.encode_header import CorruptBatchError
from fencepost.kafka.errors import (
    DataLossError,
    KafkaAuthorizationError,
    KafkaRequestError,
    KafkaUnavailableError,
    ReadTimeoutError,
)
from fencepost.kafka.read import consumer, range_input
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.browse import TopicBrowser
from fencepost.kafka.read.range_input import RangeInput
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.kafka.value.position import LogPosition, LogRange
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.batch_topic import ODD_HEADERS, odd_records, write_batch
from support.log_writer import LogWriter
from support.worker import free_port

Read = Callable[..., list[str]]


@pytest.fixture
def topic(log_writer: LogWriter, topic_name: str) -> str:
    return log_writer.topic(topic_name)


_NOW_MS = 1_750_000_000_000

IN_BATCHES: Mapping[str, str] = {}
BY_CLIENT: Mapping[str, str] = {"client.rack": "here"}  # a setting that only librdkafka has


@pytest.fixture(params=[IN_BATCHES, BY_CLIENT], ids=["in batches", "by the client"])
def way(request: pytest.FixtureRequest) -> Mapping[str, str]:
    way: Mapping[str, str] = request.param
    return way


@pytest.fixture
def soon_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what is lost be taken for lost soon; a broker that is slow has all the time that it has otherwise."""
    monkeypatch.setattr(range_input, "SURE_S", 0.7)


def batches_of(log_writer: LogWriter, topic: str, start: int, end: int, way: Mapping[str, str]) -> Generator[Any]:
    conf = range_conf({"bootstrap.servers": log_writer.bootstrap, **way}, "test").conf
    return RangeInput(conf, LogRange(TopicPartition(topic, 0), start, end)).batches()


@pytest.fixture
def read(log_writer: LogWriter, topic: str, way: Mapping[str, str]) -> Read:
    def read_range(start: int, end: int, *, topic_id: str = "", level: str = "read_committed", **how: Any) -> list[str]:
        conf = range_conf({"bootstrap.servers": log_writer.bootstrap, "isolation.level": level, **way}, "test").conf
        reader = RangeInput(conf, LogRange(TopicPartition(topic, 0), start, end, topic_id), **how)
        return [value.decode() for batch in reader.batches() for value in batch.column("value").to_pylist()]

    return read_range


def test_a_range_is_read_from_its_start_to_before_its_end(log_writer: LogWriter, topic: str, read: Read) -> None:
    log_writer.send(topic, [str(n) for n in range(2_000)])
    assert read(0, 2_000) == [str(n) for n in range(2_000)]
    assert read(3, 5) == ["3", "4"]
    assert read(1_999, 2_000) == ["1999"]
    assert read(7, 7) == []


def test_range_ends_are_reached_at_markers_and_aborted_records(log_writer: LogWriter, topic: str, read: Read) -> None:
    """0-1 committed, 2 its marker, 3-4 aborted, 5 its marker, 6 committed, 7 its marker."""
    log_writer.write(topic, ["a", "b"])
    log_writer.write(topic, ["x", "y"], is_committed=False)
    log_writer.write(topic, ["c"])
    log_writer.settle([topic])
    every = {(start, end): read(start, end) for start in range(8) for end in range(start + 1, 9)}
    kept = {0: "a", 1: "b", 6: "c"}
    assert every == {(s, e): [kept[n] for n in range(s, e) if n in kept] for s, e in every}
    assert read(0, 8, level="read_uncommitted") == ["a", "b", "x", "y", "c"]


@pytest.mark.parametrize("is_committed_in", [(5_001,), (2_600, 1, 2_400)], ids=["no gap", "gaps"])
def test_records_have_their_own_offsets(
    log_writer: LogWriter, topic: str, way: Mapping[str, str], is_committed_in: tuple[int, ...]
) -> None:
    """Of several lots of messages, which markers of transactions may lie between."""
    expected: list[tuple[int, str]] = []
    for number, count in enumerate(is_committed_in):  # so many markers come before
        values = [str(len(expected) + n) for n in range(count)]
        log_writer.write(topic, values)
        expected += [(int(value) + number, value) for value in values]
    found = [
        (row["offset"], row["value"].decode())
        for batch in batches_of(log_writer, topic, 3, expected[-1][0], way)
        for row in batch.to_pylist()
    ]
    assert found == expected[3:-1]


def test_no_librdkafka_client_is_made_when_batches_can_be_read(
    log_writer: LogWriter, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a client was made")

    log_writer.write(topic, [str(n) for n in range(3_000)])
    log_writer.write(topic, ["x"], is_committed=False)
    log_writer.write(topic, ["y"])
    monkeypatch.setattr(consumer, "new_client", refuse)
    rows = [row for batch in batches_of(log_writer, topic, 3, 3_005, IN_BATCHES) for row in batch.to_pylist()]
    assert [(row["offset"], row["value"].decode()) for row in rows] == [(n, str(n)) for n in range(3, 3_000)] + [
        (3_003, "y")
    ]
    with pytest.raises(AssertionError, match="a client was made"):
        next(batches_of(log_writer, topic, 3, 3_000, BY_CLIENT))


def test_batches_that_cannot_be_decoded_together_are_decoded_in_portions(
    log_writer: LogWriter, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lots = 0

    def decoded(batches: Sequence[memoryview], wanted: Collection[str]) -> DecodedColumns:
        nonlocal lots
        lots += 1
        if lots > 1:
            raise CorruptBatchError("too large")
        return decoded_columns(batches, wanted)

    log_writer.send(topic, [str(n) for n in range(25_000)])
    monkeypatch.setattr(range_input, "decoded_columns", decoded)
    monkeypatch.setattr(range_input, "ROWS", 1_000)
    batches = list(batches_of(log_writer, topic, 0, 25_000, IN_BATCHES))
    assert lots >= 2
    assert [value.decode() for batch in batches for value in batch.column("value").to_pylist()] == [
        str(n) for n in range(25_000)
    ]


def test_range_is_read_on_after_a_failure_that_passes(
    log_writer: LogWriter, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, failures = BatchReader.read, [KafkaUnavailableError("for now")]

    def fail_once(*asked: Any) -> Any:
        if failures:
            raise failures.pop()
        return read(*asked)

    log_writer.send(topic, ["a", "b"])
    monkeypatch.setattr(BatchReader, "read", fail_once)
    batches = batches_of(log_writer, topic, 0, 2, IN_BATCHES)
    assert [value for batch in batches for value in batch.column("value").to_pylist()] == [b"a", b"b"]
    assert not failures


@pytest.mark.parametrize("error", [KafkaRequestError("no", 1), KafkaAuthorizationError("no")], ids=repr)
def test_refusal_ends_the_reading_of_a_range(
    log_writer: LogWriter, topic: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(BatchReader, "read", refuse)
    with pytest.raises(type(error), match="no"):
        list(batches_of(log_writer, topic, 0, 2, IN_BATCHES))


def test_timestamp_out_of_the_columns_range_is_null_and_its_record_is_read(
    log_writer: LogWriter, topic_name: str, way: Mapping[str, str]
) -> None:
    """Such as nanoseconds, of a producer that takes them for milliseconds."""
    configs = {"message_timestamp_after_max_ms": str(2**63 - 1), "retention_ms": "-1"}
    topic = log_writer.topic(f"{topic_name}-wild", **configs)
    for time_ms in (_NOW_MS, _NOW_MS * 10**6, 0x20_C49B_A5E3_53F7, 0x20_C49B_A5E3_53F8):
        log_writer.send(topic, ["v"], timestamp=time_ms)
    batches = batches_of(log_writer, topic, 0, 4, way)
    times = [time for batch in batches for time in batch.column("timestamp").cast(pa.int64()).to_pylist()]
    assert times == [_NOW_MS * 1_000, None, 0x20_C49B_A5E3_53F7 * 1_000, None]
    browser = TopicBrowser(range_conf({"bootstrap.servers": log_writer.bootstrap, **way}, "test").conf, topic)
    assert [record.timestamp_ms for record in browser.read({0: (0, 4)})] == [_NOW_MS, None, 0x20_C49B_A5E3_53F7, None]


def test_the_name_of_a_header_that_is_not_utf_8_is_read_as_java_reads_it(
    log_writer: LogWriter, topic: str, way: Mapping[str, str]
) -> None:
    write_batch(log_writer.bootstrap, topic, odd_records())
    browser = TopicBrowser(range_conf({"bootstrap.servers": log_writer.bootstrap, **way}, "test").conf, topic)
    assert [record.headers for record in browser.read({0: (0, 4)})] == ODD_HEADERS


def test_log_cut_below_the_records_already_read_is_a_data_loss(
    log_writer: LogWriter, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a broker that says so; what comes with that was read before."""
    place, ask = TopicPartition(topic, 0), BatchReader.read

    def cut(reader: BatchReader, *asked: Any) -> Any:
        found = ask(reader, *asked)
        found.cut[place] = LogPosition(1)
        return found

    log_writer.send(topic, ["a"])
    log_writer.send(topic, ["b"])
    monkeypatch.setattr(BatchReader, "read", cut)
    monkeypatch.setattr(range_input, "ROWS", 1)
    with pytest.raises(DataLossError, match="what was read is gone: an unclean leader election"):
        list(batches_of(log_writer, topic, 0, 2, IN_BATCHES))


def test_time_out_error_names_the_open_transaction(log_writer: LogWriter, topic: str, read: Read) -> None:
    log_writer.write(topic, ["a"])
    with log_writer.transaction() as producer:
        producer.produce(topic, "b")
        producer.flush(60)
        ends_at(
            lambda idle_s: read(0, 3, idle_s=idle_s), "at offset 2: a transaction that wrote to it may still be open"
        )
    assert read(0, 3) == ["a", "b"]


def test_time_out_error_names_the_unreachable_broker(topic: str, way: Mapping[str, str]) -> None:
    conf = range_conf({"bootstrap.servers": f"127.0.0.1:{free_port()}", **way}, "test").conf
    wanted = LogRange(TopicPartition(topic, 0), 0, 1)
    ends_at(lambda idle_s: list(RangeInput(conf, wanted, idle_s=idle_s).batches()), "the broker cannot be reached")


def ends_at(read: Callable[[float], object], why: str) -> None:
    """Check that a read of a time ends with this error. A slow machine may not get so far in a second."""

    def said(idle_s: float) -> str:
        with pytest.raises(ReadTimeoutError) as raised:
            read(idle_s)
        return str(raised.value)

    found = next((text for text in map(said, (1.0, 5.0, 25.0)) if why in text), "")
    assert found, why


def test_a_range_that_begins_below_the_log_is_refused_or_cut_with_a_warning(
    log_writer: LogWriter, topic: str, read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    log_writer.send(topic, [str(n) for n in range(10)])
    log_writer.truncate(topic, 4)
    with pytest.raises(DataLossError, match=r"offsets 0 to 3 are gone: the log begins at 4 now.*failOnDataLoss"):
        read(0, 10)
    with pytest.raises(DataLossError, match="offsets 1 to 2 are gone"):
        read(1, 3)
    assert read(4, 10) == ["4", "5", "6", "7", "8", "9"]
    with caplog.at_level(logging.WARNING):
        assert read(0, 6, fails_on_loss=False) == ["4", "5"]
        assert read(1, 3, fails_on_loss=False) == []
    assert "the log begins at 4 now" in caplog.text


@pytest.mark.usefixtures("soon_sure")
def test_a_range_that_ends_beyond_the_log_is_refused_or_cut(log_writer: LogWriter, topic: str, read: Read) -> None:
    log_writer.send(topic, ["a", "b"])
    with pytest.raises(DataLossError, match=r"the log ends at 2: it was truncated, or the topic was created again"):
        read(0, 3)
    with pytest.raises(DataLossError, match="the log ends at 2"):
        read(5, 9)
    assert read(0, 3, fails_on_loss=False) == ["a", "b"]
    assert read(5, 9, fails_on_loss=False) == []


@pytest.mark.usefixtures("soon_sure")
def test_recreated_topic_is_noticed_when_it_has_the_offsets(
    log_writer: LogWriter, topic: str, read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    """The client itself goes on in the new topic without a word. Its records are never those of the range."""
    log_writer.send(topic, ["old"])
    found = log_writer.admin.topics.get(topic)
    assert found is not None
    assert read(0, 1, topic_id=found.id) == ["old"]
    log_writer.recreate(topic)
    log_writer.send(topic, ["new"])
    with pytest.raises(DataLossError, match="was deleted and created again before it was read"):
        read(0, 1, topic_id=found.id)
    assert read(0, 1, topic_id=found.id, fails_on_loss=False) == []
    log_writer.admin.topics.delete([topic])
    eventually(lambda: log_writer.admin.topics.get(topic) is None)
    with pytest.raises(DataLossError, match="there is no such topic or partition any more"):
        read(0, 1)


def test_large_values_come_in_batches_that_fit_the_memory(
    log_writer: LogWriter, topic_name: str, topic: str, way: Mapping[str, str]
) -> None:
    large = log_writer.topic(f"{topic_name}-large", max_message_bytes="4000000")
    log_writer.send(large, ["x" * 3_000_000] * 12)
    conf = range_conf({"bootstrap.servers": log_writer.bootstrap, **way}, "test").conf
    batches = list(RangeInput(conf, LogRange(TopicPartition(large, 0), 0, 12)).batches())
    assert sum(batch.num_rows for batch in batches) == 12
    assert len(batches) > 1
