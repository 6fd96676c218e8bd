"""What unit tests of the loops of sinks and of streams share: a group whose polls are scripted and whose calls are
recorded."""

from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any

from fencepost.kafka.read.known_positions import KnownPositions
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import TopicPartition
from fencepost.task.channel.message import RunState
from fencepost.task.control import Control

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
Moment = Callable[[], Fetched]
"""What happens within a poll, and what it returns."""


class ScriptedGroup:
    """The input of a loop. After the last moment the task is asked to stop."""

    metadata = "generation 1"
    generation: int | None = 7

    def __init__(self, log: list[Any], control: Control, moments: list[Moment]) -> None:
        self.log, self._control, self._moments = log, control, moments
        self.starts = SimpleNamespace(known=KnownPositions(), restarts={})
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.positions: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.waits_s: list[float] = []
        self.refuses: list[Exception] = []
        self.cannot_seek: list[Exception] = []
        self.gone: set[TopicPartition] = set()
        self.most: list[int] = []
        """How many records each poll was for."""
        self.ahead: list[int] = []
        """How many records each reading ahead was for."""

    def poll(self, timeout_s: float, most: int) -> Fetched:
        self.waits_s.append(timeout_s)
        self.most.append(most)
        if not self._moments:
            self._control.stop()
            return Fetched()
        return self._moments.pop(0)()

    def topics_check(self) -> Callable[[], None]:
        return lambda: None

    def read_ahead(self, most: int) -> None:
        self.ahead.append(most)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.log.append(("seek", dict(offsets)))
        if self.cannot_seek:
            raise self.cannot_seek.pop(0)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self.paused = set(partitions)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.log.append(("commit", dict(offsets)))
        if self.refuses:
            raise self.refuses.pop(0)
        return {place: offset for place, offset in offsets.items() if place not in self.gone}

    def stored(self, places: Collection[TopicPartition] | None = None) -> Mapping[TopicPartition, int]:
        return {place: at for place, at in self.positions.items() if places is None or place in places}

    def edges(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        return dict.fromkeys(places, (0, 100))

    def known_ends(self) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(self.assignment, 100)

    def close(self) -> None:
        self.log.append(("left",))


class GroupStage:
    """A group, and the moments of its polls; subclasses make the `loop` that reads from it."""

    loop: Any

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.control = Control(is_paused=False)
        self.moments: list[Moment] = []
        self.group = ScriptedGroup(self.log, self.control, self.moments)
        self.states: list[RunState] = []

    def assigned(self, then: Moment = Fetched, fresh: Collection[TopicPartition] = (), **positions: int) -> Moment:
        """Return a poll in which partitions `a` and `b` are assigned, and which then returns what `then` does."""

        def moment() -> Fetched:
            places = {{"a": A, "b": B}[name]: offset for name, offset in positions.items()}
            self.group.assignment |= frozenset(places)
            self.begun(self.loop.assigned(places, fresh))
            return then()

        return moment

    def begun(self, begins: Mapping[TopicPartition, int]) -> None:
        """Take the offsets at which the loop begins."""

    def taken_back(self, places: Collection[TopicPartition], tell: Callable[[Any], object]) -> Moment:
        """Return a poll with a revocation or a loss, which `tell` passes to the loop."""

        def moment() -> Fetched:
            tell(places)
            self.group.assignment -= frozenset(places)
            self.group.paused -= frozenset(places)
            return Fetched()

        return moment


def fetched(*places: tuple[TopicPartition, int], ends: Mapping[TopicPartition, int] | None = None) -> Fetched:
    """Return a record with the value `v` for each partition and offset."""
    count = len(places)
    partitions, offsets = [place for place, _ in places], [offset for _, offset in places]
    return Fetched(partitions, offsets, [1] * count, [None] * count, [b"v"] * count, ends=dict(ends or {}))
