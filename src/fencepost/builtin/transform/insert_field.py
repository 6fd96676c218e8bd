"""InsertField: facts about a record, or a fixed text, as fields of its key or value."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from fencepost.api import ConnectRecord, RecordError, Schema, SinkRecord, setting
from fencepost.builtin.transform.side import Columns, FieldTransform, NullReplacing, both_sides, is_null, mapped
from fencepost.record import Field, RecordColumns, Repeated
from fencepost.record.java_time import moment
from fencepost.record.schema import INT32, INT64, STRING, TIMESTAMP

OPTIONALITY = "Suffix with '!' to make this a required field, or '?' to keep it optional (the default)."


class _Insertion(NamedTuple):
    """A field to insert."""

    name: str
    schema: Schema


def _insertion(spec: str | None, schema: Schema) -> _Insertion | None:
    if not spec:
        return None
    name = spec[:-1] if spec[-1] in "!?" else spec
    return _Insertion(name, schema if spec.endswith("!") else schema.optional())


class InsertField(NullReplacing, FieldTransform):
    """Inserts topic, partition, timestamp or a fixed text; skips facts that a record does not have."""

    purpose = "field insertion"

    topic_field: str | None = setting("topic.field", default=None, doc=f"Field name for Kafka topic. {OPTIONALITY}")
    partition_field: str | None = setting(
        "partition.field", default=None, doc=f"Field name for Kafka partition. {OPTIONALITY}"
    )
    offset_field: str | None = setting(
        "offset.field",
        default=None,
        doc=f"Field name for Kafka offset - only applicable to sink connectors. {OPTIONALITY}",
    )
    timestamp_field: str | None = setting(
        "timestamp.field", default=None, doc=f"Field name for record timestamp. {OPTIONALITY}"
    )
    static_field: str | None = setting(
        "static.field", default=None, doc=f"Field name for static data field. {OPTIONALITY}"
    )
    static_value: str | None = setting(
        "static.value", default=None, doc="Static field value, if field name configured."
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._topic = _insertion(self.topic_field, STRING)
        self._partition = _insertion(self.partition_field, INT32)
        self._offset = _insertion(self.offset_field, INT64)
        self._timestamp = _insertion(self.timestamp_field, TIMESTAMP)
        self._static = _insertion(self.static_field, STRING)

    def check_together(self) -> list[str]:
        names = (self.topic_field, self.partition_field, self.offset_field, self.timestamp_field, self.static_field)
        if not any(names):
            return [
                "No field insertion configured: set one of topic.field, partition.field, timestamp.field, static.field"
            ]
        if self.static_field and self.static_value is None:
            return [
                f"Invalid value null for configuration static.value: No value specified for static field: "
                f"{self.static_field}"
            ]
        return []

    def changed_fields(self, record: ConnectRecord, schema: Schema | None, fields: dict[str, Any]) -> dict[str, Any]:
        if self._topic is not None:
            fields[self._topic.name] = record.topic
        if self._partition is not None and record.kafka_partition is not None:
            fields[self._partition.name] = record.kafka_partition
        if self._offset is not None:
            if not isinstance(record, SinkRecord):
                raise RecordError("Offset insertion is only supported for sink connectors: leave offset.field out")
            fields[self._offset.name] = record.kafka_offset
        if self._timestamp is not None and record.timestamp is not None:
            fields[self._timestamp.name] = moment(record.timestamp) if schema is not None else record.timestamp
        if self._static is not None:
            fields[self._static.name] = self.static_value
        return fields

    def changed_columns(self, batch: RecordColumns, schema: Schema | None, fields: Columns) -> Columns | None:
        if self._offset is not None and batch.kafka_offsets is None:
            return None
        facts = (
            (self._topic, batch.topics),
            (self._partition, batch.kafka_partitions),
            (self._offset, batch.kafka_offsets),
            (self._timestamp, batch.timestamps),
            (self._static, Repeated(self.static_value, len(batch))),
        )
        for one, column in facts:
            if one is None or column is None or is_null(column):
                continue
            if not isinstance(column, Repeated) and None in column:  # only some rows would have the field
                return None
            fields[one.name] = mapped(moment, column) if one is self._timestamp and schema is not None else column
        return fields

    def changed_members(self, schema: Schema) -> tuple[Field, ...]:
        wanted = (self._topic, self._partition, self._offset, self._timestamp, self._static)
        return schema.fields + tuple(Field(one.name, one.schema) for one in wanted if one is not None)


InsertFieldKey, InsertFieldValue = both_sides(InsertField, "Inserts fields into record {side}s.")
