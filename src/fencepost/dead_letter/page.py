"""Dead letters of one connector, the newest first, a page at a time: bounded in number, in bytes and in time."""

import base64
import codecs
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from fencepost.cluster.topic_records import (
    LetterContent,
    LetterError,
    LetterOrigin,
    LetterPage,
    ShownBytes,
    ShownHeader,
    ShownLetter,
)
from fencepost.config import ConfigError
from fencepost.dead_letter.letter import DeadLetter, parsed
from fencepost.dead_letter.progress import Handled, handled_by, is_mark
from fencepost.kafka.read.browse import Effort, Range, TopicBrowser, TopicRecord, backwards
from fencepost.secret.known import hide, longest_known
from fencepost.secret.redaction import HIDDEN
from fencepost.task.failure.dead_letter import (
    CLASS,
    EXCEPTION,
    MESSAGE,
    OFFSET,
    PARTITION,
    STACKTRACE,
    STAGE,
    TASK,
    TOPIC,
)

KEY, VALUE, _HEADER, _FACT, _STACK = 1_024, 4_096, 256, 2_048, 8_192
_HEADERS = 20
_QUOTED = 4  # a quoted secret is about so many times as long
_BEHIND, _MOST_BEHIND = 1_024, 64 << 10  # as much as is searched for secrets after what is shown
_MOST_RECORDS = 50_000
_MOST_BYTES = 64 << 20
LONGEST_S = 10.0
"""How long it may take to read a page of records of topics; what has been read until then is shown."""
_SHOWING_S = 2.0  # at least, however long the reading has taken
LEAST_PART = 16  # of many partitions, some are read well rather than all for a record or two

T = TypeVar("T")
Row = tuple[int, int, int, DeadLetter]  # time, partition, offset


def shown(dead_letter: DeadLetter, *, is_handled: bool) -> ShownLetter:
    """Return a dead letter with the beginnings of what is long."""
    facts, record = dead_letter.facts, dead_letter.record
    task = facts.get(TASK, "")
    origin = LetterOrigin(
        _fact(facts.get(TOPIC)),
        parsed(_fact(facts.get(PARTITION))),
        parsed(_fact(facts.get(OFFSET))),
        dead_letter.time_ms,
    )
    stage, class_name, exception, message = (_fact(facts.get(name)) for name in (STAGE, CLASS, EXCEPTION, MESSAGE))
    return ShownLetter(
        dead_letter.place,
        record.timestamp_ms,
        int(task) if task.isdecimal() and len(task) < 10 else None,
        origin,
        LetterError(stage, class_name, exception, message, _fact(facts.get(STACKTRACE), _STACK)),
        LetterContent(
            shown_bytes(record.key, KEY), shown_bytes(record.value, VALUE), list(shown_headers(dead_letter.headers))
        ),
        is_handled,
    )


def shown_headers(headers: Iterable[tuple[str, bytes | None]]) -> Iterator[ShownHeader]:
    """Yield the first headers, with the beginnings of what is long."""
    for name, data in islice(headers, _HEADERS):
        yield ShownHeader(_cut(name, _HEADER), shown_bytes(data, _HEADER))


def _fact(text: str | None, most: int = _FACT) -> str | None:
    return None if text is None else _cut(text, most)


def _behind() -> int:
    return min(max(_BEHIND, _QUOTED * longest_known()), _MOST_BEHIND)


def _cut(text: str, most: int) -> str:
    return _hidden(text, most)[:most]


def _hidden(text: str, most: int) -> str:
    """Return the beginning of a text, in which secrets are hidden before they could be cut in two.

    No more is searched than is needed for that: it takes long, and others wait for the interpreter.
    """
    behind = _behind()
    found = hide(text[: most + behind])
    return found if len(text) <= most + behind else found[:-behind]  # a secret at the end is cut in two


def shown_bytes(data: bytes | None, most: int) -> ShownBytes | None:
    """Return the beginning of a key or a value, without secrets."""
    if data is None:
        return None
    behind = _behind()
    start = data[: 4 * (most + behind)]
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(start, final=len(start) == len(data))
    except UnicodeDecodeError:
        return _binary(data, most)
    hidden = _hidden(text, most)
    is_cut = len(hidden) > most or len(text) > most + behind or len(start) < len(data)
    return ShownBytes(hidden[:most], False, len(data), is_cut)


def _binary(data: bytes, most: int) -> ShownBytes:
    start = data[: most + _behind()]
    for text in (start.decode("latin-1"), start.decode("utf-8", "replace")):
        if hide(text) != text:
            return ShownBytes(HIDDEN, False, len(data), True)
    return ShownBytes(base64.b64encode(data[:most]).decode(), True, len(data), len(data) > most)


