"""The columns of Spark's own Kafka source."""

from collections.abc import Mapping
from typing import Any

from fencepost.config import ConfigError

TEXT = "string"
RECORD_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The types, in Spark's spelling; key and value may be text instead."""

PARSED = "_fencepost_parsed"
"""The column of an epoch with the structs that Arrow has made of values; the text of these values is null."""

MISFIT_REASON = "_fencepost_misfit"
"""The column of an epoch with the reason why a value does not fit its columns; its `value` is null."""

READ = "_fencepost_read"
"""The column of an epoch with values as they were read; `value` is the text that Spark gets."""

MADE_COLUMNS = (MISFIT_REASON, READ, PARSED)
"""The columns of an epoch that executors make of its values, in this order, after those of records."""

PARSED_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "double", "boolean", "string"})
"""The types of its fields, in Spark's spelling: Arrow's parser reads their values as Spark's does."""

_MAY_BE_TEXT = frozenset({"key", "value"})


def columns(*, has_headers: bool) -> str:
    """Return the columns and their types, in Spark's spelling; all of them may be null."""
    return written(_types(has_headers))


def with_value(*, has_headers: bool, value: Any) -> Any:
    """Return the columns as Spark's `StructType`, with values of a type of Spark. Needs no JVM."""
    from pyspark.sql import types as T  # noqa: N812

    header = T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())])
    kinds = {
        "string": T.StringType(), "binary": T.BinaryType(), "int": T.IntegerType(), "bigint": T.LongType(),
        "timestamp": T.TimestampType(), RECORD_COLUMNS["headers"]: T.ArrayType(header),
    }  # fmt: skip
    types = {name: kinds[kind] for name, kind in _types(has_headers).items()} | {"value": value}
    return T.StructType([T.StructField(name, kind) for name, kind in types.items()])


def has_type(kind: Any, kinds: tuple[type[Any], ...]) -> bool:
    """Return whether a type of Spark, or a part of it other than a map's keys, is of one of these classes."""
    if hasattr(kind, "fields"):
        return isinstance(kind, kinds) or any(has_type(field.dataType, kinds) for field in kind.fields)
    part = getattr(kind, "elementType", None) or getattr(kind, "valueType", None)
    return isinstance(kind, kinds) or (part is not None and has_type(part, kinds))


def written(types: Mapping[str, str]) -> str:
    """Return columns in the syntax of Spark's `schema()`."""
    return ", ".join(f"{name} {kind}" for name, kind in types.items())


def chosen(schema: Any, *, has_headers: bool, value: str | None = None) -> dict[str, str]:
    """Return the types, by name, of the columns of a query's schema, Spark's `StructType`: all, or those that a user
    set.

    `value` is the type of values that have columns of their own. Raises ConfigError for columns that do not exist.
    """
    types = _types(has_headers)
    may_be_text = _MAY_BE_TEXT
    if value is not None:
        types["value"] = value
        may_be_text -= {"value"}
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    fits = [types.get(name) == kind or (name in may_be_text and kind == TEXT) for name, kind in found.items()]
    if not found or not all(fits) or len(found) < len(schema.fields) or not all(f.nullable for f in schema.fields):
        raise ConfigError(
            f"the columns of records are fixed ({written(types)}): schema() may leave some out, and have key and value "
            "as STRING; leave the rest of it to select()"
        )
    return found


def arrow_columns(types: Mapping[str, str]) -> Any:
    """Return the Arrow schema of columns with types in Spark's spelling, as `RangeInput` takes it."""
    from fencepost.kafka.read.record_columns import schema  # imports Arrow, which the planning process does not need

    return schema(list(types), [name for name, kind in types.items() if kind == TEXT])


def with_registry(types: Mapping[str, str]) -> dict[str, str]:
    """Return the columns to read for columns of these types, if values have a schema in a registry."""
    return {**types, **{name: RECORD_COLUMNS[name] for name in ("value", "offset", "headers")}}


def _types(has_headers: bool) -> dict[str, str]:
    return {name: kind for name, kind in RECORD_COLUMNS.items() if has_headers or name != "headers"}
