"""TopicTransform and TopicSql: topics to topics of a cluster, record by record or by a query, each exactly once."""

from collections.abc import Mapping
from typing import Any

from fencepost.api import (
    HIGH,
    LOW,
    MEDIUM,
    DataFrameStream,
    RecordError,
    Repeated,
    SinkBatch,
    SinkRecord,
    StreamConnector,
    StreamTask,
    setting,
)

_SOURCE = "${topic}"


class TopicTransformTask(StreamTask):
    """Chooses the topic of each record; transforms and converters on both sides do everything else."""

    config: "TopicTransformConnector"

    def process(self, batch: SinkBatch) -> SinkBatch | list[SinkRecord]:
        if self.config.topic_field is not None:
            return [moved for moved in map(self._by_field, batch) if moved is not None]
        pattern = str(self.config.topic)
        if _SOURCE not in pattern:
            topics: Any = pattern
        elif isinstance(batch.topics, Repeated):
            topics = pattern.replace(_SOURCE, batch.topics.value)
        else:
            topics = [pattern.replace(_SOURCE, topic) for topic in batch.topics]
        if not self.config.keeps_partition:
            return batch.to(topics)
        return batch.to(topics, partitions=[place.partition for place in batch.places])

    def _by_field(self, record: SinkRecord) -> SinkRecord | None:
        try:
            topic = _named(record.value, str(self.config.topic_field))
        except RecordError as error:
            self.context.report(record, error)
            return None
        place = record.at if self.config.keeps_partition else None
        return record.to(topic, kafka_partition=None if place is None else place.partition)


def _named(value: Any, field: str) -> str:
    topic = value.get(field) if isinstance(value, Mapping) else None
    if not isinstance(topic, str) or not topic:
        raise RecordError(f"the value has no text in field {field}, from which the topic is taken (output.topic.field)")
    return topic


class TopicTransformConnector(StreamConnector):
    """Writes the records of topics to other topics of the same cluster, exactly once.

    Transforms and converters change records on input (`transforms`, `value.converter`) and on output
    (`output.transforms`, `output.value.converter`). Keys, timestamps and headers stay as these leave them.
    """

    task = TopicTransformTask

    topic: str | None = setting(
        "output.topic",
        default=None,
        importance=HIGH,
        doc="The topic that records go to; ${topic} stands for the one that a record comes from.",
    )
    topic_field: str | None = setting(
        "output.topic.field",
        default=None,
        importance=MEDIUM,
        doc="A field of the value, which names the topic of each record. This or output.topic.",
    )
    keeps_partition: bool = setting(
        "output.partition.kept",
        default=False,
        importance=LOW,
        doc="Whether a record goes to the partition of the same number as it comes from, of which its topic must have "
        "enough, and not to one by its key: records without keys keep their order then.",
    )

    def check_together(self) -> list[str]:
        """Require exactly one way to name a topic."""
        names, field = type(self).key_of("topic"), type(self).key_of("topic_field")
        if (self.topic is None) is (self.topic_field is None):
            return [f"{names}: set either {names} or {field}, which say where records go"]
        return []

    def output_topic(self, topic: str | None) -> str | None:
        """Return the topic that `output.topic` gives for an input topic."""
        if self.topic is None or _SOURCE not in self.topic:
            return self.topic
        return None if topic is None else self.topic.replace(_SOURCE, topic)


class TopicSql(DataFrameStream):
    """Writes the output of `transforms.sql` over the records of its topics to `output.topic`, in the same cluster."""
