"""The meaning of a setting's annotation: its Kafka type, and the Python value of the field."""

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Union

from fencepost.secret.redaction import HIDDEN


class Type(Enum):
    """The types of Kafka's ConfigDef, by the names that REST answers use. INT has 32 bits, LONG 64.

    >>> from fencepost.api import Config, Type, setting
    >>> class FeedConfig(Config):
    ...     size: int = setting("batch.size", type=Type.INT, default=100)
    """

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Secret:
    """A value that is never printed: `str` and `repr` are masked, `reveal()` is not (E11).

    >>> from fencepost.api import Config, Secret, setting
    >>> class FeedConfig(Config):
    ...     password: Secret = setting("feed.password")
    >>> config = FeedConfig({"feed.password": "s3cret"})
    >>> config.password
    [hidden]
    >>> config.password.reveal()
    's3cret'
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


@dataclass(frozen=True)
class Shape:
    """Kafka's type, the type of a list's items, and the function that makes a Path or an Enum of the text (None: it
    stays text).

    `make` raises ValueError with a reason that completes "Invalid value V for configuration K: <reason>". `valid`
    describes the valid texts if not all are.
    """

    kind: Type
    item: Type = Type.STRING
    make: Callable[[str], Any] | None = None
    choices: tuple[str, ...] = ()

    def made(self, value: Any) -> Any:
        """Return the field's value for a text or list. Raises ValueError with the reason."""
        if self.make is None or value is None:
            return value
        return [self.make(item) for item in value] if isinstance(value, list) else self.make(value)


_PLAIN = {
    str: Type.STRING,
    int: Type.LONG,  # Python's int has no 32-bit limit, so authors do not expect one
    float: Type.DOUBLE,
    bool: Type.BOOLEAN,
    Secret: Type.PASSWORD,
}
SUPPORTED = "str, int, float, bool, Secret, pathlib.Path, an Enum, or a list of these, each perhaps with | None"


def shape_of(hint: Any) -> Shape:
    """Return the meaning of an annotation. Raises TypeError for one that no setting can have."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        members = [one for one in typing.get_args(hint) if one is not type(None)]
        if len(members) == 1:
            return shape_of(members[0])
    if hint is list:
        return Shape(Type.LIST)
    if typing.get_origin(hint) is list:
        item = shape_of(typing.get_args(hint)[0])
        if item.kind not in (Type.LIST, Type.PASSWORD):
            return Shape(Type.LIST, item.kind, item.make, item.choices)
    if hint in _PLAIN:
        return Shape(_PLAIN[hint])
    if hint is Path:
        return Shape(Type.STRING, make=_path)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _of_enum(hint)
    raise TypeError(f"{getattr(hint, '__name__', hint)} is not a type of settings; use {SUPPORTED}")


def _path(text: str) -> Path:
    if not text:
        raise ValueError("must not be empty: it is the path of a file or directory")
    return Path(text)


def _of_enum(members: type[Enum]) -> Shape:
    by_text = {str(member.value): member for member in members}
    by_lower = {text.lower(): member for text, member in by_text.items()}
    choices = tuple(by_text)

    def make(text: str) -> Enum:
        member = by_text.get(text) or by_lower.get(text.lower())
        if member is None:
            raise ValueError(f"String must be one of: {', '.join(choices)}")
        return member

    return Shape(Type.STRING, make=make, choices=choices)
