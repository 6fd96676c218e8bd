"""Who last put a group's offset into a transaction, as the note of that offset tells it (E20).

It is written in the transaction of the offset itself, so that nobody can be named whose offset does not count. Whatever
else was noted there stays beside it.
"""

from dataclasses import dataclass

import orjson

_BY, _BESIDE = "fencepost.by", "note"
_NUL = "\0"  # librdkafka sends notes with one at their end

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
    id_, producer_id, epoch = _parsed(note).get(_BY, (None, None, None))
    return None if id_ is None else Contribution(id_, producer_id, epoch)


def beside(note: str) -> str:
    """Return what an offset's note says besides who committed it."""
    parsed = _parsed(note)
    return str(parsed.get(_BESIDE, "")) if parsed else note.rstrip(_NUL)


def _parsed(note: str) -> dict[str, object]:
    raise NotImplementedError
