"""What a stream plans, against the real broker: each offset in one micro-batch, whatever is done again."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from fencepost.config import ConfigError
from fencepost.kafka.errors import DataLossError
from fencepost.spark.kafka_read.options import KafkaReadConfig
from fencepost.spark.kafka_read.stream import KafkaStreamReader
from fencepost.testing import eventually
from support.log_writer import LogWriter

Stream = Callable[..., "Running"]


class Running:
    """A stream's reader as Spark calls it; what it says goes through JSON, as in a checkpoint."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self.reader = KafkaStreamReader(KafkaReadConfig.of(options), {"value": "binary"})

    def initial(self) -> Any:
        return _stored(self.reader.initialOffset())

    def latest(self, start: Any, *, is_all: bool = False) -> Any:
        limit = ReadAllAvailable() if is_all else self.reader.getDefaultReadLimit()
        return _stored(self.reader.latestOffset(_stored(start), limit))

    def ranges(self, start: Any, end: Any) -> dict[tuple[str, int], tuple[int, int]]:
        planned = [each.value for each in self.reader.partitions(_stored(start), _stored(end))]
        return {(r.place.topic, r.place.partition): (r.start, r.end) for r in planned}


def _stored(progress: Any) -> Any:
    return json.loads(json.dumps(progress))


@pytest.fixture
def stream(log_writer: LogWriter, topic_name: str) -> Stream:
    def begin(**options: str) -> Running:
        chosen = {} if "subscribePattern" in options else {"subscribe": topic_name}
        return Running({"kafka.bootstrap.servers": log_writer.bootstrap} | chosen | options)

    return begin


def test_batches_follow_one_another_without_a_gap(log_writer: LogWriter, topic_name: str, stream: Stream) -> None:
    topic = log_writer.topic(topic_name, 2)
    log_writer.send(topic, ["a", "b"])
    running = stream(startingOffsets="earliest")
    initial = running.initial()
    first = running.latest(initial)
    assert running.ranges(initial, first) == {(topic, 0): (0, 2)}
    assert running.latest(first) == first  # nothing new: the very same, or there would be an empty batch each time
    log_writer.send(topic, ["c"], partition=1)
    second = running.latest(first)
    assert second[topic] == {"0": 2, "1": 1}
    assert running.ranges(first, second) == {(topic, 1): (0, 1)}
    assert running.ranges(second, second) == {}


def test_repeated_first_batch_is_the_same_after_new_records(
    log_writer: LogWriter, topic_name: str, stream: Stream
) -> None:
    """Spark keeps the end of a batch, and asks anew where the first one begins: at the latest, that is elsewhere."""
    topic = log_writer.topic(topic_name)
    log_writer.send(topic, ["old"] * 3)
    running = stream()
    initial = running.initial()
    log_writer.send(topic, ["new"] * 2)
    first = running.latest(initial)
    assert running.ranges(initial, first) == {(topic, 0): (3, 5)}
    log_writer.send(topic, ["newer"] * 4)
    again = stream()
    assert again.ranges(again.initial(), first) == {(topic, 0): (3, 5)}
    assert again.ranges(first, again.latest(first)) == {(topic, 0): (5, 9)}
    empty = stream()
    begun = empty.initial()
    log_writer.send(topic, ["newest"])
    assert empty.ranges(empty.initial(), begun) == {}  # a first batch that was empty stays so


def test_new_partitions_and_topics_are_read_from_their_beginning(
    log_writer: LogWriter, topic_name: str, stream: Stream
) -> None:
    topic = log_writer.topic(f"{topic_name}-a")
    running = stream(subscribePattern=f"{topic_name}-.*")
    initial = running.initial()
    first = running.latest(initial)
    fresh = log_writer.topic(f"{topic_name}-b", 2)
    log_writer.send(fresh, ["x"] * 3, partition=1)
    second = running.latest(first)
    assert running.ranges(first, second) == {(fresh, 1): (0, 3)}
    assert stream(subscribePattern=f"{topic_name}-.*").ranges(first, second) == {(fresh, 1): (0, 3)}
    assert running.latest(second) == second
    log_writer.send(topic, ["y"])
    assert running.ranges(second, running.latest(second)) == {(topic, 0): (0, 1)}


def test_batch_ends_before_an_open_transaction(log_writer: LogWriter, topic_name: str, stream: Stream) -> None:
    topic = log_writer.topic(topic_name)
    committed, all_of_it = (
        stream(startingOffsets="earliest"),
        stream(startingOffsets="earliest", **{"kafka.isolation.level": "read_uncommitted"}),
    )
    initial = committed.initial()
    with log_writer.transaction() as producer:
        producer.produce(topic, "x")
        producer.flush(60)
        assert committed.ranges(initial, committed.latest(initial)) == {}
        assert all_of_it.ranges(initial, all_of_it.latest(initial)) == {(topic, 0): (0, 1)}
    log_writer.settle([topic])
    assert committed.ranges(initial, committed.latest(initial)) == {(topic, 0): (0, 2)}


