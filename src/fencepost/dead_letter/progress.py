"""How far the dead letters of a connector were resent: up to an offset, and single ones after it.

Two places have this, written in one transaction with the copies:

- the offsets of a group without members, which are quick to read, but which a broker deletes after
  `offsets.retention.minutes`. The single ones are in the metadata of the offset;
- a mark in the partition of the dead letter topic, after the dead letters that it is about. Retention deletes from the
  front of a partition, so no dead letter outlives its mark.
"""

import logging
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from fencepost.api import FatalError
from fencepost.kafka.group.memberless import Bookmark
from fencepost.kafka.read.browse import TopicBrowser, TopicRecord
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import HeaderBytes
from fencepost.task.failure.dead_letter import PREFIX, RESENT, number_of

log = logging.getLogger(__name__)

_PASSED, _AHEAD = f"{RESENT}passed", f"{RESENT}ahead"
_VALUE = b"fencepost dead-letters --resend: how far the letters of a connector were sent again"
_METADATA = "ahead "
_MOST = 100_000
_MOST_BYTES = 4_000  # a broker's offset.metadata.max.bytes is 4,096 unless it is set
_RANGES = re.compile(r"\d{1,19}(-\d{1,19})?(,\d{1,19}(-\d{1,19})?)*", re.ASCII)


def progress_name(connector: str) -> str:
    """Return the group that keeps a connector's progress of resending; it is also the transactional id."""
    return f"fencepost-dead-letters-{connector}"


class Handled(NamedTuple):
    """Which dead letters of a partition were sent or passed over: those before `passed`, and those `ahead` of it."""

    passed: int
    ahead: frozenset[int] = frozenset()

    def has(self, offset: int) -> bool:
        return offset < self.passed or offset in self.ahead

    @classmethod
    def of_offset(cls, offset: int, metadata: str) -> "Handled":
        """Parse an offset of the group. Metadata that others have written say nothing."""
        is_ours = metadata.startswith(_METADATA)
        return cls(offset, _offsets(metadata.removeprefix(_METADATA)) if is_ours else frozenset())

    @property
    def metadata(self) -> str:
        """Return the metadata of the group's offset."""
        return f"{_METADATA}{_ranges(self.ahead)}" if self.ahead else ""

    def ensure_storable(self) -> None:
        """Raise FatalError if there are more single ones than a broker stores with an offset."""
        if len(self.ahead) > _MOST or len(self.metadata) > _MOST_BYTES:
            raise FatalError(
                "Too many single dead letters were resent while others before them wait: resend all that wait, or pass "
                "over some of these. Nothing more is sent"
            )


def handled_in(group: str, offsets: Mapping[int, GroupOffset]) -> dict[int, Handled]:
    """Return what the offsets of the group say, by partition. Raises FatalError if one cannot be read."""
    return {partition: _stored(group, each) for partition, each in offsets.items()}


def _stored(group: str, stored: GroupOffset) -> Handled:
    try:
        return Handled.of_offset(stored.offset, stored.metadata)
    except FatalError as error:
        command = f"kafka-consumer-groups.sh --bootstrap-server HOST:PORT --delete --group {shlex.quote(group)}"
        raise FatalError(
            f"{error}. Another program has written this to group {group}, with the offset of "
            f"{stored.topic}-{stored.partition}. Delete the group, and the progress is read from {stored.topic}, where "
            f"it is kept, too: {command}"
        ) from None


def _ranges(offsets: Iterable[int]) -> str:
    ordered = sorted(offsets)
    firsts = [ordered[0], *(b for a, b in pairwise(ordered) if b != a + 1)]
    lasts = [*(a for a, b in pairwise(ordered) if b != a + 1), ordered[-1]]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True))


