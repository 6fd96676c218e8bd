"""Reads the JSON of an Avro schema: names resolved, everything checked, other schemas that it refers to included.

Also the names that Confluent's mapping gives things, and the properties for what Avro has no place for.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

from fencepost.api import RecordError
from fencepost.record.schema import DECIMAL_PRECISION

NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = f"{NAMESPACE}.ConnectDefault"
MAP_ENTRY = "MapEntry"
KEY, VALUE = "key", "value"

AVRO_UNION, AVRO_ENUM = f"{NAMESPACE}.Union", f"{NAMESPACE}.Enum"
UNION, ENUM = "org.apache.kafka.connect.data.Union", "org.apache.kafka.connect.data.Enum"
UNION_FIELD = "connect_union_field_"

CONNECT_NAME, CONNECT_DOC, CONNECT_VERSION = "connect.name", "connect.doc", "connect.version"
CONNECT_DEFAULT, CONNECT_PARAMETERS, CONNECT_TYPE = "connect.default", "connect.parameters", "connect.type"
RECORD_DOC, ENUM_DOC, INTERNAL_TYPE = "connect.record.doc", "connect.enum.doc", "connect.internal.type"
FIXED_SIZE, PRECISION = "connect.fixed.size", DECIMAL_PRECISION
DEFAULT_PRECISION = 64

_START = re.compile(r"[A-Za-z_]")
_INVALID = re.compile(r"[^A-Za-z0-9_]")
_VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_GENERATED = re.compile(re.escape(DEFAULT_NAME) + r"\d*")


def is_valid(name: str) -> bool:
    """Return whether Avro allows this as the name of a field or symbol, or a part of a full name."""
    return _VALID.fullmatch(name) is not None


def is_valid_full(name: str) -> bool:
    """Return whether Avro allows this as a full name, with dots between its parts."""
    return all(map(is_valid, name.split(".")))


def scrubbed(name: str) -> str:
    """Return a name with the characters that Avro does not allow replaced, as Confluent's converter does."""
    encoded = quote_plus(name, safe="*-._")
    if not _START.match(encoded):
        encoded = "x" + encoded
    return _INVALID.sub("_", encoded)


def scrubbed_full(name: str) -> str:
    """Return a full name, each part of which is scrubbed."""
    return ".".join(map(scrubbed, name.split(".")))


def is_generated(name: str) -> bool:
    """Return whether a record got its name because a struct had none."""
    return _GENERATED.fullmatch(name) is not None


PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
MISSING: Any = object()
"""The default of a field that has none. None is a default: null."""


@dataclass(eq=False)
class AvroType:
    """A type: `kind` is a primitive, `record`, `enum`, `fixed`, `array`, `map` or `union`. A tree without cycles.

    `name` is the full name of a named type, `props` are all attributes of the JSON object. `items` is the type of an
    array's items, or of a map's values. A type that occurs twice is the same object.
    """

    kind: str
    props: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    fields: "list[AvroField]" = field(default_factory=list)
    items: "AvroType" = field(default=None)  # type: ignore[assignment]
    members: "list[AvroType]" = field(default_factory=list)

    @property
    def logical_type(self) -> str | None:
        found = self.props.get("logicalType")
        return found if isinstance(found, str) else None

    @property
    def symbols(self) -> list[str]:
        """Return the symbols of an enum."""
        found: list[str] = self.props["symbols"]
        return found

    @property
    def size(self) -> int:
        """Return the size of a fixed in bytes."""
        found: int = self.props["size"]
        return found


@dataclass(frozen=True)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    default: Any = MISSING
    doc: str | None = None
    aliases: Sequence[str] = ()


def parsed(text: str, referenced: Iterable[str] = ()) -> AvroType:
    """Return the type that a schema's text defines. `referenced` are the schemas that define names it uses.

    Raises RecordError for a text that is no Avro schema, or a schema that contains itself.
    """
    parser = _Parser()
    for each in referenced:
        parser.type(_json(each), "")
    return parser.type(_json(text), "")


def of_json(schema: Any) -> AvroType:
    """Return the type that a schema's parsed JSON defines. Raises RecordError as `parsed` does."""
    return _Parser().type(schema, "")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise RecordError(f"The schema is not valid Avro, because it is not JSON ({error}): {text[:200]}") from error


