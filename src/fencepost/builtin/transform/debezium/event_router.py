"""EventRouter: makes messages of the rows of an outbox table."""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from fencepost.api import (
    HIGH,
    LOW,
    Config,
    ConnectRecord,
    FatalError,
    Header,
    Record,
    RecordError,
    Schema,
    Transform,
    setting,
)
from fencepost.builtin.transform.debezium.change_event import (
    AFTER,
    DELETE,
    OPERATION,
    UPDATE,
    event_of,
    is_change_event,
    refused,
    row_schema,
)
from fencepost.builtin.transform.java_regex import replacement_faults
from fencepost.builtin.transform.router import RegexRouter
from fencepost.config.check import each, one_of, parsed_by
from fencepost.config.java_regex import java_regex
from fencepost.record import Field, SchemaType
from fencepost.record.java_value import fits
from fencepost.record.schema import BOOLEAN, BYTES, FLOAT64, INT32, INT64, STRING, repeated_name

_LONG_INTEGER = re.compile(r"\d{19}")
_PLAIN = {bool: BOOLEAN.optional(), str: STRING.optional(), float: FLOAT64.optional()}


class JsonExpansion:
    """Makes structs of JSON. Nulls and empty arrays have no type: their fields are left out, or are optional bytes."""

    def __init__(self, *, keeps_nulls: bool) -> None:
        self._keeps_nulls = keeps_nulls

    def expanded(self, text: str, name: str) -> tuple[Schema, Any]:
        """Return the schema, of that name, and the value of an object or array. Raises ValueError for anything else."""
        value = orjson.loads(text)
        if _LONG_INTEGER.search(text):  # which it rounds
            value = json.loads(text)
        if not isinstance(value, dict | list) or text[:1] not in ("{", "["):
            raise ValueError("it is neither an object nor an array")
        schema = self._schema(value, name)
        if schema is None:
            raise ValueError("it is empty")
        return schema, _fitting(schema, value)

    def _schema(self, value: Any, name: str) -> Schema | None:
        if value is None:
            return BYTES.optional() if self._keeps_nulls else None
        if isinstance(value, dict):
            return self._struct([value], name)
        if isinstance(value, list):
            return self._array(value, name)
        if type(value) is int:
            if not fits(value, 64):
                raise ValueError("a number has more than 64 bits")
            return (INT32 if fits(value, 32) else INT64).optional()
        return _PLAIN[type(value)]

    def _struct(self, objects: Sequence[dict[str, Any]], name: str) -> Schema:
        """Return a schema for all objects. A field has the type that it has in each of them."""
        members: dict[str, list[Any]] = {}
        for one in objects:
            for key, value in one.items():
                members.setdefault(key, []).append(value)
        if "" in members:
            raise ValueError("a field has no name")
        schemas = {key: self._common(_told(values), f"{name}.{key}") for key, values in members.items()}
        fields = tuple(Field(key, schema) for key, schema in schemas.items() if schema is not None)
        return Schema(SchemaType.STRUCT, is_optional=len(objects) == 1, name=name, fields=fields)

    def _array(self, items: list[Any], name: str) -> Schema | None:
        if not items:
            return None
        schema = self._common(items, name)
        if schema is None:
            raise ValueError("the items of an array have no type")
        return Schema(SchemaType.ARRAY, is_optional=True, value_schema=schema)

    def _common(self, values: list[Any], name: str) -> Schema | None:
        """Return the schema that values share; None if all of them are left out. Raises ValueError if they differ."""
        present = [value for value in values if value is not None]
        if not present:
            return self._schema(None, name)
        if all(isinstance(value, dict) for value in present):
            return self._struct(present, name)
        found = {self._schema(value, name) for value in present}
        if len(found) > 1:
            raise ValueError("the items of an array have different types")
        return found.pop()


def _told(values: list[Any]) -> list[Any]:
    """Return the values of a field without empty arrays, which say nothing about its type, if there are others."""
    return [value for value in values if value != []] or values


