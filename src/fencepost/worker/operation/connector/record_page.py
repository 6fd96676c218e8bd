"""Reads a page of records from all partitions of a topic: bounded in number, in bytes and in time."""

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fencepost.cluster.topic_records import EARLIEST, LATEST, RecordQuery
from fencepost.config import ConfigError
from fencepost.dead_letter.page import Effort, places, size_of
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.browse import Range, TopicBrowser, TopicRecord
from fencepost.worker.operation.connector.browsing import ASK_S

_OFFSET = re.compile(r"[0-9]{1,18}")
_PLACES = re.compile(r"[0-9]{1,9}:[0-9]{1,18}(,[0-9]{1,9}:[0-9]{1,18})*")
_MOST_RECORDS = 20_000
_MOST_BYTES = 16 << 20
_LEAST_PART = 16  # of many partitions, some are read well rather than all for a record or two
_WIDER = 4  # times as many offsets, where they have fewer records


@dataclass(frozen=True)
class ReadPage:
    """Records in the order of their times, and where each partition goes on."""

    records: list[TopicRecord]
    next: Mapping[int, int]


def read_page(browser: TopicBrowser, conf: Mapping[str, Any], query: RecordQuery) -> ReadPage:
    """Return the records that a query asks for, or fewer. Raises ConfigError, and what `TopicBrowser.read` raises."""
    ranges = _ranges(browser, query.partition)
    effort = Effort(_MOST_RECORDS, _MOST_BYTES)
    if query.start == LATEST:
        each = effort.part(min(max(1, len(ranges)), _LEAST_PART))
        found = {p: _newest(browser, p, range_, query.limit, replace(each)) for p, range_ in ranges.items()}
        newest = sorted((row for rows in found.values() for row in _in_time(rows)), key=_order)[-query.limit :]
        return ReadPage([row[3] for row in newest], {p: end for p, (_, end) in ranges.items()})
    starts = _starts(browser, conf, query.start, ranges)
    return _after(browser, {p: (starts.get(p, first), end) for p, (first, end) in ranges.items()}, query.limit, effort)


def _after(browser: TopicBrowser, ranges: Mapping[int, Range], limit: int, effort: Effort) -> ReadPage:
    """Return the first records of these ranges. A partition that there was no time for goes on where it began."""
    found = {p: list(_read(browser, p, range_, limit, effort)) for p, range_ in ranges.items()}
    rows = sorted((row for records in found.values() for row in _in_time(records)), key=_order)
    left = {row[1]: row[2] for row in reversed(rows[limit:])}
    ends = {p: _end(ranges[p], records, limit, effort) for p, records in found.items()}
    return ReadPage([row[3] for row in rows[:limit]], {**ends, **left})


def _end(range_: Range, records: list[TopicRecord], limit: int, effort: Effort) -> int:
    """Return where a partition goes on whose records are all on the page."""
    is_whole = len(records) < limit and not effort.is_spent
    return range_[1] if is_whole else records[-1].offset + 1 if records else range_[0]


def _newest(browser: TopicBrowser, partition: int, range_: Range, limit: int, effort: Effort) -> list[TopicRecord]:
    """Return the newest records: a log cannot be read backwards, so windows of it are read, the last one first.

    A window that turns out to be too large is given up for a smaller one: its first records are not the newest.
    """
    first, end = range_
    records: list[TopicRecord] = []
    size = limit
    while first < end and len(records) < limit and not effort.is_spent:
        start = max(first, end - size)
        left = replace(effort, size_bytes=(effort.size_bytes + 1) // 2)
        window = list(_read(browser, partition, (start, end), size, left))
        effort.spend(len(window), sum(map(size_of, window)))
        if left.is_spent and end - start > 1:
            size = max(1, len(window) // 2)
            continue
        records = window + records
        end, size = start, min(size * _WIDER, _MOST_RECORDS)
    return records[-limit:]


def _read(browser: TopicBrowser, partition: int, range_: Range, limit: int, effort: Effort) -> Iterator[TopicRecord]:
    if range_[0] >= range_[1] or effort.is_spent:
        return
    for count, record in enumerate(browser.read({partition: range_}), start=1):
        effort.spend(1, size_of(record))
        yield record
        if count == limit or effort.is_spent:
            return


def _ranges(browser: TopicBrowser, partition: int | None) -> dict[int, Range]:
    if partition is None:
        return dict(browser.ranges)
    if partition not in browser.ranges:
        raise ConfigError(f"partition={partition}: {browser.topic} has the partitions 0 to {len(browser.ranges) - 1}")
    return {partition: browser.ranges[partition]}


def _starts(
    browser: TopicBrowser, conf: Mapping[str, Any], text: str, ranges: Mapping[int, Range]
) -> Mapping[int, int]:
    """Return the offset at which each partition begins; one that is missing begins with its first record."""
    if text == EARLIEST:
        return {}
    if _OFFSET.fullmatch(text):
        return dict.fromkeys(ranges, int(text))
    if _PLACES.fullmatch(text):
        return places(text)
    at_ms = _time_ms(text)
    with closing(Admin(conf, timeout_s=ASK_S)) as admin:
        found = admin.offsets.at_times({(browser.topic, p): at_ms for p in ranges}, read_committed=True)
    return {place[1]: ranges[place[1]][1] if offset is None else offset for place, offset in found.items()}


def _time_ms(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"from={text}: write {EARLIEST}, {LATEST}, an offset such as 17, a time such as 2026-11-21T10:00:00Z, or "
            "the `next` of an earlier answer"
        ) from None
    return max(0, int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))  # others mean places in a log


def _in_time(records: list[TopicRecord]) -> Iterator[tuple[int, int, int, TopicRecord]]:
    """Yield rows with times that never go back, so that a page ends at one offset of a partition."""
    time_ms = 0
    for one in records:
        time_ms = max(time_ms, one.timestamp_ms or 0)
        yield time_ms, one.partition, one.offset, one


def _order(row: tuple[int, int, int, TopicRecord]) -> tuple[int, int, int]:
    return row[:3]
