"""A column of messages that carry the same schema: the schema is read once, and the payloads in one call."""

import re
import secrets
from collections.abc import Sequence
from typing import Any

from fencepost.builtin.converter.json_parsing import parsed

_BEGIN = re.compile(rb'\s*\{\s*"schema"\s*:')
_PAYLOAD = re.compile(rb',\s*"payload"\s*:')

# Separates payloads that are parsed together. Nobody can know it, so that no two wrong payloads make up right ones.
_MARK = secrets.token_hex(16)
_BETWEEN = b',"' + _MARK.encode() + b'",'


def prefix_of(message: bytes) -> tuple[bytes, Any] | None:
    """Return a message's text up to its payload, and the schema in it as JSON; None if it has another form."""
    begin = _BEGIN.match(message)
    if begin is None:
        return None
    for payload in _PAYLOAD.finditer(message, begin.end()):
        try:
            return message[: payload.end()], parsed(message[begin.end() : payload.start()])
        except ValueError:  # these are members of the schema
            continue
    return None


def payloads(messages: Sequence[bytes | None], prefix: bytes) -> list[Any] | None:
    """Return the parsed payloads of messages with that prefix; None if one of them begins or ends in another way.

    Raises ValueError if one of them is no JSON.
    """
    begin = len(prefix)
    texts = [each[begin:-1] for each in messages if each is not None and each.startswith(prefix) and each[-1:] == b"}"]
    return parsed_all(texts) if len(texts) == len(messages) else None


def parsed_all(texts: Sequence[bytes]) -> list[Any] | None:
    """Parse texts in one call; None if one of them is not exactly one JSON value, or ValueError."""
    if not texts:
        return []
    found = parsed(b"[" + _BETWEEN.join(texts) + b"]")
    marks = found[1::2]
    return found[::2] if len(found) == 2 * len(texts) - 1 and marks.count(_MARK) == len(marks) else None
