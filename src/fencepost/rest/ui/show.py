"""How pages write numbers, times and states."""

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from fencepost.telemetry.traces import reason_in

NOTHING = "–"

_WORDS = re.compile(r"(?<=\.)(?!$)|(?<=[a-z0-9])(?=[A-Z])|(?<=[-_/])(?!$)")

_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_TONES = {
    "RUNNING": "good",
    "PAUSED": "calm",
    "STOPPED": "calm",
    "FAILED": "bad",
    "UNASSIGNED": "warn",
    "RESTARTING": "warn",
    "RETRYING": "warn",
    "DESTROYED": "calm",
    "STANDS STILL": "bad",
}


def count(value: float | None) -> str:
    """Return a number of things in at most four digits: 1234567 is 1.23 M."""
    if value is None:
        return NOTHING
    for size, unit in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}" if abs(value) < 1000 * size else f"{value / size:,.0f} {unit}"
    return f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Return records a second."""
    if value is None:
        return NOTHING
    return f"{value:.2g} /s" if 0 < value < 10 else f"{count(value)} /s"


def size(value: float | None) -> str:
    """Return bytes."""
    if value is None:
        return NOTHING
    for unit_bytes, unit in _BYTES:
        if value >= unit_bytes:
            return f"{value / unit_bytes:,.0f} {unit}"
    return f"{value:,.0f} B"


def span(seconds: float | None) -> str:
    """Return a length of time in its largest unit."""
    if seconds is None:
        return NOTHING
    for unit_s, unit in _SPANS:
        if seconds >= unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def age(at_ms: float | None) -> str:
    """Return how long ago a moment was."""
    return NOTHING if not at_ms else span(time.time() - at_ms / 1000)


def moment(at_ms: float | None) -> str:
    """Return a moment in UTC."""
    return NOTHING if not at_ms else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_ms / 1000))


def tone(state: str) -> str:
    """Return how a state is coloured: good, calm, warn or bad."""
    return _TONES.get(state, "warn")


def json_text(value: object) -> str:
    """Return a text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def words(name: str) -> Markup:
    """Return a name as markup that breaks a line after dots and in front of words, such as those of a class."""
    return Markup("<wbr>").join(_WORDS.split(name))


FILTERS: Mapping[str, Callable[..., Any]] = {
    "count": count,
    "rate": rate,
    "size": size,
    "span": span,
    "age": age,
    "moment": moment,
    "tone": tone,
    "json_text": json_text,
    "reason": reason_in,
    "words": words,
}
