"""ExtractNewRecordState: makes rows of change events."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from fencepost.api import LOW, Config, ConnectRecord, Header, Record, RecordError, Schema, Transform, setting
from fencepost.builtin.transform.debezium.change_event import (
    AFTER,
    BEFORE,
    DELETE,
    OPERATION,
    TRUNCATE,
    MetadataField,
    event_of,
    is_change_event,
    metadata_fields,
    refused,
    row_schema,
    schemas_in,
    with_fields,
)
from fencepost.builtin.transform.side import Defaults, defaults_of, fill_nulls, remembering
from fencepost.config.check import Check, each, one_of, parsed_by
from fencepost.record import Field, SchemaType
from fencepost.record.schema import STRING, repeated_name

_DROP, _TOMBSTONE, _REWRITE = "drop", "tombstone", "rewrite"
_REWRITE_WITH_TOMBSTONE, _DELETE_TO_TOMBSTONE = "rewrite-with-tombstone", "delete-to-tombstone"
_REWRITES = frozenset({_REWRITE, _REWRITE_WITH_TOMBSTONE})
_DELETED = Field("__deleted", STRING.optional())

_FORMER = (
    "Debezium replaced it by delete.tombstone.handling.mode: use drop, tombstone, rewrite, rewrite-with-tombstone or "
    "delete-to-tombstone"
)
_REFUSED = {"drop.tombstones": _FORMER, "delete.handling.mode": _FORMER}


def _metadata() -> Check:
    return each(parsed_by(partial(MetadataField.parsed, prefix=""), "field, struct.field or struct.field:new_name"))


class _RowSchema(NamedTuple):
    """The schema of a row after the transform, its fields' defaults before, and the facts that are added."""

    schema: Schema
    defaults: Defaults
    added: tuple[MetadataField, ...]


class MetadataAdding(Config):
    """The settings of ExtractNewRecordState about facts that are added to the row and to the headers."""

    add_fields: list[str] = setting(
        "add.fields",
        default=[],
        check=_metadata(),
        doc="Facts about the change to add to the row, such as `op,table,source.ts_ms`; `op:OPERATION` gives it "
        "another name.",
    )
    add_fields_prefix: str = setting("add.fields.prefix", default="__", doc="The prefix of the fields that are added.")
    add_headers: list[str] = setting(
        "add.headers",
        default=[],
        check=_metadata(),
        doc="Facts about the change to add as headers, in the notation of `add.fields`.",
    )
    add_headers_prefix: str = setting(
        "add.headers.prefix", default="__", doc="The prefix of the headers that are added."
    )


class FieldDropping(Config):
    """The settings of ExtractNewRecordState about fields that are removed."""

    drop_fields_header_name: str = setting(
        "drop.fields.header.name",
        default="",
        doc="The header that lists the names of fields to remove from the row. By default, none are removed.",
    )
    drop_fields_from_key: bool = setting(
        "drop.fields.from.key", default=False, doc="Whether these fields are removed from the key, too."
    )
    drop_fields_keep_schema_compatible: bool = setting(
        "drop.fields.keep.schema.compatible",
        default=True,
        doc="Whether only optional fields are removed, so that the schema stays compatible.",
    )


