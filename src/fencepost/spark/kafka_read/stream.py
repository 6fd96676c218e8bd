"""`spark.readStream.format("fencepost")`.

Offsets in the checkpoint have the form of Spark's own source: `{"orders":{"0":23,"1":17}}`, the offset of the next
record of each partition. Spark stores where a micro-batch ends, and uses the end of the previous one as the start. It
stores no start for the first micro-batch, nor for a new partition. These starts are stored with the end, under `_FROM`,
so that a micro-batch that is repeated after a crash is the same. So are the starts of partitions whose log was cut or
whose topic was created again, which the topics' ids tell, under `_IDS`.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from fencepost.config import ConfigError
from fencepost.record import TopicPartition
from fencepost.spark.kafka_read.options import KafkaReadConfig
from fencepost.spark.kafka_read.reading import QueryValues, read_range
from fencepost.spark.kafka_read.selection import Edge, everywhere, flat, nested
from fencepost.spark.kafka_read.source import Found, KafkaSource, Offsets, divide, limited, waiting

_FROM, _FIRST, _IDS = "/from", "/first", "/ids"  # no topic can have such a name
_OF_BATCHES = ("ending_offsets", "ending_timestamp", "ending_offsets_by_timestamp")
Progress = dict[str, Any]


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans micro-batches, in one process on the driver, and reads their ranges on executors."""

    def __init__(self, config: KafkaReadConfig, types: Mapping[str, str], values: QueryValues | None = None) -> None:
        """Check the options that only a stream refuses; `types` are the columns' types by name. Raises ConfigError."""
        self._config = config
        self._types = types
        self._values = values
        if wrong := config.given(*_OF_BATCHES):
            raise ConfigError(f"option {wrong[0]} is for batches: a stream has no end")
        least, most = config.min_offsets_per_trigger, config.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise ConfigError(
                f"option {config.key_of('min_offsets_per_trigger')} is more than "
                f"{config.key_of('max_offsets_per_trigger')}"
            )
        self._plan: _Planner | None = None  # created where it is used, because clients cannot be pickled

    def initialOffset(self) -> Progress:  # noqa: N802
        """Return where a new query begins."""
        return self._planner.initial()

    def latestOffset(self, start: Progress, limit: ReadLimit) -> Progress:  # noqa: N802
        """Return where the next micro-batch ends; `start` itself if there is nothing to read."""
        return self._planner.next(start, is_limited=not isinstance(limit, ReadAllAvailable))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return a limit of any kind; `latestOffset` knows the actual one."""
        if (most := self._config.max_offsets_per_trigger) is not None:
            return ReadMaxRows(most)
        if (least := self._config.min_offsets_per_trigger) is not None:
            return ReadMinRows(least)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> Progress | None:  # noqa: N802
        """Return where the logs ended at the last request, for the query's progress."""
        return self._planner.last_ends

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end: later records are not read."""
        self._planner.fix_end()

    def partitions(self, start: Progress, end: Progress) -> list[InputPartition]:
        """Plan the ranges of a micro-batch; a repetition gets the same. Raises DataLossError and the errors of
        `kafka`.
        """
        return self._planner.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read a range, on an executor."""
        return read_range(self._config, self._types, partition.value, self._values)

    def stop(self) -> None:
        """Close the clients."""
        if self._plan is not None:
            self._plan.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plan": None}

    @property
    def _planner(self) -> "_Planner":
        self._plan = self._plan or _Planner(self._config)
        return self._plan