class _Parser:
    """Reads types in the order of the text, in which a name is defined before it is used."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}
        self._open: list[str] = []

    def type(self, schema: Any, namespace: str) -> AvroType:
        try:
            return self._type(schema, namespace)
        except RecursionError as error:
            raise RecordError("The Avro schema is nested too deeply") from error

    def _type(self, schema: Any, namespace: str) -> AvroType:
        if isinstance(schema, str):
            return AvroType(schema) if schema in PRIMITIVES else self._known(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if not isinstance(schema, dict) or "type" not in schema:
            raise _invalid("a type is text, a list, or an object with a type", schema)
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._of_name(schema, "record" if kind == "error" else kind, namespace)
        if kind in ("array", "map"):
            member = "items" if kind == "array" else "values"
            if member not in schema:
                raise _invalid(f"an {kind} needs {member}", schema)
            return AvroType(kind, schema, items=self._type(schema[member], namespace))
        if isinstance(kind, str) and kind in PRIMITIVES:
            return AvroType(kind, schema)
        return self._type(kind, namespace)

    def _known(self, name: str, namespace: str) -> AvroType:
        full = _full_name(name, namespace)
        full = full if full in self._named or full in self._open else name
        if full in self._open:
            raise RecordError(
                f"The Avro schema {full} contains itself, which a schema of Kafka Connect cannot: "
                f"{' > '.join([*self._open[self._open.index(full) :], full])}. Change the schema, or use "
                "ByteArrayConverter to pass the bytes on as they are"
            )
        if full not in self._named:
            raise _invalid(f"the name {name} is not defined", name)
        return self._named[full]

    def _union(self, members: list[Any], namespace: str) -> AvroType:
        found = [self._type(member, namespace) for member in members]
        names = [each.name or each.kind for each in found]
        if "union" in names or len(set(names)) != len(names):
            raise _invalid("a union has each type once, and no union", members)
        return AvroType("union", members=found)

    def _of_name(self, schema: dict[str, Any], kind: str, namespace: str) -> AvroType:
        name = _defined_name(schema, namespace)
        if name in self._named or name in self._open:
            raise _invalid(f"{name} is defined twice", schema)
        made = AvroType(kind, schema, name=name)
        if kind == "record":
            self._open.append(name)
            made.fields = self._fields(schema, name.rpartition(".")[0])
            self._open.pop()
        elif kind == "enum":
            symbols = schema.get("symbols")
            if not isinstance(symbols, list) or not all(map(_is_name, symbols)) or len({*symbols}) != len(symbols):
                raise _invalid("an enum needs a list of names, each once", schema)
        elif not isinstance(schema.get("size"), int) or isinstance(schema["size"], bool) or schema["size"] < 0:
            raise _invalid("a fixed needs a size", schema)
        self._named[name] = made
        return made

    def _fields(self, schema: dict[str, Any], namespace: str) -> list[AvroField]:
        members = schema.get("fields")
        if not isinstance(members, list):
            raise _invalid("a record needs a list of fields", schema)
        fields: list[AvroField] = []
        for member in members:
            if not isinstance(member, dict) or not _is_name(member.get("name")) or "type" not in member:
                raise _invalid("a field needs a name and a type", member)
            doc, aliases = member.get("doc"), member.get("aliases")
            doc = doc if isinstance(doc, str) else None
            aliases = tuple(map(str, aliases)) if isinstance(aliases, list) else ()
            type_ = self._type(member["type"], namespace)
            fields.append(AvroField(member["name"], type_, member.get("default", MISSING), doc, aliases))
        if len({each.name for each in fields}) != len(fields):
            raise _invalid("a record has each field once", schema)
        return fields


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _defined_name(schema: dict[str, Any], namespace: str) -> str:
    name, given = schema.get("name"), schema.get("namespace", namespace)
    if not isinstance(name, str) or not isinstance(given, str) or not is_valid_full(full := _full_name(name, given)):
        raise _invalid("a name has letters, digits and _, and begins with no digit", name)
    return full


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and is_valid(name)


def _invalid(rule: str, found: Any) -> RecordError:
    return RecordError(f"The schema is not valid Avro: {rule}, but found {str(found)[:200]}")
