"""Detects text in another encoding than UTF-8 by its first bytes."""

_MARKS = {b"\xff\xfe\x00\x00": "UTF-32", b"\x00\x00\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def marked_encoding(begin: bytes) -> str | None:
    """Return the encoding whose byte order mark a text begins with; None for UTF-8 and for text without a mark."""
    return next((name for mark, name in _MARKS.items() if begin.startswith(mark)), None)
