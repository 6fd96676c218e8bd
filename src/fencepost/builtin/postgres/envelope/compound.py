"""Arrays, hstore and points: Postgres' text to what Debezium makes of it."""

import json
import re
import struct
from collections.abc import Callable
from typing import Any

_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([{},])|([^{},"]+)', re.DOTALL)
_BOUNDS = re.compile(r"(?:\[-?\d+:-?\d+\])+=")
_PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)(?:, )?', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_HAS_SRID = 0x20000000
_NUMBER = re.compile(r"[^(),<>\s]+")


def array(convert: Callable[[str], Any] | None) -> Callable[[str], list[Any]]:
    """Return the function from the text of an array to a list of converted items; a dimension more is a list in it."""

    def converted(text: str) -> list[Any]:
        top: list[Any] = []
        open_lists = [top]
        bounds = _BOUNDS.match(text)
        for item in _ITEM.finditer(text, 0 if bounds is None else bounds.end()):
            quoted, mark, bare = item.groups()
            if mark == "{":
                inner: list[Any] = []
                open_lists[-1].append(inner)
                open_lists.append(inner)
            elif mark == "}":
                open_lists.pop()
            elif mark is None:
                value = bare if quoted is None else _ESCAPE.sub(r"\1", quoted)
                if bare == "NULL":
                    open_lists[-1].append(None)
                else:
                    open_lists[-1].append(value if convert is None else convert(value))
        found: list[Any] = top[0]
        return found

    return converted


def hstore(text: str) -> dict[str, str | None]:
    """Return the pairs of an hstore, in the order of Java's HashMap, which Debezium keeps them in."""
    pairs = {
        _ESCAPE.sub(r"\1", one[1]): None if one[2] is None else _ESCAPE.sub(r"\1", one[2])
        for one in _PAIR.finditer(text)
    }
    size = 16
    while len(pairs) > size * 3 // 4:
        size *= 2
    return dict(sorted(pairs.items(), key=lambda pair: _spread(pair[0]) & (size - 1)))


def hstore_json(text: str) -> str:
    return pairs_json(hstore(text))


def pairs_json(pairs: dict[str, str | None]) -> str:
    """Return text as Jackson writes it."""
    return json.dumps(pairs, ensure_ascii=False, separators=(",", ":"))


def point(text: str) -> dict[str, Any]:
    """Return a point with its well-known binary form."""
    x, y = map(float, _NUMBER.findall(text))
    return {"x": x, "y": y, "wkb": struct.pack("<bidd", 1, 1, x, y), "srid": None}


def _spread(text: str) -> int:
    """Return the hash of a key in Java's HashMap."""
    units = text.encode("utf-16-le", "surrogatepass")
    found = 0
    for start in range(0, len(units), 2):
        found = (31 * found + units[start] + 256 * units[start + 1]) & 0xFFFFFFFF
    return found ^ (found >> 16)


def geometry(text: str) -> dict[str, Any]:
    """Return a geometry of PostGIS, whose text is EWKB in hexadecimal, with the id of its reference system."""
    raw = bytes.fromhex(text)
    order = ">" if raw[0] == 0 else "<"
    (kind,) = struct.unpack_from(f"{order}I", raw, 1)
    return {"wkb": raw, "srid": struct.unpack_from(f"{order}i", raw, 5)[0] if kind & _HAS_SRID else None}
