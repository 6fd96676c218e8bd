"""Dead letters of one connector, the newest first, a page at a time: bounded in number, in bytes and in time."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fencepost.cluster.dead_letters import LetterPage
from fencepost.config import ConfigError
from fencepost.dead_letter.letter import DeadLetter
from fencepost.dead_letter.progress import Handled, handled_by, is_mark
from fencepost.dead_letter.shown import shown
from fencepost.kafka.read.browse import Range, TopicBrowser

_FIRST_WINDOW = 100
_MOST_RECORDS = 50_000
_MOST_BYTES = 64 << 20
_LONGEST_S = 10.0


@dataclass
class Effort:
    """How much a page may read, of large records and of those of others, before it ends with what it has."""

    records: int = _MOST_RECORDS
    size_bytes: int = _MOST_BYTES
    until_s: float = field(default_factory=lambda: time.monotonic() + _LONGEST_S)

    @property
    def is_spent(self) -> bool:
        return self.records <= 0 or self.size_bytes <= 0 or time.monotonic() >= self.until_s

    def part(self, parts: int) -> "Effort":
        """Return one of so many equal parts."""
        return Effort(self.records // parts, self.size_bytes // parts, self.until_s)


@dataclass
class _Found:
    """What was found of one partition from the offset `first` on: the newest, the oldest of them first."""

    first: int
    letters: deque[DeadLetter] = field(default_factory=deque)
    unnamed: int = 0
    handled: Handled | None = None

    def in_time(self) -> Iterator[tuple[int, int, int, DeadLetter]]:
        """Yield time, partition and offset of each, with times that never go back: a page ends at one offset."""
        time_ms = 0
        for one in self.letters:
            time_ms = max(time_ms, one.record.timestamp_ms or 0)
            yield time_ms, one.record.partition, one.record.offset, one

    def rest(self, taken: int) -> int:
        """Return the offset before which the next page continues if the `taken` newest are on this one."""
        left = len(self.letters) - taken
        return self.letters[left - 1].record.offset + 1 if left else self.first

    def has_handled(self, dead_letter: DeadLetter) -> bool:
        return self.handled is not None and self.handled.has(dead_letter.record.offset)


def read_page(
    browser: TopicBrowser,
    connector: str,
    handled: Mapping[int, Handled],
    *,
    limit: int,
    before: Mapping[int, int] | None = None,
    effort: Effort | None = None,
) -> LetterPage:
    """Return the newest dead letters that name a connector, at most `limit` of them.

    Others are not shown: they may be of a connector that the caller may not view, or no dead letters at all. The page
    may have fewer, or none, although there are older ones; then `older` says where to go on. `handled` is what the
    group says; where it says nothing, the newest mark counts that is met. `before` is what `places` returns.

    Raises what `TopicBrowser.read` raises.
    """
    ends = before or {}
    bounded = {p: (first, min(end, ends.get(p, end))) for p, (first, end) in browser.ranges.items()}
    ranges = {partition: (first, end) for partition, (first, end) in bounded.items() if first < end}
    each = (effort or Effort()).part(max(1, len(ranges)))
    found = {
        partition: _newest(browser, connector, {partition: within}, limit, handled.get(partition), each.part(1))
        for partition, within in sorted(ranges.items())
    }
    rows = sorted((row for one in found.values() for row in one.in_time()), key=lambda row: row[:3], reverse=True)
    letters = [row[3] for row in rows[:limit]]
    rest = {p: one.rest(sum(letter.record.partition == p for letter in letters)) for p, one in found.items()}
    has_older = any(end > ranges[partition][0] for partition, end in rest.items())
    everywhere = {partition: rest.get(partition, first) for partition, (first, _) in browser.ranges.items()}
    return LetterPage(
        browser.topic,
        [shown(one, is_handled=found[one.record.partition].has_handled(one)) for one in letters],
        sum(one.unnamed for one in found.values()),
        _text_of(everywhere) if has_older else None,
    )


def _newest(
    browser: TopicBrowser,
    connector: str,
    within: Mapping[int, Range],
    limit: int,
    handled: Handled | None,
    effort: Effort,
) -> _Found:
    """Return the newest of one partition. A log cannot be read backwards: windows are read, the last one first."""
    [(partition, (first, end))] = within.items()
    found, size, is_in_group = _Found(end, handled=handled), max(limit, _FIRST_WINDOW), handled is not None
    while found.first > first and len(found.letters) < limit:
        end, left_bytes = found.first, effort.size_bytes
        found.first = max(first, end - size)
        own: deque[DeadLetter] = deque(maxlen=limit)
        mark: Handled | None = None
        for record in browser.read({partition: (found.first, end)}):
            effort.records -= 1
            effort.size_bytes -= len(record.key or b"") + len(record.value or b"")
            dead_letter = DeadLetter.of(browser.topic, record)
            if dead_letter.connector == connector:
                own.append(dead_letter)
            elif is_mark(record):
                mark = mark if is_in_group else handled_by(record, connector) or mark
            elif dead_letter.connector is None:
                found.unnamed += 1
        found.handled = found.handled or mark if not is_in_group else handled
        found.letters.extendleft(reversed(own))
        if len(own) == limit:
            found.first = own[0].record.offset  # there may be others in this window
        if effort.is_spent:
            break
        size = _next_window(size, left_bytes - effort.size_bytes, effort.size_bytes)
    return found


def _next_window(size: int, read_bytes: int, left_bytes: int) -> int:
    """Return twice the size of the last window, but not more than what is left of the bytes is likely to be."""
    return max(1, min(size * 2, left_bytes * size // max(1, read_bytes)))


def places(text: str | None) -> dict[int, int]:
    """Parse the `older` of a page, such as `0:14,1:7`: offsets by partition. Raises ConfigError."""
    try:
        pairs = [one.split(":") for one in text.split(",")] if text else []
        return {int(partition): int(offset) for partition, offset in pairs}
    except ValueError:
        raise ConfigError(f"before={text}: it is not the `older` of an earlier answer") from None


def _text_of(places: Mapping[int, int]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(places.items()))