def _fitting(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if schema.type is SchemaType.STRUCT:
        return {field.name: _fitting(field.schema, value.get(field.name)) for field in schema.fields}
    if schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        return [_fitting(schema.value_schema, item) for item in value]
    return value


log = logging.getLogger(__name__)

_WARN, _ERROR, _FATAL = "warn", "error", "fatal"
_HEADER, _ENVELOPE, _PARTITION = "header", "envelope", "partition"
_IGNORE, _OPTIONAL_BYTES = "ignore", "optional_bytes"
_VALUE = "Value"
_PAYLOAD, _ID = "payload", "id"
_TIMES = {
    "io.debezium.time.Timestamp": 1,
    "io.debezium.time.MicroTimestamp": 1_000,
    "io.debezium.time.NanoTimestamp": 1_000_000,
}
_TRACING = "Traces are not written: leave it out"
_REFUSED = {
    "tracing.span.context.field": _TRACING,
    "tracing.operation.name": _TRACING,
    "tracing.with.context.field.only": _TRACING,
    "table.field.additional.missing": "A column that is missing is an error: leave it out",
    "table.field.event.type": "Use table.fields.additional.placement for the column with the type",
}


class _Placement(NamedTuple):
    """A column of the outbox table that goes to a header, the envelope or the partition."""

    field: str
    place: str
    alias: str

    @classmethod
    def parsed(cls, text: str) -> "_Placement":
        """Raise ValueError unless it is `column:placement` or `column:placement:alias`."""
        parts = [part.strip() for part in text.split(":")]
        if len(parts) == 3 and not parts[2]:
            parts.pop()
        if len(parts) not in (2, 3) or not all(parts) or parts[1].lower() not in (_HEADER, _ENVELOPE, _PARTITION):
            raise ValueError(
                f"{text} is not column:placement or column:placement:alias, with the placement header, envelope or "
                "partition"
            )
        return cls(parts[0], parts[1].lower(), parts[-1] if len(parts) == 3 else parts[0])


class _Row(NamedTuple):
    """A row of the outbox table, with its schema."""

    schema: Schema
    value: Mapping[str, Any]

    def typed(self, column: str) -> tuple[Any, Schema]:
        """Return a column's value and schema. Raises RecordError if there is no such column."""
        found = self.schema.field(column)
        if found is None:
            raise RecordError(f"Unable to find field {column} in the row of the outbox table")
        value = self.value.get(column)
        return (found.schema.default if value is None else value), found.schema


class OutboxTable(Config):
    """The settings of EventRouter that say what is in the columns of the outbox table."""

    table_field_event_id: str = setting(
        "table.field.event.id", default="id", doc="The column with the message's id, which becomes the header `id`."
    )
    table_field_event_key: str = setting(
        "table.field.event.key", default="aggregateid", doc="The column with the message's key."
    )
    table_field_event_timestamp: str = setting(
        "table.field.event.timestamp",
        default="",
        doc="The column with the message's timestamp. By default, that is the time of the change event.",
    )
    table_field_event_payload: str = setting(
        "table.field.event.payload", default="payload", doc="The column with the message's value."
    )
    table_field_event_schema_version: str = setting(
        "table.field.event.schema.version",
        default="",
        importance=LOW,
        doc="The column with the version of the schema of the message's envelope.",
    )
    table_fields_additional_placement: list[str] = setting(
        "table.fields.additional.placement",
        default=[],
        check=each(parsed_by(_Placement.parsed, "column:placement[:alias]")),
        doc="Other columns, and where they go: `column:header:alias`, `column:envelope:alias` or `column:partition`. "
        "The alias is optional. With an envelope, the value is a struct whose field `payload` is the payload.",
    )


class OutboxPayload(Config):
    """The settings of EventRouter about the payload."""

    table_expand_json_payload: bool = setting(
        "table.expand.json.payload",
        default=False,
        doc="Whether a payload that is the text of a JSON object or array becomes a struct or array.",
    )
    table_json_payload_null_behavior: str = setting(
        "table.json.payload.null.behavior",
        default=_IGNORE,
        check=one_of(_IGNORE, _OPTIONAL_BYTES),
        doc="What becomes of nulls in an expanded payload. `ignore`: their fields are left out. `optional_bytes`: they "
        "are nulls of that type.",
    )
    route_tombstone_on_empty_payload: bool = setting(
        "route.tombstone.on.empty.payload",
        default=False,
        doc="Whether a message with an empty payload, or none, becomes a tombstone.",
    )


class OutboxRoute(Config):
    """The settings of EventRouter about the topic."""

    route_by_field: str = setting(
        "route.by.field", default="aggregatetype", importance=HIGH, doc="The column whose value chooses the topic."
    )
    route_topic_regex: str = setting(
        "route.topic.regex",
        default="(?<routedByValue>.*)",
        check=java_regex(),
        importance=LOW,
        doc="A regular expression for that value.",
    )
    route_topic_replacement: str = setting(
        "route.topic.replacement",
        default="outbox.event.${routedByValue}",
        importance=HIGH,
        doc="The topic. It may refer to groups of `route.topic.regex`.",
    )


class EventRouter(OutboxTable, OutboxPayload, OutboxRoute, Transform):
    """Replaces the insertion of a row into an outbox table by the message that the row holds.

    Deletions and tombstones are filtered, updates are refused. Records that are no change events pass.
    """

    table_op_invalid_behavior: str = setting(
        "table.op.invalid.behavior",
        default=_WARN,
        check=one_of(_WARN, _ERROR, _FATAL),
        doc="What happens to an update of the outbox table, whose rows should only be inserted and deleted. `warn` and "
        "`error`: it is logged and filtered. `fatal`: the task fails.",
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._placements = tuple(map(_Placement.parsed, self.table_fields_additional_placement))
        self._has_envelope = any(one.place == _ENVELOPE for one in self._placements)
        self._router = RegexRouter({"regex": self.route_topic_regex, "replacement": self.route_topic_replacement})
        self._expansion = JsonExpansion(keeps_nulls=self.table_json_payload_null_behavior.lower() == _OPTIONAL_BYTES)

    def check_together(self) -> list[str]:
        key = self.key_of("route_topic_replacement")
        faults = replacement_faults(key, self.route_topic_regex, self.route_topic_replacement)
        return refused(self.originals, _REFUSED) + faults

    def apply(self, record: Record) -> Record | None:
        if record.value is None:
            return None
        if not is_change_event(record):
            return record
        event = event_of(record)
        operation = event[OPERATION]
        if operation is None:
            raise RecordError(f"The field '{OPERATION}' of a change event is null")
        if operation == DELETE:
            return None
        if operation == UPDATE:
            self._unexpected(record)
            return None
        return self._message(record, event)

    def _unexpected(self, record: ConnectRecord) -> None:
        text = f"Unexpected update of the outbox table: the record for {record.origin} is dropped"
        behavior = self.table_op_invalid_behavior.lower()
        if behavior == _FATAL:
            raise FatalError(f"An outbox table must not be updated, but there is an update for {record.origin}")
        log.log(logging.ERROR if behavior == _ERROR else logging.WARNING, "%s", text)

    def _message(self, record: Record, event: Mapping[str, Any]) -> Record:
        assert record.value_schema is not None
        row = _Row(row_schema(record.value_schema, AFTER), event.get(AFTER) or {})
        headers = [*record.headers, Header(_ID, *row.typed(self.table_field_event_id))]
        partition = None
        for one in self._placements:
            if one.place == _HEADER:
                headers.append(Header(one.alias, *row.typed(one.field)))
            elif one.place == _PARTITION:
                partition = _of_type(SchemaType.INT32, *row.typed(one.field), one.field)
        _of_type(SchemaType.STRING, *row.typed(self.route_by_field), self.route_by_field)
        topic = row.value.get(self.route_by_field)
        if topic is None:
            raise RecordError(f"{self.route_by_field} is null, so there is no topic for the row (route.by.field)")
        key, key_schema = row.typed(self.table_field_event_key)
        value, value_schema = self._value(row, topic)
        routed: Record = record.replace(
            topic=topic,
            kafka_partition=partition,
            key=key,
            key_schema=key_schema,
            value=value,
            value_schema=value_schema,
            timestamp=self._timestamp(row, event),
            headers=tuple(headers),
        )
        return self._router.apply(routed) or routed

    def _value(self, row: _Row, topic: str) -> tuple[Any, Schema | None]:
        payload, schema = row.typed(self.table_field_event_payload)
        if self.route_tombstone_on_empty_payload and (payload is None or not str(payload).strip()):
            return None, None
        if self.table_expand_json_payload and isinstance(payload, str):
            payload, schema = self._expanded(payload, schema)
        if not self._has_envelope:
            return payload, schema
        added = [(one.alias, *row.typed(one.field)) for one in self._placements if one.place == _ENVELOPE]
        members = [(_PAYLOAD, payload, schema), *added]
        fields = tuple(Field(name, member) for name, _, member in members)
        if (name := repeated_name(fields)) is not None:
            raise RecordError(
                f"The message would have two fields of the name {name} (table.fields.additional.placement)"
            )
        version = self.table_field_event_schema_version
        number = _of_type(SchemaType.INT32, *row.typed(version), version) if version else None
        envelope = Schema(
            SchemaType.STRUCT,
            name=f"{(row.schema.name or _VALUE).removesuffix(_VALUE)}{topic}.{_VALUE}",
            version=number,
            fields=fields,
        )
        return {name: value for name, value, _ in members}, envelope

    def _expanded(self, payload: str, schema: Schema) -> tuple[Any, Schema]:
        try:
            expanded, value = self._expansion.expanded(payload, _PAYLOAD)
        except (ValueError, RecursionError) as error:
            log.warning("The payload of an outbox row is not expanded: %s", error)
            return payload, schema
        return value, expanded

    def _timestamp(self, row: _Row, event: Mapping[str, Any]) -> int | None:
        column = self.table_field_event_timestamp
        if not column:
            return event.get("ts_ms")
        value, schema = row.typed(column)
        _of_type(SchemaType.INT64, value, schema, column)
        if value is None:
            return event.get("ts_ms")
        if schema.name not in _TIMES:
            raise RecordError(f"Unsupported type {schema.name or schema.type.name} of the timestamp in {column}")
        unit = _TIMES[schema.name]
        return int(value // unit if value >= 0 else -(-value // unit))  # towards 0, as Java divides


def _of_type(kind: SchemaType, value: Any, schema: Schema, column: str) -> Any:
    if schema.type is not kind:
        raise RecordError(f"Field '{column}' is not of type {kind.name}")
    return value
