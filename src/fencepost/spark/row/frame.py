"""From the rows that a DataFrame connector reads to the columns `key` and `value` that the data source writes."""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fencepost.config import ConfigError
from fencepost.spark.row.connect_json import envelope, json_struct, json_value

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
        raise ConfigError(f"{_SQL} cannot be used: {_first_line(error)}") from error
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


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
