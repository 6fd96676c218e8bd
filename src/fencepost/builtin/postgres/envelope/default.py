"""Default values of columns: literals, as schemas show them. For what a function makes, Debezium has a stand-in."""

import re
from collections.abc import Mapping
from typing import Any

from fencepost.api import SchemaType
from fencepost.builtin.postgres.envelope.meaning import Kind, Meaning, precision_and_scale
from fencepost.builtin.postgres.envelope.number import precise

_FUNCTION = re.compile(r"\(?[A-Za-z0-9_.]+\(.*\)", re.DOTALL)
_LITERAL = re.compile(r"\(*(E?)'((?:[^']|'')*)'", re.DOTALL)
_NOW = {"current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"}
_STAND_INS: Mapping[str, str] = {
    **dict.fromkeys(("bpchar", "text", "varchar", "xml"), ""), **dict.fromkeys(("int2", "int4", "int8"), "0"),
    **dict.fromkeys(("float4", "float8", "numeric"), "0.0"), **dict.fromkeys(("json", "jsonb"), "{}"),
    "bit": "00", "bool": "false", "date": "1970-01-01", "interval": "00:00:00", "time": "00:00:00",
    "timestamp": "1970-01-01 00:00:00", "timestamptz": "1970-01-01 00:00:00+00",
    "uuid": "00000000-0000-0000-0000-000000000000", "varbit": "0",
}  # fmt: skip
"""The types whose defaults schemas have, and the text that stands for what a function makes."""


def default_of(kind: Kind, found: Meaning, expression: str | None) -> Any:
    """Return the default that an expression of `pg_get_expr` gives a column; None if schemas show none."""
    if expression is None or kind.element is not None or not (kind.labels or kind.name in _STAND_INS):
        return None
    try:
        text = _text(kind, expression.strip())
        return None if text is None else _value(kind, found, text)
    except (ArithmeticError, LookupError, ValueError):  # an expression that is no literal
        return None


def _text(kind: Kind, expression: str) -> str | None:
    literal = _LITERAL.match(expression)
    if kind.labels:
        return None if literal is None else literal[2].replace("''", "'")
    if _FUNCTION.match(expression) or expression.lower() in _NOW:
        return _STAND_INS[kind.name]
    if expression.startswith("NULL::"):
        return None
    if literal is None:
        return expression.removeprefix("B")
    text = literal[2].replace("''", "'")
    return text.replace("\\\\", "\\") if literal[1] else text


def _value(kind: Kind, found: Meaning, text: str) -> Any:
    if kind.name == "bool":
        return text.lower() == "true"
    if kind.name == "bit" and text == "00" and found.schema.type is SchemaType.BOOLEAN:
        return False
    value = found.value(_scaled(kind, text) if kind.name == "numeric" else text)
    return None if isinstance(value, dict) else value  # a struct has no default in Kafka Connect's JSON


def _scaled(kind: Kind, text: str) -> str:
    """Return a literal with the decimals of its column, which `pg_get_expr` does not add."""
    precision, scale = precision_and_scale(kind.modifier)
    return text if precision is None else format(precise(scale)(text), "f")
