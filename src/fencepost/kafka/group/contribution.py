"""Who last put a group's offset into a transaction, as the note of that offset tells it (E20).

It is written in the transaction of the offset itself, so that nobody can be named whose offset does not count. Whatever
else was noted there stays beside it.
"""

from dataclasses import dataclass
from typing import Any

import orjson

_BY, _BESIDE = "fencepost.by", "note"

LARGEST_NOTE = 4096
"""Bytes that a note may have where a broker was told nothing else: Kafka's `offset.metadata.max.bytes`."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """The producer of an offset: the id it writes under, and which incarnation of it that was."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def note(self, beside: str = "") -> str:
        """Return the note of an offset of this producer; `beside` is what else is to be noted, and stays whole.

        Where both are more than a broker takes, it is `beside` alone.
        """
        by: dict[str, object] = {_BY: [self.transactional_id, self.producer_id, self.producer_epoch]}
        if beside:
            by[_BESIDE] = beside
        text = orjson.dumps(by)
        return beside if len(text) > LARGEST_NOTE else text.decode()


def contribution_of(note: str) -> Contribution | None:
    """Return who an offset's note names; None for a note that somebody else wrote, or none."""
    by = _parsed(note).get(_BY)
    if not isinstance(by, list) or [type(each) for each in by] != [str, int, int]:
        return None
    return Contribution(*by)


def beside(note: str) -> str:
    """Return what an offset's note says besides who committed it."""
    parsed = _parsed(note)
    return str(parsed.get(_BESIDE, "")) if _BY in parsed else note


def _parsed(note: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(note)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