def test_batch_size_respects_minimum_and_maximum_offsets_per_trigger(
    log_writer: LogWriter, topic_name: str, stream: Stream
) -> None:
    topic = log_writer.topic(topic_name, 2)
    log_writer.send(topic, ["x"] * 90)
    log_writer.send(topic, ["x"] * 10, partition=1)
    running = stream(startingOffsets="earliest", maxOffsetsPerTrigger="20")
    initial = running.initial()
    first = running.latest(initial)
    assert running.ranges(initial, first) == {(topic, 0): (0, 18), (topic, 1): (0, 2)}
    assert running.ranges(first, running.latest(first, is_all=True)) == {(topic, 0): (18, 90), (topic, 1): (2, 10)}
    patient = stream(startingOffsets="earliest", minOffsetsPerTrigger="101")
    assert patient.latest(initial) == initial
    log_writer.send(topic, ["x"])
    assert patient.ranges(initial, patient.latest(initial)) == {(topic, 0): (0, 91), (topic, 1): (0, 10)}
    hurried = stream(startingOffsets="earliest", minOffsetsPerTrigger="1000", maxTriggerDelay="1ms")
    eventually(lambda: hurried.latest(initial) != initial)


def test_available_now_trigger_ends_at_the_offsets_of_its_start(
    log_writer: LogWriter, topic_name: str, stream: Stream
) -> None:
    topic = log_writer.topic(topic_name)
    log_writer.send(topic, ["x"] * 5)
    running = stream(startingOffsets="earliest", maxOffsetsPerTrigger="3", minOffsetsPerTrigger="3")
    running.reader.prepareForTriggerAvailableNow()
    log_writer.send(topic, ["late"] * 5)
    steps = [running.initial()]
    while len(steps) < 2 or steps[-1] != steps[-2]:
        steps.append(running.latest(steps[-1]))
    ranges = [running.ranges(a, b) for a, b in pairwise(steps)]
    assert ranges == [{(topic, 0): (0, 3)}, {(topic, 0): (3, 5)}, {}]


def test_stream_continues_from_a_checkpoint_of_sparks_own_source(
    log_writer: LogWriter, topic_name: str, stream: Stream
) -> None:
    topic = log_writer.topic(topic_name, 2)
    log_writer.send(topic, ["x"] * 5)
    log_writer.send(topic, ["x"] * 2, partition=1)
    running = stream()
    theirs = {topic: {"0": 3}}
    assert running.ranges(theirs, running.latest(theirs)) == {(topic, 0): (3, 5), (topic, 1): (0, 2)}
    assert running.ranges(theirs, {topic: {"0": 4, "1": 1}}) == {(topic, 0): (3, 4), (topic, 1): (0, 1)}


@pytest.mark.parametrize("tolerates", [False, True])
def test_data_loss_fails_the_stream_unless_fail_on_data_loss_is_false(
    log_writer: LogWriter, topic_name: str, stream: Stream, tolerates: bool
) -> None:
    topic = log_writer.topic(topic_name)
    log_writer.send(topic, ["x"] * 5)
    running = stream(startingOffsets="earliest", failOnDataLoss=str(not tolerates))
    initial = running.initial()
    first = running.latest(initial)
    log_writer.truncate(topic, 2)
    log_writer.recreate(f"{topic}-other")  # no business of the stream's
    if tolerates:
        assert running.ranges(initial, first) == {(topic, 0): (2, 5)}
    else:
        with pytest.raises(DataLossError, match="offsets 0 to 1 are gone, the log begins at 2"):
            running.ranges(initial, first)
    log_writer.recreate(topic)
    log_writer.send(topic, ["y"])
    if tolerates:
        second = running.latest(first)
        assert running.ranges(first, second) == {(topic, 0): (0, 1)}
        assert running.latest(second) == second
    else:
        for again in (running, stream()):
            with pytest.raises(DataLossError, match=r"was deleted and created again"):
                again.latest(first)
    log_writer.admin.topics.delete([topic])
    eventually(lambda: log_writer.admin.topics.get(topic) is None)
    if tolerates:
        assert running.ranges(first, running.latest(first)) == {}
    else:
        with pytest.raises(DataLossError, match="there is no such topic or partition any more"):
            stream().latest(first)


def test_missing_topic_is_refused_with_its_name(stream: Stream) -> None:
    with pytest.raises(ConfigError, match=r"option subscribe names what does not exist: topic nowhere"):
        stream(subscribe="nowhere").initial()


def test_options_for_batches_are_refused_in_a_stream() -> None:
    with pytest.raises(ConfigError, match="option endingOffsets is for batches"):
        Running({"kafka.bootstrap.servers": "x:1", "subscribe": "t", "endingOffsets": "latest"})
    with pytest.raises(ConfigError, match="option minOffsetsPerTrigger is more than maxOffsetsPerTrigger"):
        Running(
            {
                "kafka.bootstrap.servers": "x:1",
                "subscribe": "t",
                "minOffsetsPerTrigger": "9",
                "maxOffsetsPerTrigger": "1",
            }
        )
