"""ExtractField replaces a key or value by one of its fields, HoistField wraps it in a struct or map with one field."""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.api import HIGH, Record, RecordError, Schema, setting
from fencepost.builtin.transform.side import (
    NullReplacing,
    SideTransform,
    both_sides,
    filled,
    is_null,
    members,
    remembering,
)
from fencepost.config.check import one_of
from fencepost.record import Field, RecordColumns, Repeated, SchemaType, StructColumn

_NESTED = "nested field access"


class FieldPath:
    """The names that lead to a field; in version V1 the text is one name. Raises ValueError for a wrong text."""

    def __init__(self, text: str, version: str) -> None:
        self._names = _names(text) if version.upper() == "V2" else [text]
        if not self._names:
            raise ValueError("the path is empty")

    def field_of(self, schema: Schema) -> Field | None:
        """Return the field in a struct's schema; None if there is none."""
        found: Field | None = None
        for name in self._names:
            if schema.type is not SchemaType.STRUCT:
                raise RecordError(f"Cannot look up fields on non-struct type {schema.type.name}")
            found = schema.field(name)
            if found is None:
                return None
            schema = found.schema
        return found

    def value_of(self, value: Any, schema: Schema | None, *, fills_default: bool) -> Any:
        """Return the value of the field; None if it, or a struct above it, is missing or null.

        `fills_default`: whether a null field is its default. Structs above the field always are.
        """
        last = len(self._names) - 1
        for depth, name in enumerate(self._names):
            if value is None:
                return None
            if not isinstance(value, Mapping):
                kind = "Map objects supported in absence of schema" if schema is None else "Struct objects supported"
                raise RecordError(f"Only {kind} for [{_NESTED}], found: {type(value).__name__}")
            value = value.get(name)
            if schema is not None:
                member = schema.field(name)
                if member is None:
                    return None
                schema = member.schema
                if value is None and (fills_default or depth < last):
                    value = schema.default
        return value

    def column_of(self, values: Sequence[Any], schema: Schema | None, *, fills_default: bool) -> Sequence[Any] | None:
        """Return the field of all values as a column, as `value_of` does; None if a struct is null or unlike others."""
        last = len(self._names) - 1
        column = values
        for depth, name in enumerate(self._names):
            structs = StructColumn.of_rows(column)
            if structs is None:
                return None
            column = structs.columns.get(name, Repeated(None, len(structs)))
            member = None if schema is None else schema.field(name)
            schema = None if member is None else member.schema
            if schema is not None and schema.default is not None and (fills_default or depth < last):
                column = filled(column, schema.default)
        return column


def _names(text: str) -> list[str]:
    names = []
    at = 0
    while at < len(text):
        if text[at] == "`":
            name, at = _quoted(text, at)
        else:
            name, _, _ = text[at:].partition(".")
            at += len(name) + 1
        names.append(name)
    return [*names, ""] if text.endswith(".") else names


def _quoted(text: str, begin: int) -> tuple[str, int]:
    """Return a name in backticks, and where the next one begins. A backtick before a dot ends it, unless escaped."""
    name, start = "", begin + 1
    at = start
    while (at := text.find("`", at)) >= 0:
        is_escaped, is_last = text[at - 1] == "\\", at == len(text) - 1
        if is_last and not is_escaped:
            return name + text[start:at], at + 1
        if not is_last and text[at + 1] == "." and not is_escaped:
            return name + text[start:at], at + 2
        if not is_last and text[at + 1] == ".":
            name, start = f"{name}{text[start : at - 1]}`", at + 1
        at += 1
    raise ValueError(
        f"Incomplete backtick pair in path: [{text}], consider adding a backslash before backtick at position {begin} "
        "to escape it"
    )


_PURPOSE = "field extraction"


class ExtractField(NullReplacing, SideTransform):
    """Replaces a struct or map by one of its fields. A null stays null."""

    field: str = setting("field", doc="Field name to extract.")
    field_syntax_version: str = setting(
        "field.syntax.version",
        default="V1",
        check=one_of("V1", "V2"),
        importance=HIGH,
        doc="The syntax of `field`. V1: the name of a field at the root. V2: a path such as `a.b`, in which backticks "
        "surround names with dots.",
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._path = FieldPath(self.field, self.field_syntax_version)

    def check_together(self) -> list[str]:
        try:
            FieldPath(self.field, self.field_syntax_version)
        except ValueError as error:
            return [f"Invalid value {self.field} for configuration field: {error}"]
        return []

    def apply(self, record: Record) -> Record | None:
        value: Any = self.side.value_of(record)
        schema = self.side.schema_of(record)
        if value is not None:
            value = members(value, schema, _PURPOSE)
        after = None if schema is None else self._schema(schema)
        found = self._path.value_of(value, schema, fills_default=self.replace_null_with_default)
        return self.side.with_value(record, after, found)

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        schema, values = self.side.column_of(batch)
        after = None if schema is None else self._schema(schema)
        if is_null(values):
            return self.side.with_column(batch, after, values)
        found = self._path.column_of(values, schema, fills_default=self.replace_null_with_default)
        return None if found is None else self.side.with_column(batch, after, found)

    def _schema(self, schema: Schema) -> Schema:
        field = self._path.field_of(schema)
        if field is None:
            raise RecordError(f"Unknown field: {self.field}")
        return field.schema


ExtractFieldKey, ExtractFieldValue = both_sides(ExtractField, "Replaces record {side}s by one of their fields.")


class HoistField(SideTransform):
    """Wraps keys or values: in a struct if they have a schema, else in a map."""

    field: str = setting(
        "field", doc="Field name for the single field that will be created in the resulting struct or map."
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._remembered = remembering(lambda schema: Schema.struct({self.field: schema}))

    def apply(self, record: Record) -> Record | None:
        schema = self.side.schema_of(record)
        after = None if schema is None else self._remembered(schema)
        return self.side.with_value(record, after, {self.field: self.side.value_of(record)})

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        schema, values = self.side.column_of(batch)
        after = None if schema is None else self._remembered(schema)
        return self.side.with_column(batch, after, StructColumn({self.field: values}, len(batch)))


HoistFieldKey, HoistFieldValue = both_sides(HoistField, "Wraps record {side}s.")
