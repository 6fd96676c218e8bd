"""Which records a page has, and where the next one begins."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fencepost.cluster.topic_records import EARLIEST, LATEST, RecordQuery
from fencepost.config import ConfigError
from fencepost.dead_letter.page import text_of
from fencepost.kafka.read.browse import Range, TopicRecord
from fencepost.worker.operation.connector.topic_records import read_page


class FakeBrowser:
    """Partitions of records, given by their times; the offset is the place, unless there is a gap (None)."""

    topic = "t"

    def __init__(self, *partitions: list[int | None], size_bytes: int = 1) -> None:
        self._records = {
            p: [TopicRecord(p, at, time, None, b"x" * size_bytes) for at, time in enumerate(times) if time is not None]
            for p, times in enumerate(partitions)
        }
        self.ranges: dict[int, Range] = {p: (0, len(times)) for p, times in enumerate(partitions)}
        self.count = 0

    def read(self, ranges: Mapping[int, Range]) -> Iterator[TopicRecord]:
        for partition, (first, end) in ranges.items():
            for record in self._records[partition]:
                if first <= record.offset < end:
                    self.count += 1
                    yield record


def pages(browser: Any, start: str, limit: int = 3) -> list[list[tuple[int, int]]]:
    """Return the places of all pages from `start` on, until one is empty."""
    found: list[list[tuple[int, int]]] = []
    while True:
        page = read_page(browser, {}, RecordQuery(start, limit))
        if not page.records:
            assert page.next == {p: end for p, (_, end) in browser.ranges.items()}
            return found
        found.append([(one.partition, one.offset) for one in page.records])
        start = text_of(page.next)


def test_pages_have_each_record_once_in_the_order_of_times() -> None:
    browser = FakeBrowser([10, 30, 20, 50], [15, 40], [])
    assert pages(browser, EARLIEST) == [[(0, 0), (1, 0), (0, 1)], [(0, 2), (1, 1), (0, 3)]]
    assert pages(browser, "1:1") == [[(0, 0), (0, 1), (0, 2)], [(1, 1), (0, 3)]]


def test_last_page_ends_at_the_ends_of_the_partitions() -> None:
    browser = FakeBrowser([10, 30, 20, 50], [15, 40])
    page = read_page(browser, {}, RecordQuery(LATEST, 3))  # type: ignore[arg-type]
    assert [(one.partition, one.offset) for one in page.records] == [(0, 2), (1, 1), (0, 3)]
    assert page.next == {0: 4, 1: 2}


def test_the_last_records_are_found_before_offsets_without_records() -> None:
    browser = FakeBrowser([1, 2, 3, None, None, None])
    assert [one.offset for one in read_page(browser, {}, RecordQuery(LATEST, 2)).records] == [1, 2]  # type: ignore[arg-type]


@pytest.mark.parametrize("gap", [60, 100_000])
def test_the_last_records_are_found_before_a_long_gap(gap: int) -> None:
    browser = FakeBrowser([1, 2, 3, *[None] * gap])
    assert [one.offset for one in read_page(browser, {}, RecordQuery(LATEST, 2)).records] == [1, 2]  # type: ignore[arg-type]


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_last_records_are_the_newest_when_they_are_large(partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.worker.operation.connector.topic_records._MOST_BYTES", 160 * partitions)
    browser = FakeBrowser(*[list(range(100))] * partitions, size_bytes=10)
    found = [(one.partition, one.offset) for one in read_page(browser, {}, RecordQuery(LATEST, 50)).records]  # type: ignore[arg-type]
    for partition in range(partitions):
        own = [offset for of, offset in found if of == partition]
        assert own
        assert own == list(range(100 - len(own), 100))


def test_page_begins_at_the_given_offset_and_has_only_the_given_partition() -> None:
    browser = FakeBrowser([10, 30, 20], [15, 40])
    page = read_page(browser, {}, RecordQuery("1", 10, 1))  # type: ignore[arg-type]
    assert ([(one.partition, one.offset) for one in page.records], page.next) == ([(1, 1)], {1: 2})


def test_page_reads_few_more_records_than_it_shows() -> None:
    browser = FakeBrowser(list(range(1000)))
    read_page(browser, {}, RecordQuery(EARLIEST, 5))  # type: ignore[arg-type]
    read_page(browser, {}, RecordQuery(LATEST, 5))  # type: ignore[arg-type]
    assert browser.count <= 11


def test_pages_of_large_records_are_short_and_lose_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.worker.operation.connector.topic_records._MOST_BYTES", 2)
    browser = FakeBrowser([1, 4], [2, 5], [3, 6])
    found = [place for page in pages(browser, EARLIEST) for place in page]
    assert sorted(found) == [(p, at) for p in range(3) for at in range(2)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (RecordQuery("soon"), "from=soon: write earliest, latest, an offset such as 17, a time such as"),
        (RecordQuery("9" * 5000), "write earliest, latest, an offset such as 17"),
        (RecordQuery("0:" + "9" * 5000), "write earliest, latest, an offset such as 17"),
        (RecordQuery(EARLIEST, 1, 7), "partition=7: t has the partitions 0 to 0"),
    ],
)
def test_a_query_that_is_not_understood_is_refused(query: RecordQuery, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_page(FakeBrowser([1]), {}, query)  # type: ignore[arg-type]
