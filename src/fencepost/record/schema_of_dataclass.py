"""The schema of a dataclass, from the annotations of its fields."""

import datetime as dt
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any

from fencepost.record.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaError,
)

_PLAIN: dict[Any, Schema] = {
    str: STRING,
    int: INT64,
    float: FLOAT64,
    bool: BOOLEAN,
    bytes: BYTES,
    dt.date: DATE,
    dt.time: TIME,
    dt.datetime: TIMESTAMP,
}
_LISTS, _MAPS = (list, Sequence), (dict, Mapping)
_HOW = (
    "use str, int, float, bool, bytes, date, time, datetime, a dataclass, a list or dict of these, each perhaps with "
    "| None, or give its schema: Annotated[Decimal, decimal(2)]"
)


def schema_of_dataclass(of: type[Any], name: str | None = None) -> Schema:
    """Return the schema of a dataclass, named after the class unless `name` is given. Raises SchemaError."""
    if not (isinstance(of, type) and is_dataclass(of)):
        raise SchemaError(f"{of!r} is not a dataclass")
    hints = typing.get_type_hints(of, include_extras=True)
    members = {field.name: _schema_of(hints[field.name], f"{of.__name__}.{field.name}") for field in fields(of)}
    return Schema.struct(members, name=name or of.__name__)


def _schema_of(hint: Any, where: str) -> Schema:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and is_dataclass(hint):
        return schema_of_dataclass(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        given = next((each for each in arguments[1:] if isinstance(each, Schema)), None)
        return given if given is not None else _schema_of(arguments[0], where)
    if origin in (typing.Union, types.UnionType):
        others = [each for each in arguments if each is not types.NoneType]
        if len(others) == 1 < len(arguments):
            return _schema_of(others[0], where).optional()
    if origin in _LISTS:
        return Schema.array(_schema_of(arguments[0], where))
    if origin in _MAPS:
        return Schema.map(_schema_of(arguments[0], where), _schema_of(arguments[1], where))
    raise SchemaError(f"{where}: {getattr(hint, '__name__', hint)} has no schema of its own; {_HOW}")
