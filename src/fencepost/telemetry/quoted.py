"""The ways in which Python, JSON and URLs quote a text, also when a quoted text is quoted again."""

import re
from collections.abc import Iterator
from urllib.parse import quote

_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+")
_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


def quoted_pattern(text: str) -> str:
    """Return a regular expression that finds the text, whether it is quoted or not.

    Each quoting puts backslashes in front of quotation marks and backslashes, so any number of them is allowed there.
    At the beginning and the end none more is needed: a search for them would take too long in a text full of them.
    """
    pieces: list[str] = []
    slashes = 0
    for char in text:
        if char == "\\":
            slashes += 1
            continue
        pieces.append(_piece(char, slashes, is_first=not pieces))
        slashes = 0
    return "".join([*pieces, _exactly(slashes)])


def never_quoted(text: str) -> str:
    """Return the longest part of the text that no quoting changes; it may be empty."""
    return max(_PLAIN.findall(text), key=len, default="")


def _piece(char: str, slashes: int, *, is_first: bool) -> str:
    before = _exactly(slashes) if is_first else _at_least(slashes)
    if _PLAIN.match(char):
        return before + re.escape(char)
    slash = r"\\" if is_first else r"\\+" * (not slashes)  # its own may be among those in front of it
    plain = re.escape(char)
    if char in "\"'/" and not slashes and not is_first:
        plain = r"\\*" + plain
    return f"{before}(?:{'|'.join([plain, *_escaped(char, slash)])})"


def _escaped(char: str, slash: str) -> Iterator[str]:
    """Yield patterns of a character's other forms; `slash` is that of the backslash in front of most of them."""
    utf8 = char.encode("utf-8", "surrogatepass")
    utf16 = char.encode("utf-16-be", "surrogatepass").hex()
    yield "(?i:" + quote(char, safe="", errors="surrogatepass") + ")"
    yield f"(?i:{slash}" + r"\\+".join(f"x{byte:02x}" for byte in utf8) + ")"
    yield f"(?i:{slash}" + r"\\+".join(f"u{utf16[n : n + 4]}" for n in range(0, len(utf16), 4)) + ")"
    yield f"(?i:{slash}(?:U{ord(char):08x}|x{ord(char):02x}))"
    if char in _ESCAPES:
        yield slash + _ESCAPES[char]
    if char == " ":
        yield r"\+"


def _at_least(slashes: int) -> str:
    return rf"(?:\\{{{slashes},}}|(?i:%5C){{{slashes}}})" if slashes else ""


def _exactly(slashes: int) -> str:
    return rf"(?:\\{{{slashes}}}|(?i:%5C){{{slashes}}})" if slashes else ""
