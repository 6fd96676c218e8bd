"""Structs, unions and parts of compound schemas, as the encoders of all formats treat them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter.scalar import mapping

Encode = Callable[[Any], Any]


def part(schema: Schema | None) -> Schema:
    """Return the schema of a part. Raises RecordError if it is missing."""
    if schema is None:
        raise RecordError("The schema of an array or map lacks the schema of its items")
    return schema


def struct_encoder(members: Sequence[tuple[str, str, Encode]], *, omits_unknown: bool = False) -> Encode:
    """Return a function from a struct to a dict. `members` are the names of fields here and there, and their encoders.

    It raises RecordError for a misfit, and names the field. Others are refused, or left out where `omits_unknown`.
    """
    known = frozenset(name for name, _, _ in members)

    def encode(value: Any) -> dict[str, Any]:
        if not known.issuperset(mapping(value)) and not omits_unknown:
            raise RecordError(f"{sorted(set(value) - known)[0]} is not a valid field name")
        encoded = {}
        for name, written, encode_field in members:
            try:
                encoded[written] = encode_field(value.get(name))
            except RecordError as error:
                raise RecordError(f"{name}: {error}") from error
        return encoded

    return encode


def member_of_union(value: Any, members: Mapping[str, Any], *, is_optional: bool) -> tuple[str, Any] | None:
    """Return the one field that a union, a struct, has, and its value; None if it may have none.

    Raises RecordError if there are more, or others than `members`, which are by name.
    """
    given = {} if value is None else {name: item for name, item in mapping(value).items() if item is not None}
    if not given and is_optional:
        return None
    if len(given) != 1 or not given.keys() <= members.keys():
        raise RecordError(
            f"A value of a union needs one of its fields ({', '.join(members)}), but has {', '.join(given) or 'none'}"
        )
    ((name, item),) = given.items()
    return name, item
