"""Identifies the producer that last added a group's offset to a transaction, from the metadata of that offset (E20).

The metadata is committed in the same transaction as the offset, so it never names a producer whose offset does not
count. Other metadata of the offset is kept in it.
"""

from dataclasses import dataclass
from typing import Any

import orjson

_BY, _BESIDE = "fencepost.by", "note"

LARGEST_NOTE = 4096
"""The most bytes of an offset's metadata by default: Kafka's `offset.metadata.max.bytes`."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """The producer of an offset: its transactional id, and its producer id and epoch (the incarnation)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def note(self, beside: str = "") -> str:
        """Return the metadata for an offset of this producer, with `beside` as further metadata, which is never cut.

        If both together are larger than a broker accepts, return `beside` alone.
        """
        by: dict[str, object] = {_BY: [self.transactional_id, self.producer_id, self.producer_epoch]}
        if beside:
            by[_BESIDE] = beside
        text = orjson.dumps(by)
        return beside if len(text) > LARGEST_NOTE else text.decode()


def contribution_of(note: str) -> Contribution | None:
    """Return the producer that an offset's metadata names; None if it has another format or is empty."""
    by = _parsed(note).get(_BY)
    if not isinstance(by, list) or [type(each) for each in by] != [str, int, int]:
        return None
    return Contribution(*by)


def beside(note: str) -> str:
    """Return an offset's metadata without the producer."""
    parsed = _parsed(note)
    return str(parsed.get(_BESIDE, "")) if _BY in parsed else note


def _parsed(note: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(note)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