class ExtractNewRecordState(MetadataAdding, FieldDropping, Transform):
    """Replaces a change event by the row after the change. Records that are no change events pass."""

    delete_tombstone_handling_mode: str = setting(
        "delete.tombstone.handling.mode",
        default=_TOMBSTONE,
        check=one_of(_DROP, _TOMBSTONE, _REWRITE, _REWRITE_WITH_TOMBSTONE, _DELETE_TO_TOMBSTONE),
        doc="What becomes of deletes and of the tombstones that follow them. `drop`: both are dropped. `tombstone`: a "
        "delete becomes a null with the row's schema. `rewrite`: it becomes the row before it, with the field "
        '`__deleted` = "true"; other rows have "false". `rewrite-with-tombstone`: the same, and tombstones are kept, '
        "which the other modes drop. `delete-to-tombstone`: a delete becomes a tombstone, without a schema.",
    )
    route_by_field: str = setting(
        "route.by.field",
        default="",
        importance=LOW,
        doc="The field of the row whose value becomes the record's topic. By default, the topic does not change.",
    )
    replace_null_with_default: bool = setting(
        "replace.null.with.default",
        default=True,
        doc="Whether a null in a field with a default becomes that default.",
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._mode = self.delete_tombstone_handling_mode.lower()
        self._fields = metadata_fields(self.add_fields, self.add_fields_prefix)
        self._headers = metadata_fields(self.add_headers, self.add_headers_prefix)
        self._schema_of = {side: remembering(partial(self._row_schema, side=side)) for side in (BEFORE, AFTER)}
        self._header_schemas = remembering(partial(schemas_in, fields=self._headers))

    def check_together(self) -> list[str]:
        return refused(self.originals, _REFUSED)

    def apply(self, record: Record) -> Record | None:
        if record.value is None:
            return self._tombstone(record)
        if not is_change_event(record):
            return record
        event = event_of(record)
        if event[OPERATION] == TRUNCATE:
            return None
        is_delete = event.get(AFTER) is None  # whatever the operation, as Debezium sees it
        changed = self._deleted(record, event) if is_delete else self._with_row(record, event, AFTER)
        return None if changed is None else self._with_headers(changed, record, event)

    def _tombstone(self, record: Record) -> Record | None:
        if self._mode != _REWRITE_WITH_TOMBSTONE:
            return None
        added = tuple(Header(each.name, DELETE, STRING) for each in self._headers if each.field == OPERATION)
        return record.replace(headers=(*record.headers, *added)) if added else record

    def _deleted(self, record: Record, event: Mapping[str, Any]) -> Record | None:
        assert record.value_schema is not None
        before, after = row_schema(record.value_schema, BEFORE), row_schema(record.value_schema, AFTER)
        if self._mode in _REWRITES:
            return self._with_row(record, event, BEFORE)
        if self._mode == _DROP or event.get(BEFORE) is None:
            return None
        routed = self._routed(record, before, event[BEFORE])
        return routed.with_value(after if self._mode == _TOMBSTONE else None, None)

    def _with_row(self, record: Record, event: Mapping[str, Any], side: str) -> Record | None:
        assert record.value_schema is not None
        schema, defaults, added = self._schema_of[side](record.value_schema)
        if event.get(side) is None:
            return None
        row = dict(event[side])
        record = self._routed(record, schema, row)
        fill_nulls(row, defaults)
        if self._mode in _REWRITES:
            row[_DELETED.name] = "true" if side == BEFORE else "false"
        for field in added:
            row[field.name] = field.value_in(event)
        return self._without_fields(record, schema, row)

    def _row_schema(self, envelope: Schema, side: str) -> _RowSchema:
        row = row_schema(envelope, side)
        is_rewriting = self._mode in _REWRITES
        added = schemas_in(envelope, self._fields)
        members = [*row.fields, *([_DELETED] if is_rewriting else []), *(Field(one.name, its) for one, its in added)]
        if (name := repeated_name(members)) is not None:
            raise RecordError(f"The row would have two fields of the name {name}: set add.fields.prefix, or rename one")
        defaults = defaults_of(row) if is_rewriting and self.replace_null_with_default else ()
        return _RowSchema(with_fields(row, members), defaults, tuple(field for field, _ in added))

    def _with_headers(self, changed: Record, record: ConnectRecord, event: Mapping[str, Any]) -> Record:
        assert record.value_schema is not None
        schemas = self._header_schemas(record.value_schema)
        added = [Header(field.name, field.value_in(event), schema) for field, schema in schemas]
        return changed.replace(headers=(*changed.headers, *added)) if added else changed

    def _routed(self, record: Record, schema: Schema, row: Mapping[str, Any]) -> Record:
        if not self.route_by_field:
            return record
        member = schema.field(self.route_by_field)
        topic = row.get(self.route_by_field)
        if member is None or member.schema.type is not SchemaType.STRING:
            raise RecordError(f"Field '{self.route_by_field}' is not a text of the row (route.by.field)")
        return record if topic is None else record.replace(topic=topic)

    def _without_fields(self, record: Record, schema: Schema, row: dict[str, Any]) -> Record:
        names = self._dropped(record)
        if names and self.drop_fields_from_key and record.key_schema is not None:
            record = record.with_key(*self._reduced(record.key_schema, record.key, names))
        return record.with_value(*self._reduced(schema, row, names)) if names else record.with_value(schema, row)

    def _dropped(self, record: ConnectRecord) -> frozenset[str]:
        if not self.drop_fields_header_name:
            return frozenset()
        found = [header.value for header in record.headers if header.key == self.drop_fields_header_name]
        if not found or found[0] is None:
            return frozenset()
        if not isinstance(found[0], list | tuple):
            raise RecordError(f"The header {self.drop_fields_header_name} is not a list of names of fields")
        return frozenset(found[0])

    def _reduced(self, schema: Schema, struct: Any, names: frozenset[str]) -> tuple[Schema, Any]:
        keeps_required = self.drop_fields_keep_schema_compatible
        kept = tuple(
            field
            for field in schema.fields
            if field.name not in names or (keeps_required and not field.schema.is_optional)
        )
        if not isinstance(struct, Mapping) or len(kept) == len(schema.fields):
            return schema, struct
        fields = {field.name: struct.get(field.name) for field in kept}
        after = with_fields(schema, kept)
        fill_nulls(fields, defaults_of(after))
        return after, fields
