"""Change events of Debezium: an envelope with the row before and after the change, and facts about the change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fencepost.api import ConnectRecord, RecordError, Schema
from fencepost.record import Field, SchemaType

BEFORE, AFTER, OPERATION = "before", "after", "op"
DELETE, UPDATE, TRUNCATE = "d", "u", "t"

_ENVELOPE = ".Envelope"
_OF_ENVELOPE = frozenset({OPERATION, "ts_ms", "ts_us", "ts_ns"})
_OF_TRANSACTION = frozenset({"id", "total_order", "data_collection_order"})
_OF_MONGO = "updateDescription"


def is_change_event(record: ConnectRecord) -> bool:
    """Return whether a record is a change event: Debezium's schemas of envelopes have a name that ends so."""
    schema = record.value_schema
    return schema is not None and schema.name is not None and schema.name.endswith(_ENVELOPE)


def event_of(record: ConnectRecord) -> Mapping[str, Any]:
    """Return the fields of a change event. Raises RecordError for anything else with the name of one."""
    value = record.value
    if not isinstance(value, Mapping):
        raise RecordError(f"A change event should be a struct, but found {type(value).__name__}")
    if OPERATION not in value or not isinstance(value[OPERATION], str | None):
        raise RecordError(f"A change event should have a text in the field '{OPERATION}'")
    return value


def row_schema(envelope: Schema, side: str) -> Schema:
    """Return the schema of the row before or after the change."""
    found = envelope.field(side)
    if found is None or found.schema.type is not SchemaType.STRUCT:
        raise RecordError(f"The schema {envelope.name} has no struct '{side}', as change events have")
    return found.schema


@dataclass(frozen=True)
class MetadataField:
    """Where in the envelope a fact about the change is, and the name under which it is added to a row or header."""

    name: str
    struct: str | None
    field: str
    is_in_struct: bool = True

    @classmethod
    def parsed(cls, text: str, prefix: str) -> "MetadataField":
        """Read `op`, `source.ts_ms` or `op:OPERATION`. Raises ValueError for anything else."""
        reference, _, alias = text.strip().partition(":")
        struct, dot, name = reference.partition(".")
        if not reference or "." in name or (dot and not (struct and name)) or ":" in alias:
            raise ValueError(f"Unexpected field name: {text}. Use field, struct.field or struct.field:new_name")
        if dot:
            return cls(prefix + (alias or f"{struct}_{name}"), struct, name)
        return cls(prefix + (alias or reference), _struct_of(reference), reference)

    def found_in(self, envelope: Schema) -> "tuple[MetadataField, Schema] | None":
        """Return the field where an envelope has the fact, with the fact's schema, which is optional; None without it.

        What its struct does not have may be in the envelope itself, where other transforms put fields. Raises
        RecordError for a fact that is a struct.
        """
        holder = envelope
        if self.struct is not None:
            outer = envelope.field(self.struct)
            if outer is None or outer.schema.type is not SchemaType.STRUCT:
                raise RecordError(f"The schema {envelope.name} has no struct '{self.struct}'")
            holder = outer.schema
        inner = holder.field(self.field)
        found = inner or envelope.field(self.field)
        if found is None:
            return None
        if found.schema.type is SchemaType.STRUCT:
            raise RecordError(f"{self.field} is a struct and cannot be added: name one of its fields")
        where = replace(self, is_in_struct=inner is not None)
        return where, replace(found.schema, is_optional=True, default=None)

    def value_in(self, event: Mapping[str, Any]) -> Any:
        """Return the fact; None if there is none, as where the struct that should have it is null."""
        holder = event if self.struct is None else event.get(self.struct)
        if not isinstance(holder, Mapping):
            return None
        return (holder if self.is_in_struct else event).get(self.field)


def _struct_of(field: str) -> str | None:
    if field in _OF_ENVELOPE:
        return None
    if field == _OF_MONGO:
        return field
    return "transaction" if field in _OF_TRANSACTION else "source"


def metadata_fields(texts: Iterable[str], prefix: str) -> tuple[MetadataField, ...]:
    """Read a list of references. Raises ValueError."""
    return tuple(MetadataField.parsed(text, prefix) for text in texts)


def schemas_in(envelope: Schema, fields: Iterable[MetadataField]) -> tuple[tuple[MetadataField, Schema], ...]:
    """Return the facts that an envelope has, with their schemas. Raises RecordError for a struct."""
    found = (field.found_in(envelope) for field in fields)
    return tuple(one for one in found if one is not None)


def with_fields(schema: Schema, fields: Iterable[Field]) -> Schema:
    """Return a struct's schema with other fields; it is required and has no default, as Kafka copies schemas."""
    return replace(schema, fields=tuple(fields), is_optional=False, default=None)


def refused(properties: Mapping[str, object], reasons: Mapping[str, str]) -> list[str]:
    """Return a text for each setting that would have no effect here."""
    return [f"{key} is not supported. {reason}" for key, reason in reasons.items() if key in properties]
