"""Masks, hashes and lengths that settings give to columns by patterns: the first that matches a column is used."""

import hashlib
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from fencepost.api import Schema
from fencepost.builtin.postgres.envelope.meaning import Kind, decimals
from fencepost.builtin.postgres.envelope.selection import Matches, matching
from fencepost.builtin.postgres.envelope.settings import HASH, MASK, TRUNCATE, PostgresSettings, python_name

_UNLIMITED = 2_147_483_647
_PARAMETER = "__debezium.source.column"
_LENGTHS = {
    "bool": 1, "char": 1, "date": 13, "float4": 8, "float8": 17, "int2": 5, "int4": 10, "int8": 19, "oid": 10,
}  # fmt: skip
Change = Callable[[Any], Any]


class Rule(NamedTuple):
    """`change` is applied to values, None where a value stays; `parameters` are added to the schema."""

    matches: Matches
    change: Callable[[Kind], Change | None]
    parameters: Callable[[Kind, str, str], tuple[tuple[str, str], ...]]
    is_of_types: bool = False


class ColumnRules:
    """The rules of a config."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._rules = [
            *_given(settings, TRUNCATE, lambda found: _truncation(int(found[1]))),
            *_given(settings, MASK, lambda found: _mask("*" * int(found[1]))),
            *_propagation(settings.propagate_source_type, is_of_types=False),
            *_propagation(settings.propagate_source_datatype, is_of_types=True),
            *_given(settings, HASH, lambda found: _hash(found[2], found[3], is_second=bool(found[1]))),
        ]

    def __call__(
        self, table: str, column: str, kind: Kind, type_name: str, schema: Schema
    ) -> tuple[Schema, Change | None]:
        """Return a column's schema with what the rules add, and the change of its values that are not null."""
        for rule in self._rules:
            if rule.matches(f"{table}.{type_name if rule.is_of_types else column}"):
                added = rule.parameters(kind, type_name, column)
                return replace(schema, parameters=(*schema.parameters, *added)), rule.change(kind)
        return schema, None


def _given(settings: PostgresSettings, key: re.Pattern[str], made: Callable[[re.Match[str]], Any]) -> Iterator[Rule]:
    for name, patterns in settings.originals.items():
        found = key.fullmatch(name)
        if found is not None:
            change, parameters = made(found)
            yield Rule(matching(str(patterns)), change, parameters)


def _truncation(most: int) -> tuple[Any, Any]:
    def is_possible(kind: Kind) -> bool:
        return length(kind) > most

    def cut(value: Any) -> Any:
        return value[:most] if isinstance(value, bytes) else _cut(value, most)

    return (
        lambda kind: cut if is_possible(kind) else None,
        lambda kind, *_: (("truncateLength", str(most)),) if is_possible(kind) else (),
    )


def _cut(value: Any, most: int) -> Any:
    """Return so many of Java's characters of a text."""
    if not isinstance(value, str) or len(value) <= most // 2:
        return value
    return value.encode("utf-16-le", "surrogatepass")[: 2 * most].decode("utf-16-le", "replace")


def _mask(mask: str) -> tuple[Any, Any]:
    return (lambda kind: (lambda _: mask) if _is_text(kind) else None), (lambda *_: (("masked", "true"),))


def _hash(algorithm: str, salt: str, *, is_second: bool) -> tuple[Any, Any]:
    salted = hashlib.new(python_name(algorithm), salt.encode())

    def hashed(value: Any) -> Any:
        if value is None:
            return None
        digest = salted.copy()
        digest.update(value.encode() if is_second else _serialized(value))
        return digest.hexdigest()

    def change(kind: Kind) -> Change | None:
        if not _is_text(kind):
            return None
        most = length(kind)
        return lambda value: _cut(hashed(value), most)

    return change, (lambda *_: (("masked", "true"),))


def _serialized(text: str) -> bytes:
    """Return a text as Java's ObjectOutputStream writes it."""
    units = text.encode("utf-16-be", "surrogatepass")
    raw = b"".join(
        chr(unit).encode("utf-8", "surrogatepass") if unit else b"\xc0\x80"
        for unit in struct.unpack(f">{len(units) // 2}H", units)
    )
    head = b"\x74" + struct.pack(">H", len(raw)) if len(raw) < 65536 else b"\x7c" + struct.pack(">Q", len(raw))
    return b"\xac\xed\x00\x05" + head + raw


def _propagation(patterns: str | None, *, is_of_types: bool) -> Iterator[Rule]:
    if patterns:
        yield Rule(matching(patterns), lambda kind: None, _source, is_of_types)


def _source(kind: Kind, type_name: str, column: str) -> tuple[tuple[str, str], ...]:
    pairs = ("type", type_name.upper()), ("length", str(length(kind))), ("scale", str(_scale(kind))), ("name", column)
    return tuple((f"{_PARAMETER}.{name}", value) for name, value in pairs)


def _is_text(kind: Kind) -> bool:
    return kind.element is None and not kind.labels and kind.name in ("bpchar", "char", "name", "text", "varchar")


def length(kind: Kind) -> int:
    """Return the length of a column as the JDBC driver reports it: digits of a numeric, characters of a text."""
    name = kind.name if kind.element is None else kind.element
    if kind.labels:
        return _UNLIMITED
    if name == "numeric":
        return 131_089 if kind.modifier < 0 else (kind.modifier - 4) >> 16
    if name in ("bpchar", "varchar"):
        return _UNLIMITED if kind.modifier < 0 else kind.modifier - 4
    if name in ("bit", "varbit"):
        return kind.modifier if kind.modifier >= 0 else _UNLIMITED
    fraction = decimals(kind.modifier)
    more = fraction + 1 if fraction else 0
    width = {"time": 8, "timetz": 14, "timestamp": 22, "timestamptz": 28}.get(name)
    if width is not None:
        return width + more
    return 49 if name == "interval" else _LENGTHS.get(name, _UNLIMITED)


def _scale(kind: Kind) -> int:
    name = kind.name if kind.element is None else kind.element
    if name == "numeric":
        return 0 if kind.modifier < 0 else (kind.modifier - 4) & 0xFFFF
    if name == "interval":
        return decimals(kind.modifier) & 0xFFFF
    if name in ("time", "timetz", "timestamp", "timestamptz"):
        return decimals(kind.modifier)
    return {"float4": 8, "float8": 17}.get(name, 0)
