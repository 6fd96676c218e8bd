"""No record goes to a topic that is closed to connectors, wherever the record says so."""

from dataclasses import replace
from typing import Any

import pytest

from fencepost.api import FatalError
from fencepost.builtin.converter.plain import ByteArrayConverter, SimpleHeaderConverter, StringConverter
from fencepost.builtin.transform.chain import Chain
from fencepost.config.cluster import ClosedTopics
from fencepost.hook.hosted_task import HostedBatch
from fencepost.kafka.codec.committed import CopiedBatch
from fencepost.kafka.codec.decode import DecodedRecord, encoded
from fencepost.kafka.value.whole import PolledBatches, WholeBatches, WholeFetched
from fencepost.record import Batch, PositionColumn, Repeated, TopicPartition
from fencepost.task.channel.task_spec import ClosedSpec, LookUpSpec, TaskSpec
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.sink.reader import OutputGuard, ReadTopics
from fencepost.task.source.mixed_processing import MixedProcessor, source_processor
from fencepost.task.source.processing import Processor
from support.hosted_parts import FarSide

NAMES = ("connect-configs", "connect-offsets", "connect-status")
ROUTER = {
    "transforms": "r",
    "transforms.r.type": "RegexRouter",
    "transforms.r.regex": "to-(.*)",
    "transforms.r.replacement": "$1",
}
FAR = {"transforms": "u", "transforms.u.type": "FarUpper"}
FAR_THEN_ROUTER = {**ROUTER, "transforms": "u,r", "transforms.u.type": "FarUpper"}


def processor(config: dict[str, str], *, tolerates_all: bool = True, converter: type[Any] = StringConverter) -> Any:
    spec = TaskSpec("c", 0, 1, "i", {}, {}, look_up=LookUpSpec(closed=ClosedSpec(writes=NAMES)))
    tolerance = Tolerance(tolerates_all, 0, 1, False, False, Control(is_paused=False), "c-0")
    key, value = (converter({"converter.type": each}) for each in ("key", "value"))
    chain = Chain.from_config(config, FarSide().find)
    return source_processor(spec, (chain, key, value, SimpleHeaderConverter({}), tolerance), config)


def records(*topics: str) -> Batch:
    return Batch(
        list(topics),
        [f"v{n}" for n in range(len(topics))],
        Repeated({"p": 1}, len(topics)),
        [{"n": n} for n in range(len(topics))],
    )


@pytest.mark.parametrize("config", [ROUTER, FAR_THEN_ROUTER], ids=["columns", "mixed"])
@pytest.mark.parametrize("topic", [*NAMES, "__consumer_offsets"])
def test_record_is_dropped_when_a_transform_routes_it_to_a_closed_topic(config: dict[str, str], topic: str) -> None:
    made = processor(config)
    assert isinstance(made, MixedProcessor) is (config is FAR_THEN_ROUTER)
    sent = made.process(records("to-orders", f"to-{topic}", "to-carts"))
    assert (list(sent.topics), list(sent.sources)) == (["orders", "carts"], [0, 2])
    assert made.tolerance.counters.skipped == 1


@pytest.mark.parametrize("config", [{}, FAR], ids=["columns", "mixed"])
def test_record_is_dropped_when_the_task_itself_names_a_closed_topic(config: dict[str, str]) -> None:
    sent = processor(config).process(records("orders", "connect-configs"))
    assert (list(sent.topics), list(sent.sources)) == (["orders"], [0])


@pytest.mark.parametrize("config", [{}, FAR], ids=["columns", "mixed"])
def test_task_fails_for_a_closed_topic_when_errors_are_not_tolerated(config: dict[str, str]) -> None:
    with pytest.raises(FatalError, match="it would go to topic connect-configs: this topic is the workers'"):
        processor(config, tolerates_all=False).process(records("orders", "connect-configs"))


def test_record_is_dropped_when_another_process_sends_it_to_a_closed_topic() -> None:
    batch = HostedBatch.of(replace(records("orders", "connect-offsets"), values=[b"0", b"1"]), [])
    sent = processor({}, converter=ByteArrayConverter).process(batch)
    assert (list(sent.topics), list(sent.sources)) == (["orders"], [0])


def test_whole_batches_are_not_sent_when_their_topic_is_closed() -> None:
    copy = CopiedBatch(encoded([DecodedRecord(4, 5, b"k", b"a")], 0, 0), [4])
    fetched = WholeFetched(WholeBatches([(TopicPartition("s", 3), copy)]))
    batch = PolledBatches(
        Repeated("connect-configs", 1),
        fetched.values,
        Repeated({"p": 3}, 1),
        PositionColumn("offset", fetched.offsets),
        keys=fetched.keys,
        kafka_partitions=Repeated(3, 1),
        headers=fetched.headers,
        batches=fetched.batches,
    )
    assert len(processor({}, converter=ByteArrayConverter).process(batch)) == 0


def test_topics_of_another_cluster_with_closed_names_are_open() -> None:
    made: Processor = processor({})
    made.closed = ClosedTopics()
    assert list(made.process(records("connect-configs", "__consumer_offsets")).topics) == [
        "connect-configs",
        "__consumer_offsets",
    ]


def test_pattern_leaves_closed_topics_out_when_it_matches_them() -> None:
    read = ReadTopics((), ".*", ClosedTopics(NAMES))
    topics = [*NAMES, "__consumer_offsets", "__debezium-heartbeat.shop", "__audit", "orders"]
    assert [topic for topic in topics if read.has(topic)] == ["__debezium-heartbeat.shop", "__audit", "orders"]
    assert all(map(ReadTopics((), ".*").has, topics))


def test_stream_fails_when_its_output_would_go_to_a_closed_topic() -> None:
    spec = TaskSpec("c", 0, 1, "i", {}, {}, look_up=LookUpSpec(closed=ClosedSpec(writes=NAMES)))
    for guard in (OutputGuard.of(spec), OutputGuard.from_json(OutputGuard.of(spec).to_json())):
        guard.ensure_open(["orders"])
        with pytest.raises(FatalError, match="a record would go to topic connect-status"):
            guard.ensure_open(["orders", "connect-status"])
