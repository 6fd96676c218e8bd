"""What makes the rows of a split. A number of rows is a position only where the rows before it are still the same."""

import hashlib
from collections.abc import Mapping
from typing import Any

from fencepost.config import ConfigError

TIME_ZONE = "spark.sql.session.timeZone"
"""The setting that says what timestamps without a time zone mean."""

_LATER = frozenset({TIME_ZONE})
"""What the positions of earlier releases say nothing of."""

_BEFORE = {"reader.escape": "\\", "reader.multiLine": "false"}
"""What held where the positions of earlier releases say nothing of it."""

READING = "reading"
"""The member of a source offset that says how the rows were made which it counts."""


class ReadingChangedError(ConfigError):
    """A part of the split is committed, and its rows would be others now: to go on would lose or repeat some."""


def fingerprint(made_of: Mapping[str, str]) -> str:
    """Return a short text that is the same in every process, and from which `changes` tells what differs."""
    return " ".join(f"{name}={_hash(value)}" for name, value in sorted(made_of.items()))


def changes(before: str, now: str) -> list[str]:
    """Return the names of what differs between two fingerprints."""
    old, new = (_parts(before), _parts(now))
    old = {**{name: _hash(value) for name, value in _BEFORE.items() if name in new}, **old}
    unknown = _LATER - (old.keys() & new.keys())
    return sorted(name for name in (old.keys() | new.keys()) - unknown if old.get(name) != new.get(name))


def _parts(text: str) -> dict[str, str]:
    """Return a fingerprint's hashes by name; a text that is none, which users can set, has parts of no other."""
    return {name or entry: value for entry in text.split() for name, _, value in [entry.rpartition("=")]}


def ensure_same_reading(partition: Any, position: Mapping[str, Any] | None, reading: str) -> None:
    """Raise ReadingChangedError where rows of another reading are committed. A position that names none is taken."""
    before = (position or {}).get(READING)
    if position is None or position.get("done") or before is None or not changes(str(before), reading):
        return
    rows = position.get("rows", 0)
    raise ReadingChangedError(
        f"{rows} rows of {partition} are committed, and its rows are made in another way now: "
        f"{', '.join(changes(str(before), reading))} changed. Put that back until the split is done, or set its offset "
        f'(PATCH /connectors/NAME/offsets): null to read it from its start, {{"rows": {rows}}} to go on after so '
        "many rows as they are made now"
    )


def _hash(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()[:8]
