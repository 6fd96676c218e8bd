"""Dataclasses as JSON objects: one encoder and one decoder for all messages of the channel."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

Read = Callable[[Any], Any]


class Message:
    """Base of a dataclass that travels as a JSON object with its fields by name.

    A field may be a JSON value, an Enum, bytes of UTF-8 text, a tuple, None, or what has `to_json` and `from_json`.
    """

    def to_json(self) -> dict[str, Any]:
        return {name: _encoded(value) for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the message that `to_json` encoded. Fields that a newer end adds are ignored."""
        readers = _readers(cls)  # type: ignore[arg-type]  # a class is hashable
        return cls(**{name: read(data[name]) for name, read in readers.items() if name in data})


def _encoded(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, tuple | list):
        return [_encoded(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value


@lru_cache
def _readers(cls: Any) -> dict[str, Read]:
    hints = get_type_hints(cls)
    return {one.name: _reader(hints[one.name]) for one in fields(cls)}


def _reader(kind: Any) -> Read:
    """Return the function that makes a value of this type from JSON."""
    if get_origin(kind) is UnionType:
        return _optional(*(_reader(each) for each in get_args(kind) if each is not NoneType))
    if get_origin(kind) is tuple:
        return _tuple(*get_args(kind))
    if hasattr(kind, "from_json"):
        return kind.from_json  # type: ignore[no-any-return]
    if kind is bytes:
        return str.encode
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    return lambda value: value


def _optional(read: Read, *others: Read) -> Read:
    assert not others, "only unions with None can be read"
    return lambda value: None if value is None else read(value)


def _tuple(kind: Any, *others: Any) -> Read:
    read = _reader(kind)
    if others == (...,):
        return lambda values: tuple(map(read, values))
    reads = (read, *map(_reader, others))
    return lambda values: tuple(each(value) for each, value in zip(reads, values, strict=True))
