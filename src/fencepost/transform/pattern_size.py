"""How large a regular expression is once it is compiled, which the library `regex` does not limit.

It writes counted repetitions out, and needs four times as long for every two repetitions inside of each other.
"""

import re

MAX_SIZE = 100_000
MAX_DEPTH = 10

_TOKEN = re.compile(
    r"\\."
    r"|(?P<open>\((?:\?(?:P?<[^>=!]*>|<?[=!]|[:>]|[a-zA-Z-]+:?))?)"
    r"|(?P<close>\))"
    r"|(?P<class_start>\[)|(?P<class_end>\])"
    r"|(?P<repeat>[*+?]|\{(?P<least>\d+)(?P<range>,(?P<most>\d*))?\})[+?]?"
    r"|.",
    re.DOTALL,
)


def size_fault(pattern: str) -> str | None:
    """Return why a pattern would take too long to compile; None if it would not."""
    size, depth = _measured(pattern)
    if depth > MAX_DEPTH:
        return f"more than {MAX_DEPTH} repetitions inside of each other"
    if size > MAX_SIZE:
        return f"its repetitions, written out, have more than {MAX_SIZE} parts"
    return None


def _measured(pattern: str) -> tuple[int, int]:
    """Return the number of parts, and how many repetitions are inside of each other at most."""
    groups = [(0, 0)]  # size and depth of each open group, without its last part
    last = (0, 0)
    class_depth = 0
    for token in _TOKEN.finditer(pattern):
        if token["class_start"] or (token["class_end"] and class_depth):
            class_depth += 1 if token["class_start"] else -1
        elif class_depth:
            continue
        elif token["repeat"]:
            last = (last[0] * _count(token), last[1] + 1)
            continue
        if class_depth:
            continue
        groups[-1] = _together(groups[-1], last)
        last = (1, 0)
        if token["open"]:
            groups.append((0, 0))
            last = (0, 0)
        elif token["close"] and len(groups) > 1:
            last = groups.pop()
    groups[-1] = _together(groups[-1], last)
    return sum(size for size, _ in groups), max(depth for _, depth in groups)


def _together(group: tuple[int, int], part: tuple[int, int]) -> tuple[int, int]:
    return group[0] + part[0], max(group[1], part[1])


def _count(token: re.Match[str]) -> int:
    return max(1, int(token["most"] or token["least"] or 1))