class _Planner:
    """The driver's part of a stream."""

    def __init__(self, config: KafkaReadConfig) -> None:
        self._config = config
        self._source = KafkaSource(config)
        self._target: Offsets | None = None  # the end of a query that reads what is available now
        self._planned_s = time.monotonic()  # the time of the last micro-batch
        self.last_ends: Progress | None = None

    def close(self) -> None:
        self._source.close()

    def initial(self) -> Progress:
        found = self._source.look_for_all()
        bound = self._config.starting or everywhere(Edge.LATEST)
        return {
            **nested(self._source.resolved(bound, found.places, is_start=True)),
            **_ids_of(found, found.places),
            _FIRST: True,
        }

    def fix_end(self) -> None:
        self._target = self._source.ends(self._source.look().places)

    def next(self, start: Progress, *, is_limited: bool) -> Progress:
        found = self._source.look()
        begun = _offsets(start)
        self._lose_places([place for place in begun if place not in found.places])
        ends = dict(self._source.ends(found.places) if self._target is None else self._target)
        self.last_ends = nested(ends)
        fresh = self._source.lows([place for place in ends if place not in begun])
        for place, low in fresh.items():
            if low > 0 and begun:
                self._source.lose(f"new partition {place.topic}-{place.partition}", f"its log begins at {low} already")
        moved = self._moved(found, begun, ends, start.get(_IDS, {}))
        starts = {**begun, **fresh, **moved}
        ends = {place: max(end, starts[place]) for place, end in ends.items()}
        if is_limited:
            if not moved and self._is_too_early(waiting(starts, ends)):
                return start
            if (most := self._config.max_offsets_per_trigger) is not None:
                ends = limited(starts, ends, most)
        if not fresh and not moved and _FIRST not in start and ends == begun:
            return start
        self._planned_s = time.monotonic()
        kept = starts if _FIRST in start else {**fresh, **moved}
        return {**nested(ends), **_ids_of(found, ends), **({_FROM: nested(kept)} if kept else {})}

    def partitions(self, start: Progress, end: Progress) -> list[InputPartition]:
        if start == end:
            return []
        ends = _offsets(end)
        starts = {**(ends if _FIRST in end else _offsets(start)), **flat(end.get(_FROM, {}))}
        unknown = [place for place in ends if place not in starts]  # it is in a checkpoint of Spark's own source
        starts |= self._source.lows(unknown)
        found = self._source.look()
        gone = [place for place in ends if place not in found.places]
        self._lose_places(gone)
        gone += self._recreated(found, [place for place in ends if place in found.places], end.get(_IDS, {}))
        ranges = self._source.ranges(found, starts, {place: at for place, at in ends.items() if place not in gone})
        return [
            InputPartition(each)
            for each in divide(ranges, self._config.min_partitions, self._config.max_records_per_partition)
        ]

    def _moved(self, found: Found, begun: Offsets, ends: Offsets, ids: Mapping[str, str]) -> Offsets:
        """Return where partitions continue that no longer have what was read. Raises DataLossError.

        A topic that was created again is read from its beginning, a log that was cut from its end.
        """
        there = [place for place in begun if place in ends and place in found.places]
        recreated = self._recreated(found, there, ids)
        short = {p: begun[p] for p in there if ends[p] < begun[p] and p not in recreated}
        return {**self._source.lows(recreated), **self._source.cut(short)}

    def _recreated(self, found: Found, places: list[TopicPartition], ids: Mapping[str, str]) -> list[TopicPartition]:
        """Return the partitions whose topics have other ids than these."""
        replaced = {
            place.topic for place in places if ids.get(place.topic, "") not in ("", found.topics[place.topic].id)
        }
        for topic in sorted(replaced):
            self._source.lose(f"topic {topic}", "it was deleted and created again")
        return [place for place in places if place.topic in replaced]

    def _lose_places(self, gone: list[TopicPartition]) -> None:
        for place in gone:
            self._source.lose(f"{place.topic}-{place.partition}", "there is no such topic or partition any more")

    def _is_too_early(self, count: int) -> bool:
        least = self._config.min_offsets_per_trigger
        if least is None or count >= least or self._target is not None:
            return False
        return time.monotonic() - self._planned_s < self._config.max_trigger_delay_s


def _offsets(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    return flat({topic: found for topic, found in progress.items() if not topic.startswith("/")})


def _ids_of(found: Found, places: Iterable[TopicPartition]) -> Progress:
    known = {topic: found.topics[topic].id for topic in sorted({p.topic for p in places if p.topic in found.topics})}
    return {_IDS: known} if any(known.values()) else {}
