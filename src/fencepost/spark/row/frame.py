"""From the rows that a DataFrame connector reads to the columns `key` and `value` that the data source writes.

JsonConverter's JSON is built in the JVM. With a schema, dates, times, timestamps, decimals and binaries have the forms
of Connect's logical types, whose times and timestamps are in milliseconds. Without a schema they have Spark's forms,
with microseconds if there are any.
"""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fencepost.api import STRING, Schema, decimal
from fencepost.builtin.converter.json_encoding import EncodingOptions
from fencepost.builtin.converter.json_schema import schema_to_json
from fencepost.config import ConfigError
from fencepost.record.schema import schema_of
from fencepost.record.type_table import of_spark
from fencepost.spark.row.kafka_columns import has_type

# A decimal of up to 18 digits is stored as an unscaled long: eight bytes, which Connect reads as a whole number.
_LONG_DIGITS = 18
_TIMES = (T.TimestampType, T.TimestampNTZType)
_MICROS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"


def json_value(column: Any, kind: Any) -> Any:
    """Return the JSON text of a column of type `kind`; null for a null."""
    wrapped = F.to_json(F.array(_with_micros(column, kind)), {"ignoreNullFields": "false"})
    return F.when(column.isNotNull(), wrapped.substr(F.lit(2), F.length(wrapped) - 2))


def json_struct(columns: Any, kind: Any) -> Any:
    """Return the JSON object of a struct column of type `kind`, null fields included."""
    return F.to_json(_with_micros(columns, kind), {"ignoreNullFields": "false"})


def envelope(column: Any, kind: Any, *, is_optional: bool) -> Any:
    """Return `{"schema":…,"payload":…}` of a column of type `kind`."""
    payload = _each_leaf(column, kind, _logical_form)
    wrapped = F.to_json(F.array(payload), {"ignoreNullFields": "false"})
    text = wrapped.substr(F.lit(2), F.length(wrapped) - 2)
    before, after = around_payload(kind, is_optional=is_optional)
    return F.when(column.isNotNull(), F.concat(F.lit(before), text, F.lit(after)))


def around_payload(kind: Any, *, is_optional: bool = False) -> tuple[str, str]:
    """Return the text before and after each payload of type `kind`. Raises ConfigError for a type without a schema."""
    schema = replace(connect_schema(kind), is_optional=is_optional)
    return f'{{"schema":{orjson.dumps(schema_to_json(schema, EncodingOptions())).decode()},"payload":', "}"


def connect_schema(kind: Any) -> Schema:
    """Return Connect's schema of a Spark type, any part of which may be null. Raises ConfigError if it has none."""
    if isinstance(kind, T.StructType):
        return Schema.struct({f.name: connect_schema(f.dataType) for f in kind.fields}, is_optional=True)
    if isinstance(kind, T.ArrayType):
        return Schema.array(connect_schema(kind.elementType)).optional()
    if isinstance(kind, T.MapType) and isinstance(kind.keyType, T.StringType):
        return Schema.map(STRING, connect_schema(kind.valueType)).optional()
    type_ = of_spark(kind.simpleString())
    if type_ is None:
        raise ConfigError(
            f"a column of type {kind.simpleString()} has no Connect schema: cast it in transforms.sql, "
            "or set value.converter.schemas.enable=false"
        )
    if isinstance(kind, T.DecimalType):
        return (STRING if kind.precision > _LONG_DIGITS else decimal(kind.scale)).optional()
    return schema_of(type_).optional()


def _each_leaf(column: Any, kind: Any, changed: Callable[[Any, Any], Any]) -> Any:
    """Return the column with `changed(column, type)` in place of every leaf: all but structs, arrays and maps.

    Keys of maps stay.
    """
    if isinstance(kind, T.StructType):
        members = [_each_leaf(column.getField(f.name), f.dataType, changed).alias(f.name) for f in kind.fields]
        return F.when(column.isNotNull(), F.struct(*members))
    if isinstance(kind, T.ArrayType):
        return F.transform(column, lambda item: _each_leaf(item, kind.elementType, changed))
    if isinstance(kind, T.MapType):
        return F.transform_values(column, lambda _, value: _each_leaf(value, kind.valueType, changed))
    return changed(column, kind)