@dataclass
class _Found:
    """What was found of one partition from the offset `first` on: the newest, the oldest of them first."""

    first: int
    offsets: deque[int] = field(default_factory=deque)
    rows: list[Row] = field(default_factory=list)
    unnamed: int = 0
    handled: Handled | None = None

    def rest(self, taken: int) -> int:
        """Return the offset before which the next page continues if the `taken` newest are on this one."""
        left = len(self.offsets) - taken
        return self.offsets[left - 1] + 1 if left else self.first

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
    whole = effort or Effort(_MOST_RECORDS, _MOST_BYTES, time.monotonic() + LONGEST_S)
    each = whole.part(min(max(1, len(ranges)), LEAST_PART))
    found: dict[int, _Found] = {}
    rows: list[Row] = []
    for partition, (first, end) in sorted(ranges.items()):
        has_progress = any(one.first < ranges[p][1] for p, one in found.items())
        found[partition] = _Found(end)
        if whole.is_spent and has_progress:
            continue
        reading = _Reading(browser, connector, partition, limit, handled.get(partition))
        found[partition] = one = reading.newest((first, end), whole, each, is_obliged=not has_progress)
        rows = sorted([*rows, *one.rows], key=lambda row: row[:3])[-limit:]  # no more whole records are kept
        one.rows = []
    letters = list(_shown(rows[::-1], found, max(whole.until_s, time.monotonic() + _SHOWING_S)))
    taken = Counter(partition for _, partition, *_ in rows[len(rows) - len(letters) :])
    rest = {p: one.rest(taken[p]) for p, one in found.items()}
    has_older = any(end > ranges[partition][0] for partition, end in rest.items())
    everywhere = {partition: rest.get(partition, first) for partition, (first, _) in browser.ranges.items()}
    return LetterPage(
        browser.topic,
        letters,
        sum(one.unnamed for one in found.values()),
        text_of(everywhere) if has_older else None,
    )


def _shown(rows: Sequence[Row], found: Mapping[int, _Found], until_s: float) -> Iterator[ShownLetter]:
    """Yield what is shown of the rows until it takes too long, but of one at least."""
    for at, (_, partition, _, dead_letter) in enumerate(rows):
        if at and time.monotonic() >= until_s:
            return
        yield shown(dead_letter, is_handled=found[partition].has_handled(dead_letter))


@dataclass(frozen=True)
class _Reading:
    """Reads one partition for a page."""

    browser: TopicBrowser
    connector: str
    partition: int
    limit: int
    in_group: Handled | None

    def newest(self, range_: Range, whole: Effort, part: Effort, *, is_obliged: bool) -> _Found:
        """Return the newest. What is read is taken from `whole`, and is no more than `part`.

        `is_obliged`: one record is read at least.
        """
        found, left = _Found(range_[1], handled=self.in_group), part.at_most(whole)
        given, letters = replace(left), deque[DeadLetter]()
        for start, records in backwards(
            self.browser.read, self.partition, range_, self.limit, left, is_obliged=is_obliged
        ):
            newest = deque(self._letters(records, found), self.limit)
            letters.extendleft(reversed(newest))
            # with as many as were asked for, there may be others in this window
            found.first = newest[0].record.offset if len(newest) == self.limit else start
            if len(letters) >= self.limit:
                break
        whole.spend(given.records - left.records, given.size_bytes - left.size_bytes)
        found.offsets = deque(one.record.offset for one in letters)
        found.rows = list(in_time(letters, lambda one: one.record))
        return found

    def _letters(self, records: Sequence[TopicRecord], found: _Found) -> Iterator[DeadLetter]:
        """Yield the dead letters of a window, and add to `found` what else it has."""
        mark = None
        for record in records:
            dead_letter = DeadLetter.of(self.browser.topic, record)
            if dead_letter.connector == self.connector:
                yield dead_letter
            elif is_mark(record):
                mark = (None if self.in_group is not None else handled_by(record, self.connector)) or mark
            elif dead_letter.connector is None:
                found.unnamed += 1
        found.handled = found.handled or mark


def in_time(found: Iterable[T], record_of: Callable[[T], TopicRecord]) -> Iterator[tuple[int, int, int, T]]:
    """Yield rows with times that never go back: a page ends at one offset of a partition."""
    time_ms = 0
    for one in found:
        record = record_of(one)
        time_ms = max(time_ms, record.timestamp_ms or 0)
        yield time_ms, record.partition, record.offset, one


def places(text: str | None) -> dict[int, int]:
    """Parse the `older` of a page, such as `0:14,1:7`: offsets by partition. Raises ConfigError."""
    try:
        pairs = [one.split(":") for one in text.split(",")] if text else []
        return {int(partition): int(offset) for partition, offset in pairs}
    except ValueError:
        raise ConfigError(f"before={text}: it is not the `older` of an earlier answer") from None


def text_of(places: Mapping[int, int]) -> str:
    """Return the text that `places` parses."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(places.items()))
