"""InsertField: facts about a record, or a fixed text, as fields of its key or value."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from fencepost.api import ConnectRecord, RecordError, Schema, SinkRecord, setting
from fencepost.builtin.transform.side import Columns, FieldTransform, NullReplacing, both_sides, is_null, mapped
from fencepost.record import Field, RecordColumns, Repeated
from fencepost.record.java_value import moment
from fencepost.record.schema import INT32, INT64, STRING, TIMESTAMP

OPTIONALITY = "Suffix with '!' to make this a required field, or '?' to keep it optional (the default)."


class _Insertion(NamedTuple):
    """A field to insert, and where records and batches have what it says."""

    name: str
    schema: Schema
    of_record: Callable[[ConnectRecord], Any]
    of_batch: Callable[[RecordColumns], Sequence[Any] | None]


def _offset(record: ConnectRecord) -> int:
    if not isinstance(record, SinkRecord):
        raise RecordError("Offset insertion is only supported for sink connectors: leave offset.field out")
    return record.kafka_offset


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
        facts = (
            (self.topic_field, STRING, attrgetter("topic"), attrgetter("topics")),
            (self.partition_field, INT32, attrgetter("kafka_partition"), attrgetter("kafka_partitions")),
            (self.offset_field, INT64, _offset, attrgetter("kafka_offsets")),
            (self.timestamp_field, TIMESTAMP, attrgetter("timestamp"), attrgetter("timestamps")),
            (self.static_field, STRING, lambda _: self.static_value, lambda b: Repeated(self.static_value, len(b))),
        )
        self._insertions = []
        for spec, schema, of_record, of_batch in facts:
            if spec:
                name = spec[:-1] if spec[-1] in "!?" else spec
                kind = schema if spec[-1] == "!" else schema.optional()
                self._insertions.append(_Insertion(name, kind, of_record, of_batch))

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
        for one in self._insertions:
            value = one.of_record(record)
            if value is not None:
                fields[one.name] = moment(value) if schema is not None and one.schema.name == TIMESTAMP.name else value
        return fields

    def changed_columns(self, batch: RecordColumns, schema: Schema | None, fields: Columns) -> Columns | None:
        for one in self._insertions:
            column = one.of_batch(batch)
            if column is None and one.of_record is _offset:
                return None
            if column is None or is_null(column):
                continue
            if not isinstance(column, Repeated) and None in column:  # only some rows would have the field
                return None
            is_time = schema is not None and one.schema.name == TIMESTAMP.name
            fields[one.name] = mapped(moment, column) if is_time else column
        return fields

    def changed_members(self, schema: Schema) -> tuple[Field, ...]:
        return schema.fields + tuple(Field(one.name, one.schema) for one in self._insertions)


InsertFieldKey, InsertFieldValue = both_sides(InsertField, "Inserts fields into record {side}s.")
