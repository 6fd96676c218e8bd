"""The offsets topic of one connector, in memory."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from fencepost.storage.offset_topic import encode_key, encode_offset

Pair = tuple[Mapping[str, Any], Mapping[str, Any] | None]


class OffsetStore:
    """Source offsets as JSON, as the runtime stores them: what cannot be stored is refused here, too.

    >>> from fencepost.testing import OffsetStore
    >>> store = OffsetStore([({"file": "a.txt"}, {"line": 3})])
    >>> store.write([({"file": "b.txt"}, {"line": 1}), ({"file": "a.txt"}, None)])  # None: a tombstone
    >>> store.pairs()
    [({'file': 'b.txt'}, {'line': 1})]
    """

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        self._stored: dict[bytes, bytes] = {}
        self.write(pairs)

    def write(self, pairs: Iterable[Pair]) -> None:
        """Store offsets. Raises ConfigError for one that is not a map of names to JSON's plain values."""
        for partition, offset in [(encode_key("", p), encode_offset(o)) for p, o in pairs]:
            if offset is None:
                self._stored.pop(partition, None)
            else:
                self._stored[partition] = offset

    def pairs(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return all offsets as a task that starts now sees them: (partition, offset)."""
        return [(orjson.loads(key)[1], orjson.loads(offset)) for key, offset in self._stored.items()]

    def copy(self) -> "OffsetStore":
        """Return a store with the same offsets."""
        return OffsetStore(self.pairs())
