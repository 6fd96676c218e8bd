"""The topics and offsets of a query, as the cluster reports them now. Driver side."""

import heapq
import logging
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fencepost.config import ConfigError
from fencepost.kafka.admin.client import answering_admin
from fencepost.kafka.admin.topics import Topic
from fencepost.kafka.read.doubt import report_loss, sure_ends
from fencepost.kafka.value.position import LogRange, shares
from fencepost.kafka.wire.experience import NOT_LED, planned_leaders
from fencepost.record import TopicPartition
from fencepost.spark.kafka_read.options import KafkaReadConfig
from fencepost.spark.kafka_read.reading import QueryValues
from fencepost.spark.kafka_read.selection import Bound, Edge

Offsets = Mapping[TopicPartition, int]


def divide(ranges: Sequence[LogRange], least: int | None, most_records: int | None) -> list[LogRange]:
    """Return the non-empty ranges, cut into even pieces, in order.

    No piece has more than `most_records` offsets. There are `least` pieces, unless there were more ranges already or
    fewer offsets. The pieces of a range are about equally large.
    """
    ranges = [each for each in ranges if each.size > 0]
    pieces = [math.ceil(each.size / most_records) if most_records else 1 for each in ranges]
    heap = [(-each.size / n, i) for i, (each, n) in enumerate(zip(ranges, pieces, strict=True))]
    heapq.heapify(heap)
    for _ in range((least or 0) - sum(pieces)):
        largest, i = heap[0] if heap else (0, 0)
        if largest >= -1:
            break
        pieces[i] += 1
        heapq.heapreplace(heap, (-ranges[i].size / pieces[i], i))
    return [piece for each, n in zip(ranges, pieces, strict=True) for piece in _cut(each, n)]


