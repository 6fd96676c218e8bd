"""A mirror's metrics: what tasks measure, and the names that MirrorMaker has for it.

A task returns rows of labels followed by values; the worker, which knows the names, makes metrics of them: beans of
`kafka.connect.mirror`, by the partition of the target. The task's threads write, and another thread reads. There is no
lock, because each value is read by itself.
"""

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.api import ReplicationPolicy
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import LogGap
from fencepost.record import TopicPartition

Rows = Mapping[str, Sequence[Sequence[str | float]]]
"""By kind."""
_LOOKED_AT = 100  # records for each poll and partition whose age is measured
_MOST_POLLS = 1_000  # uncommitted polls for each partition: a transform may filter all their records
_SINCE = "since the task started"
_PACKAGE = "kafka_connect_mirror_mirror"


class Spread:
    """The newest, largest, smallest and mean of numbers."""

    def __init__(self) -> None:
        self._last = self._most = self._least = self._sum = 0.0
        self._count = 0

    def take(self, least: float, most: float, mean: float, count: int) -> None:
        """Add `count` numbers at once. `least` counts as the newest number: the newest record has the smallest age."""
        self._last = least
        self._most = max(self._most, most)
        self._least = min(self._least, least) if self._count else least
        self._sum += mean * count
        self._count += count

    def values(self) -> tuple[float, ...]:
        return self._last, self._most, self._least, self._sum / self._count if self._count else 0.0


@dataclass(frozen=True, slots=True)
class _PolledRecords:
    """Records of a partition from one poll; `times_ms` are timestamps of some of them, possibly none."""

    last: int
    count: int
    size_bytes: int
    times_ms: Sequence[int]


@dataclass(slots=True)
class _Place:
    """A partition of the source."""

    records: int = 0
    size_bytes: int = 0
    age: Spread = field(default_factory=Spread)
    latency: Spread = field(default_factory=Spread)
    waiting: deque[_PolledRecords] = field(default_factory=lambda: deque(maxlen=_MOST_POLLS))


class MeasuredRecords:
    """Records of a task, and its gaps."""

    def __init__(self) -> None:
        self._places: dict[TopicPartition, _Place] = defaultdict(_Place)
        self._gaps: dict[TopicPartition, tuple[int, int]] = {}
        self._flushed: deque[tuple[TopicPartition, _PolledRecords]] = deque()

    def read(self, places: Sequence[TopicPartition], counts: Sequence[int], fetched: Fetched) -> None:
        """Measure the result of a poll: consecutive runs of `counts` records of these partitions."""
        now_ms, start = time.time() * 1000, 0
        for place, count in zip(places, counts, strict=True):
            stop = start + count
            times = fetched.times_ms(start, stop, _LOOKED_AT)
            size = fetched.size_bytes(start, stop)
            measured = self._places[place]
            _take(measured.age, times, now_ms)
            measured.waiting.append(_PolledRecords(fetched.offsets[stop - 1], count, size, times))
            start = stop

    def flushed(self, lasts: Iterable[tuple[TopicPartition, int]]) -> None:
        """Record that records up to these offsets are in the log; the next `committed` counts them."""
        for place, last in lasts:
            waiting = self._places[place].waiting
            while waiting and waiting[0].last <= last:
                self._flushed.append((place, waiting.popleft()))

    def committed(self) -> None:
        """Count the records that were flushed since the last call."""
        now_ms = time.time() * 1000
        for _ in range(len(self._flushed)):  # more may be added meanwhile
            place, polled = self._flushed.popleft()
            measured = self._places[place]
            measured.records += polled.count
            measured.size_bytes += polled.size_bytes
            _take(measured.latency, polled.times_ms, now_ms)

    def skipped(self, gap: LogGap) -> None:
        """Count a gap that the task skips."""
        gaps, offsets = self._gaps.get(gap.place, (0, 0))
        self._gaps[gap.place] = gaps + 1, offsets + max(0, gap.start - gap.position)

    def rows(self, source: str, target: str, policy: ReplicationPolicy) -> Rows:
        """Return what was measured."""

        def labels(place: TopicPartition) -> tuple[str, ...]:
            return source, target, policy.format_remote_topic(source, place.topic), str(place.partition)

        return {
            SOURCE: [
                (*labels(place), one.records, one.size_bytes, *one.age.values(), *one.latency.values())
                for place, one in list(self._places.items())
            ],
            GAP: [(*labels(place), *numbers) for place, numbers in list(self._gaps.items())],
        }


class MeasuredCheckpoints:
    """Checkpoints of a task, by group and partition of the target."""

    def __init__(self) -> None:
        self._latency: dict[tuple[str, TopicPartition], Spread] = defaultdict(Spread)
        self._made: deque[tuple[tuple[str, TopicPartition], float]] = deque()

    def made(self, places: Iterable[tuple[str, TopicPartition]]) -> None:
        """Record that checkpoints are about to be written."""
        self._made.extend((place, time.time()) for place in places)

    def committed(self) -> None:
        """Measure the checkpoints that were written since the last call."""
        now_s = time.time()
        for _ in range(len(self._made)):
            place, made_s = self._made.popleft()
            took_ms = max(0.0, (now_s - made_s) * 1000)
            self._latency[place].take(took_ms, took_ms, took_ms, 1)

    def rows(self, source: str, target: str) -> Rows:
        found = list(self._latency.items())
        return {
            CHECKPOINT: [
                (source, target, group, place.topic, str(place.partition), *spread.values())
                for (group, place), spread in found
            ]
        }


def _take(spread: Spread, times_ms: Sequence[int], now_ms: float) -> None:
    if times_ms:
        mean = now_ms - sum(times_ms) / len(times_ms)
        spread.take(max(0.0, now_ms - max(times_ms)), max(0.0, now_ms - min(times_ms)), max(0.0, mean), len(times_ms))


@dataclass(frozen=True)
class FigureKind:
    """A kind of rows: their labels, and the name and description of each value (`_total`: a counter)."""

    prefix: str
    labels: tuple[str, ...]
    values: Mapping[str, str]


def _times(name: str, what: str) -> dict[str, str]:
    return {
        name: f"{what}, in milliseconds: the newest.",
        f"{name}_max": f"{what}, in milliseconds: the longest {_SINCE}.",
        f"{name}_min": f"{what}, in milliseconds: the shortest {_SINCE}.",
        f"{name}_avg": f"{what}, in milliseconds: the mean {_SINCE}.",
    }


SOURCE, CHECKPOINT, GAP = "source", "checkpoint", "gap"
KINDS: Mapping[str, FigureKind] = {
    SOURCE: FigureKind(
        f"{_PACKAGE}sourceconnector",
        ("source", "target", "topic", "partition"),
        {
            "record_count": f"Records that were mirrored and committed, {_SINCE}.",
            "byte_count": f"Bytes of the values of these records, {_SINCE}.",
            **_times("record_age_ms", "How old records were, by their timestamps, when they were read from the source"),
            **_times("replication_latency_ms", "How old records were, by their timestamps, when they were committed"),
        },
    ),
    CHECKPOINT: FigureKind(
        f"{_PACKAGE}checkpointconnector",
        ("source", "target", "group", "topic", "partition"),
        _times("checkpoint_latency_ms", "How long checkpoints took, from their translation to their commit"),
    ),
    GAP: FigureKind(
        "fencepost_mirror",
        ("source", "target", "topic", "partition"),
        {
            "gaps_total": f"Gaps in logs of the source that the task has skipped (on.source.gap=record), {_SINCE}.",
            "gap_offsets_total": f"Offsets in these gaps, as far as known, {_SINCE}.",
        },
    ),
}
