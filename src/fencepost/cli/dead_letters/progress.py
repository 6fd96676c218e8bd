"""How far the dead letters of a connector were resent.

Two places have this, written in one transaction with the copies:

- the offsets of a group without members, which are quick to read, but which a broker deletes after
  `offsets.retention.minutes`;
- a mark in the partition of the dead letter topic, after the dead letters that it is about. Retention deletes from the
  front of a partition, so no dead letter outlives its mark.
"""

import logging
from dataclasses import dataclass
from typing import NamedTuple

from fencepost.kafka.read.bookmark import Bookmark
from fencepost.kafka.read.browse import TopicBrowser, TopicRecord
from fencepost.record import HeaderBytes
from fencepost.task.failure.dead_letter import PREFIX, RESENT

log = logging.getLogger(__name__)

_PASSED = f"{RESENT}passed"
_VALUE = b"fencepost dead-letters --resend: how far the letters of a connector were sent again"


def progress_name(connector: str) -> str:
    """Return the group that keeps a connector's progress of resending; it is also the transactional id."""
    return f"fencepost-dead-letters-{connector}"


class Mark(NamedTuple):
    """The record with one connector's progress in one partition."""

    key: bytes
    value: bytes
    headers: list[HeaderBytes]

    @classmethod
    def of(cls, connector: str, offset: int) -> "Mark":
        """Create one. Its key and value make a compacted topic keep the newest."""
        return cls(progress_name(connector).encode(), _VALUE, [(_PASSED, str(offset).encode())])


def is_mark(record: TopicRecord) -> bool:
    """Say whether a record of a dead letter topic is a mark, of any connector."""
    names = {name for name, _ in record.headers}
    return _PASSED in names and not any(name.startswith(PREFIX) for name in names)


def passed_by(record: TopicRecord, connector: str) -> int | None:
    """Return the next offset for this connector that a record has; None if it is no such mark."""
    if record.key != progress_name(connector).encode() or not is_mark(record):
        return None
    text = (dict(record.headers)[_PASSED] or b"").decode("ascii", "replace")
    return int(text) if text.isdecimal() else None


@dataclass(frozen=True)
class ResendProgress:
    """How far one connector's dead letters were resent, as of the creation of the browser."""

    connector: str
    browser: TopicBrowser
    bookmark: Bookmark

    def read(self) -> dict[int, int]:
        """Return the next offset of each partition of which something was resent.

        The group's offsets count if it has some. Otherwise the partition is read for its newest mark.
        """
        known = self.bookmark.read(self.browser.ranges)
        return {**self._marked(self.browser.ranges.keys() - known.keys()), **known}

    def _marked(self, partitions: set[int]) -> dict[int, int]:
        found: dict[int, int] = {}
        for record in self.browser.read({partition: self.browser.ranges[partition] for partition in partitions}):
            passed = passed_by(record, self.connector)
            if passed is not None:
                found[record.partition] = passed
        if found:
            log.info("group %s has lost offsets: using the marks in %s", self.bookmark.group, self.browser.topic)
        return found
