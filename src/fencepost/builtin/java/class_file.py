"""The head of a `.class` file: the names of the class, its superclass and its interfaces (JVM specification, 4.1)."""

import struct
from typing import NamedTuple

_MAGIC = 0xCAFEBABE
_UTF8, _CLASS, _LONG, _DOUBLE = 1, 7, 5, 6
_PUBLIC, _INTERFACE, _ABSTRACT = 0x0001, 0x0200, 0x0400
# The size of each kind of constant after its tag; text has a size of its own.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}


class ClassHead(NamedTuple):
    """Names as Java code has them, `java.lang.Object`. `parents`: the superclass, then the interfaces."""

    name: str
    parents: tuple[str, ...]
    is_creatable: bool = True
    """Whether it is public, and neither abstract nor an interface."""


def class_head(data: bytes) -> ClassHead:
    """Return the head of a class. Raises ValueError if the bytes are no class."""
    try:
        return _read(data)
    except (struct.error, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"damaged class file: {error}") from error


def _read(data: bytes) -> ClassHead:
    magic, _, _, count = struct.unpack_from(">IHHH", data)
    if magic != _MAGIC:
        raise ValueError("not a class file")
    texts: dict[int, str] = {}
    classes: dict[int, int] = {}
    at, index = 10, 1
    while index < count:
        tag = data[at] if at < len(data) else 0
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", data, at + 1)
            texts[index] = data[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 3 + size
        else:
            if tag == _CLASS:
                (classes[index],) = struct.unpack_from(">H", data, at + 1)
            at += 1 + _SIZES[tag]
        index += 2 if tag in (_LONG, _DOUBLE) else 1  # these take two places
    flags, own, parent, interfaces = struct.unpack_from(">HHHH", data, at)
    parents = struct.unpack_from(f">{interfaces}H", data, at + 8)

    def named(place: int) -> str:
        return texts[classes[place]].replace("/", ".")

    is_creatable = flags & (_PUBLIC | _INTERFACE | _ABSTRACT) == _PUBLIC
    return ClassHead(named(own), tuple(named(each) for each in (parent, *parents) if each), is_creatable)
