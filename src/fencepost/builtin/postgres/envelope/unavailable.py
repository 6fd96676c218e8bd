"""What stands for a large value that Postgres does not send, as a change did not touch it."""

import hashlib
import struct
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.api import SchemaType
from fencepost.builtin.postgres.envelope.compound import pairs_json

Placeholders = Mapping[SchemaType | None, Sequence[Any]]


def placeholder(text: str) -> bytes:
    """Return what `unavailable.value.placeholder` says. Raises ValueError for `hex:` without hexadecimal digits."""
    return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()


def as_text(raw: bytes) -> str:
    """Return the placeholder of a text."""
    return raw.decode("utf-8", "replace")


def as_pairs(raw: bytes) -> dict[str, str | None]:
    """Return the placeholder of an hstore."""
    return {as_text(raw): as_text(raw)}


def as_items(raw: bytes) -> dict[str, list[Any]]:
    """Return the placeholder of an array by the type of its elements; other types have none."""
    of_uuid = uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)
    return {
        **{name: [as_text(raw)] for name in ("bpchar", "json", "jsonb", "text", "varchar")},
        **{name: list(struct.unpack(f"{len(raw)}b", raw)) for name in ("date", "int4", "int8")},
        "bytea": [raw],
        "uuid": [str(of_uuid)],
    }


def placeholders(text: str) -> Placeholders:
    """Return what Debezium writes for `text`, its `unavailable.value.placeholder`, by the type of the field.

    An array has it as its only element; one of integers has its bytes, one of UUIDs a UUID made of it. None is the type
    of a field without a schema.
    """
    raw = placeholder(text)
    pairs, own = as_pairs(raw), as_text(raw)
    return {
        None: (own,),
        SchemaType.STRING: (own, pairs_json(pairs)),
        SchemaType.BYTES: (raw,),
        SchemaType.ARRAY: tuple(as_items(raw).values()),
        SchemaType.MAP: (pairs,),
    }
