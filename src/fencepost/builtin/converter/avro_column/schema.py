"""Avro schemas as trees of types, each with what a decoder needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.api import RecordError
from fencepost.builtin.converter.registry.avro import parsing

_MOST_DIGITS = 38  # of an Arrow decimal
_DEEPEST = 100


class AvroSchemaError(ValueError):
    """A schema that is not Avro, that has no columns, or that does not fit another one."""


@dataclass(frozen=True)
class Logical:
    """A logical type. `precision` and `scale` are those of a decimal."""

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Primitive:
    """A type without a name or parts, such as `long`."""

    kind: str
    logical: Logical | None = None


@dataclass(frozen=True)
class Fixed:
    """So many bytes."""

    name: str
    size: int
    logical: Logical | None = None
    kind: str = "fixed"


@dataclass(frozen=True)
class Enum:
    """One of some symbols. `default`: what a reader takes for a symbol that it does not know."""

    name: str
    symbols: tuple[str, ...]
    default: str | None = None
    kind: str = "enum"


@dataclass(frozen=True)
class Array:
    """Any number of items."""

    items: "AvroType"
    kind: str = "array"


@dataclass(frozen=True)
class Map:
    """Values by text."""

    values: "AvroType"
    kind: str = "map"


@dataclass(frozen=True)
class Union:
    """One of some types."""

    branches: tuple["AvroType", ...]
    kind: str = "union"

    @property
    def some(self) -> tuple["AvroType", ...]:
        """Return the branches other than null."""
        return tuple(branch for branch in self.branches if branch.kind != "null")

    @property
    def has_null(self) -> bool:
        return len(self.some) < len(self.branches)


@dataclass(frozen=True)
class Field:
    """A field of a record. `default` is JSON; it has a meaning only if `has_default`."""

    name: str
    type: "AvroType"
    has_default: bool = False
    default: Any = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """Fields in an order."""

    name: str
    fields: tuple[Field, ...]
    kind: str = "record"


AvroType = Primitive | Fixed | Enum | Array | Map | Union | Record


def parsed(text: str, references: Sequence[str] = ()) -> AvroType:
    """Parse a schema. `references` are schemas whose names it uses, each after those that it uses itself.

    Raises AvroSchemaError.
    """
    try:
        return _typed(parsing.parsed(text, references), 0)
    except RecordError as error:
        raise AvroSchemaError(str(error)) from error


def _typed(found: parsing.AvroType, depth: int) -> AvroType:
    if depth > _DEEPEST:
        raise AvroSchemaError(f"the schema is nested more than {_DEEPEST} deep")
    name, below = found.name or "", depth + 1
    match found.kind:
        case "record":
            aliases = [each.get("aliases") or () for each in found.props["fields"]]
            return Record(name, tuple(map(_field, found.fields, aliases, [below] * len(aliases))))
        case "enum":
            return Enum(name, tuple(found.symbols), found.props.get("default"))
        case "fixed":
            return Fixed(name, found.size, _logical(found))
        case "union":
            return Union(tuple(_typed(each, below) for each in found.members))
        case "array" | "map" if found.items is not None:
            items = _typed(found.items, below)
            return Array(items) if found.kind == "array" else Map(items)
    return Primitive(found.kind, _logical(found))


def _field(found: parsing.AvroField, aliases: Sequence[str], depth: int) -> Field:
    has_default = found.default is not parsing.MISSING
    default = found.default if has_default else None
    return Field(found.name, _typed(found.type, depth), has_default, default, tuple(map(str, aliases)))


_LOGICAL = {
    ("date", "int"), ("time-millis", "int"), ("time-micros", "long"), ("timestamp-millis", "long"),
    ("timestamp-micros", "long"), ("local-timestamp-millis", "long"), ("local-timestamp-micros", "long"),
    ("uuid", "string"),
}  # fmt: skip


def _logical(found: parsing.AvroType) -> Logical | None:
    """Return a logical type, or None for one that is unknown or wrong: Avro's rule is to ignore it then."""
    name = found.logical_type
    if name is not None and (name, found.kind) in _LOGICAL:
        return Logical(name)
    if name != "decimal" or found.kind not in ("bytes", "fixed"):
        return None
    precision, scale = found.props.get("precision"), found.props.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or precision < 1:
        return None
    if scale > _MOST_DIGITS:
        raise AvroSchemaError(f"a decimal of scale {scale} has no column: the most is {_MOST_DIGITS} digits")
    # Kafka Connect announces 64 digits if it does not know better; values with more than a column has are refused.
    return Logical("decimal", min(precision, _MOST_DIGITS), scale)
