"""UTF-8 as Java reads it: what is not UTF-8 becomes U+FFFD, as often as in Java. And as Java writes it."""

import codecs

REPLACED = "fencepost.java"
"""For `errors=` when UTF-8 is decoded. Python's own `replace` divides halves of surrogate pairs in other places."""


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    first, *following = error.object[error.start : error.start + 3]
    if first == 0xED and following and 0xA0 <= following[0] <= 0xBF:  # half of a pair: one character for all its bytes
        is_whole = len(following) == 2 and 0x80 <= following[1] <= 0xBF
        return "\ufffd", error.start + (3 if is_whole else 2)
    return "\ufffd", error.end


codecs.register_error(REPLACED, _replace)


def as_java_writes(text: str) -> str:
    """Return what is read of a text that Java has written as UTF-8: halves of surrogate pairs have become `?`."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def java_decoded(data: bytes) -> str:
    """Return the text that Java reads."""
    return data.decode("utf-8", REPLACED)
