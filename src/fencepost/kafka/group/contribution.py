"""Identifies the producer that last added a group's offset to a transaction, from the metadata of that offset (E20).

The metadata is committed in the same transaction as the offset, so it never names a producer whose offset does not
count. Other metadata of the offset is kept in it.
"""

from dataclasses import dataclass
from typing import Any

import orjson

_BY, _INNER = "fencepost.by", "note"

METADATA_MAX_BYTES = 4096
"""The most bytes of an offset's metadata by default: Kafka's `offset.metadata.max.bytes`."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """The producer of an offset: its transactional id, and its producer id and epoch (the incarnation)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def to_metadata(self, inner_metadata: str = "") -> str:
        """Return the metadata for an offset of this producer; `inner_metadata` is included, and never cut.

        If both together are larger than a broker accepts, return `inner_metadata` alone.
        """
        by: dict[str, object] = {_BY: [self.transactional_id, self.producer_id, self.producer_epoch]}
        if inner_metadata:
            by[_INNER] = inner_metadata
        text = orjson.dumps(by)
        return inner_metadata if len(text) > METADATA_MAX_BYTES else text.decode()


def contribution_of(metadata: str) -> Contribution | None:
    """Return the producer that an offset's metadata names; None if it has another format or is empty."""
    by = _parsed(metadata).get(_BY)
    if not isinstance(by, list) or [type(each) for each in by] != [str, int, int]:
        return None
    return Contribution(*by)


def inner_metadata(metadata: str) -> str:
    """Return an offset's metadata without the producer."""
    parsed = _parsed(metadata)
    return str(parsed.get(_INNER, "")) if _BY in parsed else metadata


def _parsed(metadata: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(metadata)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
