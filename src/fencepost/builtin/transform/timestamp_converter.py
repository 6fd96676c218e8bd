"""TimestampConverter: writes a time in another form: as a text, a number, or one of Connect's logical types."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fencepost.api import HIGH, LOW, ConnectRecord, Record, RecordError, Schema, setting
from fencepost.builtin.transform.java_date import SimpleDateFormat, simple_date_format
from fencepost.builtin.transform.side import (
    Columns,
    FieldTransform,
    NullReplacing,
    both_sides,
    convert_column,
    convert_field,
    defaults_of,
    fill_nulls,
    is_null,
    mapped,
)
from fencepost.config.check import one_of
from fencepost.record import Field, RecordColumns, Repeated, SchemaType, Utf8Column
from fencepost.record.java_value import DAY_MS, milliseconds, moment
from fencepost.record.schema import DATE, INT64, STRING, TIME, TIMESTAMP

_STRING, _UNIX = "string", "unix"
_SCHEMAS = {_STRING: STRING, _UNIX: INT64, "Date": DATE, "Time": TIME, "Timestamp": TIMESTAMP}
_OF_NAME = {schema.name: form for form, schema in _SCHEMAS.items() if schema.name is not None}
_OF_TYPE = {SchemaType.STRING: _STRING, SchemaType.INT64: _UNIX}
_UNITS = {"seconds": (1000, 1), "milliseconds": (1, 1), "microseconds": (1, 1000), "nanoseconds": (1, 1_000_000)}
_INT64 = 1 << 63


class TimestampConverter(NullReplacing, FieldTransform):
    """Converts times of a field, or a whole key or value. Sub-millisecond digits are lost, as in Java."""

    purpose = "converting timestamp formats"

    field: str = setting(
        "field",
        default="",
        importance=HIGH,
        doc="The field containing the timestamp, or empty if the entire value is a timestamp.",
    )
    target_type: str = setting(
        "target.type",
        check=one_of(*_SCHEMAS, ignore_case=False),
        importance=HIGH,
        doc="The desired timestamp representation: string, unix, Date, Time, or Timestamp.",
    )
    format: str = setting(
        "format",
        default="",
        check=simple_date_format(),
        doc="A SimpleDateFormat-compatible format for the timestamp. Used to generate the output when target.type is "
        "string, or to parse the input if it is a string.",
    )
    unix_precision: str = setting(
        "unix.precision",
        default="milliseconds",
        check=one_of("nanoseconds", "microseconds", "milliseconds", "seconds", ignore_case=False),
        importance=LOW,
        doc="The Unix precision of the timestamp: seconds, milliseconds, microseconds, or nanoseconds. Used to "
        "generate the output when target.type is unix, or to parse an integer. Digits below a "
        "millisecond are lost.",
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._format = SimpleDateFormat(self.format) if self.format.strip() else None
        self._optional_target = _SCHEMAS[self.target_type].optional()

    def check_together(self) -> list[str]:
        if self.target_type == _STRING and not self.format.strip():
            return ["TimestampConverter requires format option to be specified when using string timestamps"]
        return []

    def apply(self, record: Record) -> Record | None:
        value, schema = self.side.value_of(record), self.side.schema_of(record)
        if not self.field:
            after = None if schema is None else self._target(schema)
            return self.side.with_value(record, after, self._converted(schema, value))
        if value is None and schema is not None:
            return self.side.with_value(record, self._change_of(schema).after, None)
        return super().apply(record)

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        schema, values = self.side.column_of(batch)
        if not self.field:
            after = None if schema is None else self._target(schema)
            return self.side.with_column(batch, after, self._converted_column(schema, values))
        if is_null(values) and schema is not None:
            return self.side.with_column(batch, self._change_of(schema).after, values)
        return super().apply_batch(batch)

    def changed_columns(self, batch: RecordColumns, schema: Schema | None, fields: Columns) -> Columns | None:
        convert_column(fields, schema, self.field, len(batch), self._converted_column)
        return fields

    def changed_fields(self, record: ConnectRecord, schema: Schema | None, fields: dict[str, Any]) -> dict[str, Any]:
        convert_field(fields, schema, self.field, self._converted)
        return fields

    def changed_members(self, schema: Schema) -> tuple[Field, ...]:
        return tuple(
            Field(f.name, self._target(f.schema)) if f.name == self.field else f for f in schema.fields
        )  # fmt: skip

    def changed_schema(self, schema: Schema) -> Schema:
        default = schema.default
        if default is not None:
            fields = dict(default)
            if self.replace_null_with_default:
                fill_nulls(fields, defaults_of(schema))
            convert_field(fields, schema, self.field, self._converted)
            default = fields
        return replace(schema, fields=self.changed_members(schema), default=default)

    def _target(self, schema: Schema) -> Schema:
        return self._optional_target if schema.is_optional else _SCHEMAS[self.target_type]

    def _converted(self, schema: Schema | None, value: Any) -> Any:
        if schema is not None and schema.name not in _OF_NAME and schema.type not in _OF_TYPE:
            raise RecordError(f"Schema {schema.type.name} does not correspond to a known timestamp type format")
        if value is None:
            return None
        try:
            return self._written(value, self._milliseconds(schema, value))
        except (ValueError, OverflowError) as error:
            raise RecordError(str(error)) from None

    def _converted_column(self, schema: Schema | None, column: Sequence[Any]) -> Sequence[Any]:
        """Convert a column as `_converted` converts its values; texts and integers in one step for all of them."""
        values = column.texts() if isinstance(column, Utf8Column) else column
        is_known = schema is None or schema.name in _OF_NAME or schema.type in _OF_TYPE
        kinds = set(map(type, () if isinstance(column, Repeated) else values))
        if not is_known or not kinds or type(None) in kinds:
            return mapped(partial(self._converted, schema), values)
        moments = self._all_milliseconds(schema, values, kinds)
        if self.target_type == _STRING and self._format is not None:
            return self._format.format_all(moments)
        return list(map(self._written, values, moments))

    def _all_milliseconds(self, schema: Schema | None, values: Sequence[Any], kinds: set[type]) -> Sequence[int]:
        form = _form(schema, values[0])
        if form == _STRING and kinds == {str} and self._format is not None:
            return self._format.parse_all(values)
        is_fitting = form == _UNIX and kinds == {int} and min(values) >= -_INT64 and max(values) < _INT64
        if is_fitting and self.unix_precision == "milliseconds":
            return values
        return [self._milliseconds(schema, value) for value in values]

    def _milliseconds(self, schema: Schema | None, value: Any) -> int:
        form = _form(schema, value)
        if form == _STRING:
            return self._parsed(value)
        if form == _UNIX:
            if not isinstance(value, int) or isinstance(value, bool):
                raise RecordError(f"Expected Unix timestamp to be a Long, but found {type(value).__name__}")
            times, parts = _UNITS[self.unix_precision]
            return _saturated(_quotient(value, parts) * times)
        if not isinstance(value, dt.date | dt.time):
            raise RecordError(f"Expected {form} to be a date or time, but found {type(value).__name__}")
        return milliseconds(value)

    def _parsed(self, value: Any) -> int:
        if not isinstance(value, str):
            raise RecordError(f"Expected string timestamp to be a String, but found {type(value).__name__}")
        if self._format is None:
            raise RecordError("TimestampConverter requires format option to be specified when using string timestamps")
        try:
            return self._format.parse(value)
        except ValueError:
            raise RecordError(
                f"Could not parse timestamp: value ({value}) does not match pattern ({self._format.pattern})"
            ) from None

    def _written(self, value: Any, ms: int) -> Any:
        match self.target_type:
            case "string":
                assert self._format is not None
                return self._format.format(ms)
            case "unix":
                times, parts = _UNITS[self.unix_precision]
                return _saturated(_quotient(ms, times) * parts)
            case "Date":
                return moment(ms).date()
            case "Time":
                return moment(ms % DAY_MS).time()
            case _:
                return value if isinstance(value, dt.datetime) else moment(ms)


TimestampConverterKey, TimestampConverterValue = both_sides(TimestampConverter, "Converts times in record {side}s.")


def _form(schema: Schema | None, value: Any) -> str:
    """Return the form of a time, by its schema or, without one, by its type."""
    if schema is not None:
        return _OF_NAME[schema.name] if schema.name in _OF_NAME else _OF_TYPE[schema.type]
    if isinstance(value, str):
        return _STRING
    if isinstance(value, int) and not isinstance(value, bool):
        return _UNIX
    if isinstance(value, dt.date | dt.time):
        return "Timestamp"
    raise RecordError(f"TimestampConverter does not support {type(value).__name__} objects as timestamps")


def _quotient(number: int, by: int) -> int:
    """Return a quotient rounded towards 0, as Java's `TimeUnit` does."""
    return number // by if number >= 0 else -(-number // by)


def _saturated(number: int) -> int:
    return max(-_INT64, min(_INT64 - 1, number))
