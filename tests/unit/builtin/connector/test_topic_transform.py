"""Where TopicTransform sends records, and which configs it refuses."""

from typing import Any

import pytest

from fencepost.api import ConfigError, SinkBatch, SinkRecord, TopicPartition
from fencepost.builtin.connector.topic import TopicTransformConnector, TopicTransformTask


class Context:
    def __init__(self) -> None:
        self.reported: list[SinkRecord] = []

    def report(self, record: SinkRecord, error: Exception) -> None:
        self.reported.append(record)


def task(**settings: str) -> tuple[TopicTransformTask, Context]:
    made, context = TopicTransformTask(), Context()
    properties = {key.replace("__", "."): value for key, value in settings.items()}
    made.initialize(context, TopicTransformConnector({"topics": "a,b", **properties}))  # type: ignore[arg-type]
    return made, context


def batch(*values: Any, topic: str = "a") -> SinkBatch:
    records = [SinkRecord(topic, 3, n, value, at=TopicPartition(topic, 3)) for n, value in enumerate(values)]
    return SinkBatch.of_records(records)


def targets(result: Any) -> list[tuple[str, int | None, Any]]:
    return [(record.topic, record.kafka_partition, record.value) for record in result]


def test_topic_transform_moves_records_without_decoding_values() -> None:
    given = batch(b"1", b"2")
    moved = task(output__topic="out")[0].process(given)
    assert isinstance(moved, SinkBatch)
    assert moved.values is given.values
    assert targets(moved) == [("out", None, b"1"), ("out", None, b"2")]


def test_output_topic_name_may_contain_the_input_topic_name() -> None:
    mixed = SinkBatch.of_records([*batch(1), *batch(2, topic="b")])
    made, _ = task(output__topic="${topic}-out", output__partition__kept="true")
    assert targets(made.process(mixed)) == [("a-out", 3, 1), ("b-out", 3, 2)]


def test_output_topic_is_read_from_a_field_and_records_without_it_are_reported() -> None:
    made, context = task(output__topic__field="to")
    given = batch({"to": "x"}, {"to": 1}, {"to": "y"}, None, "text")
    assert targets(made.process(given)) == [("x", None, {"to": "x"}), ("y", None, {"to": "y"})]
    assert [record.kafka_offset for record in context.reported] == [1, 3, 4]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "set either output.topic or output.topic.field"),
        ({"output__topic": "x", "output__topic__field": "y"}, "set either"),
    ],
)
def test_topic_transform_refuses_settings_without_a_valid_output_topic(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        task(**settings)


@pytest.mark.parametrize(
    ("pattern", "of_all", "of_a"), [("out", "out", "out"), ("${topic}", None, "a"), ("to-${topic}", None, "to-a")]
)
def test_output_topic_is_known_from_the_config_unless_a_field_names_it(
    pattern: str, of_all: str | None, of_a: str
) -> None:
    connector = task(output__topic=pattern)[0].config
    assert (connector.output_topic(None), connector.output_topic("a")) == (of_all, of_a)
    assert task(output__topic__field="to")[0].config.output_topic("a") is None