def _with_micros(column: Any, kind: Any) -> Any:
    """Return the column with times as text where `to_json`, which writes milliseconds, would cut off microseconds."""
    return _each_leaf(column, kind, _time_text) if has_type(kind, _TIMES) else column


def _time_text(column: Any, kind: Any) -> Any:
    if not isinstance(kind, _TIMES):
        return column
    # In the form of `to_json`: a time without a zone must not be moved into a zone in which it may not exist.
    formats = {"timestampFormat": f"{_MICROS}XXX", "timestampNTZFormat": _MICROS}
    fine, short = (F.to_json(F.struct(column.alias("t")), options) for options in (formats, {}))
    text = F.when(F.unix_micros(column.cast("timestamp")) % 1_000 == 0, short).otherwise(fine)
    return F.when(column.isNotNull(), text.substr(F.lit(len('{"t":"') + 1), F.length(text) - len('{"t":""}')))


def _logical_form(column: Any, kind: Any) -> Any:
    """Return a value of a logical type in the form that its schema announces."""
    if isinstance(kind, T.DateType):
        return F.unix_date(column)
    if isinstance(kind, T.TimeType):
        return F.time_to_millis(column)
    if isinstance(kind, _TIMES):
        return F.unix_millis(column.cast("timestamp"))
    if isinstance(kind, T.DecimalType):
        return _decimal(column, kind)
    return column


def _decimal(column: Any, kind: Any) -> Any:
    if kind.precision > _LONG_DIGITS:
        return column.cast("string")
    unscaled = (column.cast(T.DecimalType(38, kind.scale)) * F.lit(10**kind.scale)).cast("long")
    return F.unhex(F.lpad(F.hex(unscaled), 16, "0"))


JSON, _STRING, BYTES = "JsonConverter", "StringConverter", "ByteArrayConverter"
_SQL = "transforms.sql"
_DAY_LITERAL = re.compile(r"""['"]\s*(now|today|tomorrow|yesterday)\b""", re.IGNORECASE)
# The nodes of a projection or filter over a named view, once Spark has analysed it.
_ROW_BY_ROW = {"Project", "Filter", "SubqueryAlias", "View", "WithCTE", "CTERelationDef", "CTERelationRef"}


@dataclass(frozen=True)
class ConverterChoice:
    """A converter that the JVM can replace, whether it writes schemas, and whether it replaces nulls by defaults."""

    key: str
    kind: str
    has_schemas: bool
    replaces_null: bool = True

    @classmethod
    def of(cls, properties: Mapping[str, str], key: str) -> "ConverterChoice":
        """Read `key` (key.converter, value.converter) of a config. Raises ConfigError for any other converter."""
        name = properties.get(key) or JSON
        kind = name.rpartition(".")[2]
        if kind not in (JSON, _STRING, BYTES):
            raise ConfigError(
                f"{key}={name}: a DataFrame connector writes with {JSON}, {_STRING} or {BYTES}; choose one of them"
            )
        has_schemas, replaces_null = (
            properties.get(f"{key}.{name}", "true").lower() == "true"
            for name in ("schemas.enable", "replace.null.with.default")
        )
        return cls(key, kind, has_schemas, replaces_null)


def with_sql(session: Any, frame: Any, query: str, names: Sequence[str] = ("split", "source")) -> Any:
    """Apply `transforms.sql` to the rows: a query of projections and filters over them, under one of these names.

    Raises ConfigError if the query is wrong or does more. Rows must keep their order, and each must depend only on
    itself, because a number of rows is a position.
    """
    view = f"fencepost_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(view)
    own = query.strip().rstrip(";")
    views = ", ".join(f"{name} AS (SELECT * FROM {view})" for name in names)
    named = f"WITH {views} SELECT * FROM (\n{own}\n)"
    try:
        result = session.sql(named)
        foreign = _foreign_node(result._jdf.queryExecution().analyzed(), view)
    except AnalysisException as error:
        raise ConfigError(f"{_SQL} cannot be used: {first_line(error)}") from error
    finally:
        session.catalog.dropTempView(view)
    if foreign is not None:
        raise ConfigError(
            f"{_SQL} may project and filter the view `{names[0]}` only; {foreign} is more than that: "
            "do it in the connector's own query, or downstream"
        )
    return result


