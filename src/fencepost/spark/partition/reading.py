"""How the rows of a split are made. A number of rows is a valid position only while the earlier rows stay the same."""

import hashlib
from collections.abc import Mapping
from typing import Any

from fencepost.config import ConfigError

TIME_ZONE = "spark.sql.session.timeZone"
"""The setting that gives timestamps without a time zone their meaning."""

_LATER = frozenset({TIME_ZONE})
"""The parts that positions of earlier releases do not record."""

_BEFORE = {"reader.escape": "\\", "reader.multiLine": "false"}
"""The values that applied when earlier releases did not record them."""

READING = "reading"
"""The key in a source offset for the fingerprint of how the counted rows were made."""


class ReadingChangedError(ConfigError):
    """Part of the split is committed, but its rows would now be different: to continue would lose or repeat some."""


def fingerprint(made_of: Mapping[str, str]) -> str:
    """Return a short text that is the same in every process, and from which `changes` finds the differences."""
    return " ".join(f"{name}={_hash(value)}" for name, value in sorted(made_of.items()))


def changes(before: str, now: str) -> list[str]:
    """Return the names of the parts that differ between two fingerprints."""
    old, new = (_parts(before), _parts(now))
    old = {**{name: _hash(value) for name, value in _BEFORE.items() if name in new}, **old}
    unknown = _LATER - (old.keys() & new.keys())
    return sorted(name for name in (old.keys() | new.keys()) - unknown if old.get(name) != new.get(name))


def _parts(text: str) -> dict[str, str]:
    """Return a fingerprint's hashes by name. A text in another format, which users can set, has no part in common."""
    return {name or entry: value for entry in text.split() for name, _, value in [entry.rpartition("=")]}


def ensure_same_reading(partition: Any, position: Mapping[str, Any] | None, reading: str) -> None:
    """Raise ReadingChangedError if rows of another reading are committed. A position without a fingerprint is
    accepted.
    """
    before = (position or {}).get(READING)
    if position is None or position.get("done") or before is None or not changes(str(before), reading):
        return
    rows = position.get("rows", 0)
    raise ReadingChangedError(
        f"{rows} rows of {partition} are committed, but its rows would be made in another way now: "
        f"{', '.join(changes(str(before), reading))} changed. Restore that until the split is done, or set the split's "
        f'offset (PATCH /connectors/NAME/offsets): null to read it from its start, {{"rows": {rows}}} to continue '
        "after that many of the new rows"
    )


def _hash(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()[:8]