def _cut(whole: LogRange, pieces: int) -> list[LogRange]:
    borders = [whole.start + whole.size * i // pieces for i in range(pieces + 1)]
    return [replace(whole, start=a, end=b) for a, b in pairwise(borders) if b > a]


def limited(starts: Offsets, ends: Offsets, most: int) -> dict[TopicPartition, int]:
    """Return ends that leave about `most` offsets, shared in proportion to each partition's backlog, as in Spark's
    source.

    A partition with a small backlog gets at least one offset.
    """
    sizes = {place: end - starts[place] for place, end in ends.items() if end > starts[place]}
    taken = shares(sizes, most)
    return {place: starts[place] + taken[place] if place in taken else end for place, end in ends.items()}


def waiting(starts: Offsets, ends: Offsets) -> int:
    """Return the number of offsets between start and end."""
    return sum(max(end - starts[place], 0) for place, end in ends.items())


log = logging.getLogger(__name__)

_TOLERANT = "latest"


@dataclass(frozen=True)
class Found:
    """The chosen topics and partitions that exist; `missing` names those that should exist, too."""

    topics: Mapping[str, Topic]
    places: frozenset[TopicPartition]
    missing: tuple[str, ...]


class KafkaSource:
    """Asks the cluster for a query. Every request ends in a finite time; raises the errors of `kafka`."""

    def __init__(self, config: KafkaReadConfig) -> None:
        for warning in config.warnings():
            log.warning(warning)
        self._config = config
        self._choice = config.choice
        self._admin = answering_admin(config.admin_conf())

    def close(self) -> None:
        """Idempotent."""
        self._admin.close()

    def look(self) -> Found:
        """Return what exists now."""
        topics = self._choice.topics(self._admin.topics)
        return Found(topics, self._choice.partitions(topics), tuple(self._choice.missing(topics)))

    def look_for_all(self) -> Found:
        """Return what exists now. Raises ConfigError if anything that the options name is missing."""
        found = self.look()
        if found.missing:
            raise ConfigError(f"option {self._choice.option} names what does not exist: {', '.join(found.missing)}")
        return found

    def lows(self, places: Collection[TopicPartition]) -> Offsets:
        """Return where logs begin."""
        return _by_place(self._admin.offsets.starts(places))

    def ends(self, places: Collection[TopicPartition]) -> Offsets:
        """Return where logs end for this query: at the first open transaction, if it reads committed records only."""
        return _by_place(self._admin.offsets.ends(places, read_committed=self._config.is_committed_only))

    def highs(self, places: Collection[TopicPartition]) -> Offsets:
        """Return where logs end, including uncommitted records."""
        return _by_place(self._admin.offsets.ends(places, read_committed=False))

    def resolved(self, bound: Bound, places: Collection[TopicPartition], *, is_start: bool) -> Offsets:
        """Return the offset that a bound stands for in each partition. Raises ConfigError if the bound does not fit
        them.
        """
        if bound.named is not None:
            _check_named(bound, places)
        if bound.times_ms is not None:
            return self._at_times(bound, places, is_start=is_start)
        edges = bound.offsets if isinstance(bound.offsets, Mapping) else dict.fromkeys(places, bound.offsets)
        lows = self.lows([p for p in places if edges[p] == Edge.EARLIEST])
        ends = self.ends([p for p in places if edges[p] == Edge.LATEST])
        return {**{p: int(edges[p] or 0) for p in places}, **lows, **ends}

    def ranges(self, found: Found, starts: Offsets, ends: Offsets) -> list[LogRange]:
        """Return the range to read of each partition, after a check for lost records.

        Raises DataLossError; if losses are tolerated, returns what remains.
        """
        self._check_beyond({place: starts[place] for place, end in ends.items() if starts.get(place, end) > end})
        places = sorted(place for place, end in ends.items() if place in starts and end > starts[place])
        lows, highs = self.lows(places), self._confirmed({place: ends[place] for place in places})[0]
        led = planned_leaders(self._config.admin_conf(), places)
        ranges = []
        for place in places:
            wanted = LogRange(place, starts[place], ends[place], found.topics[place.topic].id, led.get(place, NOT_LED))
            low, high = lows[place], highs[place]
            if wanted.start < low:
                self.lose(
                    wanted, f"offsets {wanted.start} to {min(low, wanted.end) - 1} are gone, the log begins at {low}"
                )
            if wanted.end > high:
                self.lose(
                    wanted, f"the log ends at {high}: it was truncated, or the topic was deleted and created again"
                )
            ranges.append(replace(wanted, start=max(wanted.start, low), end=min(wanted.end, high)))
        return ranges

    def cut(self, read: Offsets) -> Offsets:
        """Return where those logs were cut that end before what was `read`. Raises DataLossError."""
        cut = self._confirmed(read)[1]
        for place, high in sorted(cut.items()):
            what = f"the log ends at {high}: it was truncated"
            self.lose(f"offset {read[place]} of {place.topic}-{place.partition}", what)
        return cut

    def _confirmed(self, wanted: Offsets) -> tuple[Offsets, Offsets]:
        """Return where logs end, and where those were cut that end before `wanted`.

        If a log ends before `wanted` and that will not fail the query, ask repeatedly: a broker that was deposed, but
        does not know it yet, reports an earlier end.
        """
        if not self._config.fails_on_loss:
            return sure_ends(self.highs, wanted)
        ends = self.highs(wanted)
        return ends, {place: ends[place] for place, at in wanted.items() if ends[place] < at}

    def _check_beyond(self, starts: Offsets) -> None:
        for place, high in sorted(self._confirmed(starts)[0].items()):
            if starts[place] > high:
                what = f"the log ends at {high}; was it truncated, or the topic deleted and created again?"
                self.lose(f"offset {starts[place]} of {place.topic}-{place.partition}", what)

    def lose(self, wanted: object, what: str) -> None:
        """Raise DataLossError; if losses are tolerated, log a warning."""
        report_loss(wanted, what, is_error=self._config.fails_on_loss)

    def _at_times(self, bound: Bound, places: Collection[TopicPartition], *, is_start: bool) -> Offsets:
        times = bound.times_ms if isinstance(bound.times_ms, Mapping) else dict.fromkeys(places, bound.times_ms or 0)
        asked: dict[tuple[str, int], int] = {place: times[place] for place in places}
        found = self._admin.offsets.at_times(asked, read_committed=self._config.is_committed_only)
        none = sorted(TopicPartition(*place) for place, offset in found.items() if offset is None)
        if none and is_start and self._config.starting_strategy.lower() != _TOLERANT:
            first = f"{none[0].topic}-{none[0].partition}"
            raise ConfigError(
                f"option {bound.option}: {first} has no record of {asked[none[0]]} or later; "
                f"{self._config.key_of('starting_strategy')}={_TOLERANT} begins at the end of such partitions"
            )
        known = {TopicPartition(*place): offset for place, offset in found.items() if offset is not None}
        return {**known, **self.ends(none)}


def _check_named(bound: Bound, places: Collection[TopicPartition]) -> None:
    named = set(bound.named or ())
    for which, differing in (("does not name", set(places) - named), ("names", named - set(places))):
        if differing:
            first = min(differing)
            why = "every partition must be named" if which != "names" else "which is not read"
            raise ConfigError(f"option {bound.option} {which} {first.topic}-{first.partition}: {why}")


def query_values(config: KafkaReadConfig) -> QueryValues:
    """Ask the registry for the schemas of a query's topics. Raises ConfigError, and RetriableError if it is away."""
    source = KafkaSource(config)
    try:
        topics = sorted(source.look_for_all().topics)
    finally:
        source.close()
    if not topics:
        raise ConfigError(f"option {config.choice.option} matches no topic: there is none whose schema has the columns")
    return QueryValues.of(config.value_converter or "", config.converter_conf(), config.value_schema_subject, topics)


def _by_place(offsets: Mapping[tuple[str, int], int]) -> Offsets:
    return {TopicPartition(*place): offset for place, offset in offsets.items()}