def _offsets(text: str) -> frozenset[int]:
    """Parse ranges. Raises FatalError if they are none: without them, dead letters would be sent twice."""
    if _RANGES.fullmatch(text) is None:
        raise FatalError(f"The progress of resending cannot be read: {text[:100]!r} is no list of offsets")
    bounds = [(int(first), int(last or first)) for first, _, last in (one.partition("-") for one in text.split(","))]
    if any(first > last for first, last in bounds) or any(a[1] >= b[0] for a, b in pairwise(bounds)):
        raise FatalError(f"The progress of resending cannot be read: {text[:100]!r} are not in ascending order")
    if sum(last - first + 1 for first, last in bounds) > _MOST:
        raise FatalError(f"The progress of resending cannot be read: {text[:100]!r} are more than {_MOST} offsets")
    return frozenset(offset for first, last in bounds for offset in range(first, last + 1))


class Mark(NamedTuple):
    """The record with one connector's progress in one partition."""

    key: bytes
    value: bytes
    headers: list[HeaderBytes]

    @classmethod
    def of(cls, connector: str, handled: Handled) -> "Mark":
        """Create one. Its key and value make a compacted topic keep the newest."""
        headers: list[HeaderBytes] = [(_PASSED, str(handled.passed).encode())]
        if handled.ahead:
            headers.append((_AHEAD, _ranges(handled.ahead).encode()))
        return cls(progress_name(connector).encode(), _VALUE, headers)


def is_mark(record: TopicRecord) -> bool:
    """Say whether a record of a dead letter topic is a mark, of any connector."""
    names = {name for name, _ in record.headers}
    return _PASSED in names and not any(name.startswith(PREFIX) for name in names)


def handled_by(record: TopicRecord, connector: str) -> Handled | None:
    """Return the progress of this connector that a record has; None if it is no such mark, or says nothing possible.

    Anybody with Write on the topic can write one, and a wrong one must not block what is resent from then on.
    """
    if record.key != progress_name(connector).encode() or not is_mark(record):
        return None
    headers = {name: (data or b"").decode("ascii", "replace") for name, data in record.headers}
    try:
        passed = number_of(headers[_PASSED])
        ahead: frozenset[int] = _offsets(headers[_AHEAD]) if _AHEAD in headers else frozenset()
        if passed is None or passed > record.offset or any(one >= record.offset for one in ahead):
            raise FatalError("it is not about offsets before its own")
        return Handled(passed, ahead)
    except FatalError as error:
        place = f"{record.partition}@{record.offset}"
        log.warning("the mark at %s does not count for connector %s: %s", place, connector, error)
        return None


@dataclass(frozen=True)
class ResendProgress:
    """How far one connector's dead letters were resent, as of the creation of the browser."""

    connector: str
    browser: TopicBrowser
    bookmark: Bookmark

    def read(self) -> Mapping[int, Handled]:
        """Return the progress in each partition of which something was resent.

        The group's offsets count if it has some. Otherwise the partition is read for its newest mark. Waits for the end
        of a transaction that may change them: whoever has taken the transactional id has ended it.
        """
        return self._of(self.bookmark.read(self.browser.ranges))

    def peek(self) -> Mapping[int, Handled]:
        """Return it without waiting: to show it, or to count what waits, while another process may be resending."""
        return self._of(self.bookmark.peek(self.browser.ranges))

    def _of(self, offsets: Mapping[int, GroupOffset]) -> dict[int, Handled]:
        known = handled_in(self.bookmark.group, offsets)
        return {**self._marked(self.browser.ranges.keys() - known.keys()), **known}

    def _marked(self, partitions: set[int]) -> dict[int, Handled]:
        found: dict[int, Handled] = {}
        ranges, key = {p: self.browser.ranges[p] for p in partitions}, progress_name(self.connector).encode()
        for record in self.browser.read(ranges, key_bounds=(key, key)):
            handled = handled_by(record, self.connector)
            if handled is not None:
                found[record.partition] = handled
        if found:
            log.info("group %s has lost offsets: using the marks in %s", self.bookmark.group, self.browser.topic)
        return found
