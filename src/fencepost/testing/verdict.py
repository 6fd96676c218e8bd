"""The only verdict on a delivery: compares the records of a source with those that a `read_committed` reader saw."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeVar

SourcePartition = Hashable
Sequenced = tuple[Hashable, Hashable]

_NAMED = 5

T = TypeVar("T")

_SHORTEST_S, _LONGEST_S = 0.05, 0.25
_SHARE = 0.1
_STILL_S = 1.0  # a process that sleeps for so much longer than it asked for did not run
_CROWD = 4.0  # processes that want each core in an ordinary test run
_MOST_STRETCH = 4.0  # how many times as long a limit may become


class Observation(NamedTuple):
    """A record as a consumer saw it, in the order of its topic partition.

    >>> from fencepost.testing import Observation
    >>> Observation("lines", 0, key=None, value=b"one").topic
    'lines'
    """

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None


class Sighting(NamedTuple):
    """The source partition and the sequence in the payload of an observation.

    >>> from fencepost.testing import Sighting
    >>> Sighting(source_partition="a.txt", sequence=3).sequence
    3
    """

    source_partition: SourcePartition
    sequence: Hashable


@dataclass(frozen=True)
class Verdict:
    """What went wrong with a delivery; nothing did if `is_clean`.

    `expected` and `observed` are counts; the rest are the anomalies themselves. `reordered` are records seen after a
    later one of the same source partition (in one topic partition), `misrouted` are observations in a topic or with a
    key that their payload denies, `unexpected` are sightings that the source never gave.

    >>> from fencepost.testing import judge
    >>> print(judge({"a.txt": [1, 2]}, [("a.txt", 1), ("a.txt", 2)]))
    2 records expected, 2 observed: clean
    """

    expected: int
    observed: int
    missing: tuple[Sighting, ...] = ()
    duplicated: tuple[Sighting, ...] = ()
    reordered: tuple[Sighting, ...] = ()
    misrouted: tuple[Observation, ...] = ()
    unexpected: tuple[Sighting, ...] = ()

    @property
    def is_clean(self) -> bool:
        return not any(anomalies for _, anomalies in self._anomalies())

    def _anomalies(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for field in fields(self)[2:]:
            yield field.name, getattr(self, field.name)

    def __str__(self) -> str:
        lines = [f"{self.expected:,} records expected, {self.observed:,} observed"]
        for name, anomalies in self._anomalies():
            if anomalies:
                named = ", ".join(_shown(anomaly) for anomaly in anomalies[:_NAMED])
                more = ", ..." if len(anomalies) > _NAMED else ""
                lines.append(f"  {len(anomalies):,} {name}: {named}{more}")
        return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}: clean"


def judge(
    expected: Mapping[Any, Sequence[Hashable]],
    observed: Iterable[Any],
    *,
    sighting: Callable[[Observation], Sequenced] | None = None,
    is_at_home: Callable[[Observation], bool] | None = None,
) -> Verdict:
    """Compare all records of the source with all that became visible.

    Args:
        expected: for each source partition everything it gave, in order, from the generator's own list: to the last
            record, so that a lost tail is seen. A sequence may stand there more than once.
        observed: `Observation`s, which `sighting` reads (an exception counts as unexpected), or without `sighting`
            pairs of (source partition, sequence), all in the order in which they were seen.
        is_at_home: whether topic and key of an observation are those that its payload names; needs observations.

    >>> from fencepost.testing import judge
    >>> verdict = judge({"a.txt": [1, 2, 3]}, [("a.txt", 1), ("a.txt", 3), ("a.txt", 3)])
    >>> (verdict.missing[0].sequence, verdict.duplicated[0].sequence, verdict.is_clean)
    (2, 3, False)
    """
    lanes = _Lanes()
    misrouted: list[Observation] = []
    if sighting is None:
        lanes.add_pairs(observed)
    else:
        lanes.add_observations(observed, sighting, is_at_home, misrouted)
    return lanes.judged(expected, tuple(misrouted))


class _Lanes:
    """Sightings by source partition and topic partition; order is checked within such a lane."""

    def __init__(self) -> None:
        self._lanes: dict[Any, dict[Any, list[Hashable]]] = defaultdict(lambda: defaultdict(list))
        self._unreadable: list[Sighting] = []

    def add_pairs(self, pairs: Iterable[Sequenced]) -> None:
        by_source: dict[Any, list[Hashable]] = defaultdict(list)
        for source, sequence in pairs:
            by_source[source].append(sequence)
        for source, sequences in by_source.items():
            self._lanes[source][None] = sequences

    def add_observations(
        self,
        observations: Iterable[Observation],
        sighting: Callable[[Observation], Sequenced],
        is_at_home: Callable[[Observation], bool] | None,
        misrouted: list[Observation],
    ) -> None:
        for observation in observations:
            try:
                source, sequence = sighting(observation)
                is_lost = is_at_home is not None and not is_at_home(observation)
            except Exception:  # `sighting` is the test's, and may find anything in a record
                self._unreadable.append(Sighting(f"{observation.topic}-{observation.partition}", observation.value))
                continue
            if is_lost:
                misrouted.append(observation)
            self._lanes[source][observation[:2]].append(sequence)

    def judged(self, expected: Mapping[Any, Sequence[Hashable]], misrouted: tuple[Observation, ...]) -> Verdict:
        found = _Found(list(self._unreadable))
        for source, sequences in expected.items():
            lanes = self._lanes.get(source, {})
            # Nearly always the lists are equal, which is fast to check.
            if len(lanes) == 1 and next(iter(lanes.values())) == list(sequences):
                continue
            found.compare(source, sequences, lanes.values())
        for source in self._lanes.keys() - expected.keys():
            found.unexpected += [Sighting(source, s) for lane in self._lanes[source].values() for s in lane]
        return Verdict(
            sum(map(len, expected.values())),
            sum(len(lane) for lanes in self._lanes.values() for lane in lanes.values()) + len(self._unreadable),
            tuple(found.missing),
            tuple(found.duplicated),
            tuple(found.reordered),
            misrouted,
            tuple(found.unexpected),
        )


class _Found:
    """Collects the anomalies of one source partition after another."""

    def __init__(self, unexpected: list[Sighting]) -> None:
        self.missing: list[Sighting] = []
        self.duplicated: list[Sighting] = []
        self.reordered: list[Sighting] = []
        self.unexpected = unexpected

    def compare(self, source: Any, sequences: Sequence[Hashable], lanes: Iterable[Sequence[Hashable]]) -> None:
        places: dict[Hashable, list[int]] = defaultdict(list)
        for place, sequence in enumerate(sequences):
            places[sequence].append(place)
        seen = dict.fromkeys(places, 0)
        for lane in lanes:
            latest = -1
            for sequence in lane:
                times = seen.get(sequence)
                if times is None:
                    self.unexpected.append(Sighting(source, sequence))
                    continue
                seen[sequence] = times + 1
                if times >= len(places[sequence]):
                    self.duplicated.append(Sighting(source, sequence))
                    continue
                place = places[sequence][times]
                if place < latest:
                    self.reordered.append(Sighting(source, sequence))
                latest = max(latest, place)
        self.missing += [
            Sighting(source, sequence)
            for place, sequence in enumerate(sequences)
            if seen[sequence] < len(places[sequence]) and place in places[sequence][seen[sequence] :]
        ]


def _shown(anomaly: Any) -> str:
    if isinstance(anomaly, Observation):
        return f"key {anomaly.key!r} in {anomaly.topic}-{anomaly.partition}: {str(anomaly.value)[:80]}"
    return f"{anomaly.source_partition}/{anomaly.sequence}"


def eventually(predicate: Callable[[], T], *, within_s: float = 30.0, every_s: float | None = None) -> T:
    """Call `predicate` until it returns something truthy, and return that.

    An exception counts as "not yet". After `within_s` seconds raises AssertionError that carries the last
    value or exception, so that a failing test says what it saw instead. Without `every_s`, the pause between two
    calls is a tenth of the time that has passed, 50 to 250 ms.

    >>> from fencepost.testing import eventually
    >>> found = iter([None, None, "there"])
    >>> eventually(lambda: next(found), within_s=5)
    'there'

    There is one last call when the time is over. Time in which this process did not run does not count, and the limit
    is up to four times as long on a machine whose cores are wanted by more than four processes each.
    """
    began = time.monotonic()
    last: object = None
    while True:
        waited_s = time.monotonic() - began
        try:
            value = predicate()
            if value:
                return value
            last = value
        except Exception as error:  # of whatever kind: what is awaited may not be there yet
            last = error
        wanted = os.getloadavg()[0] / (os.cpu_count() or 1)
        if waited_s > within_s * min(max(1.0, wanted / _CROWD), _MOST_STRETCH):
            raise AssertionError(f"not within {within_s} s; last seen: {last!r}")
        pause_s = min(max(_SHORTEST_S, waited_s * _SHARE), _LONGEST_S) if every_s is None else every_s
        began += _stood_still_s(pause_s)


def _stood_still_s(pause_s: float) -> float:
    """Sleep; return for how long the machine, or a debugger, kept this process from waking up."""
    asleep = time.monotonic()
    time.sleep(pause_s)
    over_s = time.monotonic() - asleep - pause_s
    return over_s if over_s > _STILL_S else 0.0