def is_repeatable(frame: Any, query: str | None) -> bool:
    """Return whether the frame, made by `query`, has the same rows when it is read again, at any time and in any place.

    Spark calls `current_date()`, `now()`, `current_user()` and the like deterministic, because its optimiser replaces
    them by constants. They are found before that, in the analysed plan, by the mark with which the optimiser finds
    them. Casts of 'today' are found by the changes of Spark's rule for them. In `DATE 'today'` the parser has replaced
    it already.
    """
    jvm = frame.sparkSession._jvm
    rules = jvm.org.apache.spark.sql.catalyst.optimizer
    plan = rules.ReplaceExpressions.apply(frame._jdf.queryExecution().analyzed())  # nodes that replace others
    is_of_now = plan.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE())
    if not plan.deterministic() or is_of_now or (query is not None and _DAY_LITERAL.search(query)):
        return False
    return bool(rules.SpecialDatetimeValues.apply(plan).fastEquals(plan))


def record_columns(
    schema: T.StructType,
    value: ConverterChoice | None,
    key: ConverterChoice | None = None,
    key_field: str | None = None,
    key_setting: str = "key.field",
) -> list[Any]:
    """Return the column `value`, and `key` if there is a key field, of any frame with this schema.

    A frame with a single column named `value` has plain values; any other has structs of its columns. `value` None:
    values stay as they are, and executors convert them.
    """
    if key_field is not None and key_field not in schema.fieldNames():
        raise ConfigError(
            f"{key_setting}={key_field}: there is no such column; there are {', '.join(schema.fieldNames())}"
        )
    columns = [_value(schema, value).alias("value")]
    if key_field is not None and key is not None:
        columns.append(_converted(_column(key_field), schema[key_field].dataType, key).alias("key"))
    return columns


def _value(schema: T.StructType, choice: ConverterChoice | None) -> Any:
    fields = schema.fields
    if choice is None:
        is_plain = len(fields) == 1 and fields[0].name == "value"
        return _column("value") if is_plain else F.struct(*[_column(f.name) for f in fields])
    if len(fields) == 1 and (fields[0].name == "value" or choice.kind != JSON):
        return _converted(_column(fields[0].name), fields[0].dataType, choice)
    if choice.kind != JSON:
        raise ConfigError(
            f"{choice.key}={choice.kind} writes one column, but there are {len(fields)}: choose one in {_SQL}, or "
            f"use {JSON}"
        )
    struct = F.struct(*[_column(f.name) for f in fields])
    return envelope(struct, schema, is_optional=False) if choice.has_schemas else json_struct(struct, schema)


def _converted(column: Any, kind: Any, choice: ConverterChoice) -> Any:
    if choice.kind == BYTES:
        if not isinstance(kind, T.BinaryType | T.StringType):
            raise ConfigError(f"{choice.key}={BYTES} needs a binary column, not {kind.simpleString()}")
        return column.cast("binary")
    if choice.kind == _STRING:
        return column.cast("string")
    return envelope(column, kind, is_optional=True) if choice.has_schemas else json_value(column, kind)


def _column(name: str) -> Any:
    return F.col("`" + name.replace("`", "``") + "`")


def _foreign_node(node: Any, view: str) -> str | None:
    """Return the name of the first node of a plan that is not a projection or filter, down to `view`."""
    name = str(node.nodeName())
    if name == "SubqueryAlias" and view in str(node.alias()):
        return None
    if name not in _ROW_BY_ROW:
        return name
    if not node.subqueries().isEmpty():
        return "a subquery"
    children = node.children()
    found = (_foreign_node(children.apply(i), view) for i in range(children.length()))
    return next((f for f in found if f is not None), None)


def first_line(error: Exception) -> str:
    """Return the first line of an error's text: Spark's have many."""
    return str(error).strip().splitlines()[0]
