"""What a format of the registry is: how it maps schemas, and how it reads and writes values."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from fencepost.api import Schema
from fencepost.builtin.converter.registry.client import WrittenSchema

Referenced = Mapping[str, WrittenSchema]
"""What a schema refers to, by name, those first that others refer to: `Registry.referenced`."""


class Writer(Protocol):
    """Writes values of one schema.

    `lead` is what Protobuf writes between the id of the schema and the payload, or after the GUID in a header.
    """

    lead: bytes

    def encode(self, value: Any) -> bytes:
        """Return the payload of a value. Raises RecordError if it does not fit the schema."""

    def encode_all(self, values: Sequence[Any], lead: bytes) -> list[bytes]:
        """Return the payloads of many values, each after `lead`. Raises RecordError if one does not fit."""


class Reader(Protocol):
    """Reads values of one schema of the registry."""

    def read(self, data: bytes, start: int) -> tuple[Schema, Any]:
        """Return the schema and value of the payload from `start` on. Raises RecordError if it is no such value."""

    def read_all(self, column: Sequence[bytes], start: int) -> tuple[Schema, list[Any]] | None:
        """Return the values of many payloads, or None if they do not share a Connect schema. Raises RecordError."""


class Written(NamedTuple):
    """The schema that values are written with, the name that record strategies use for it, and what writes them."""

    schema: WrittenSchema
    name: str | None
    writer: Writer


class Format(ABC):
    """A format. Raises RecordError for schemas that it cannot express."""

    @abstractmethod
    def written(self, schema: Schema) -> Written:
        """Return how values of a Connect schema are written."""

    @abstractmethod
    def rewritten(self, schema: WrittenSchema, referenced: Referenced, derived: Written, *, is_strict: bool) -> Writer:
        """Return what writes values with a schema of the registry instead of the one that was `derived` from Connect's.

        Fields that it lacks are refused if `is_strict`, and left out otherwise.
        """

    @abstractmethod
    def reader(self, schema: WrittenSchema, referenced: Referenced, version: int | None) -> Reader:
        """Return what reads values that were written with a schema. `version` is its version in the subject."""

    @abstractmethod
    def name_of(self, schema: WrittenSchema, referenced: Referenced) -> str | None:
        """Return the name of a schema of the registry, as `Written.name`."""
