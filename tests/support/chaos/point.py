"""The matrix: where in a transaction a fault hits, what the broker must answer then, and a random plan."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from fencepost.kafka.setting.table import BATCH
from support.chaos.fault import Kind


class Phase(Enum):
    """Requests of a producer. Begin is local to the client; source offsets are records of the offsets topic."""

    INIT = "init"
    PRODUCE = "first produce"
    OFFSETS = "send offsets"
    COMMIT = "commit"


class Moment(Enum):
    """How far the request has come when the fault happens."""

    BEFORE = "before"  # sent, and not delivered
    DURING = "during"  # delivered, its answer withheld; a commit is prepared, and its markers are withheld
    AFTER = "after"  # answered, the task's next request withheld


class TaskKind(Enum):
    """Where a task runs."""

    SLOT = "slot"
    SPLIT = "DataFrame split"


@dataclass(frozen=True)
class Point:
    """A cell of the matrix, without the kind of fault."""

    phase: Phase
    moment: Moment

    def __str__(self) -> str:
        return f"{self.moment.value} {self.phase.value}"

    def states(self, client: str) -> frozenset[str]:
        """Return the states of the transaction that the point implies for a client, in the broker's words.

        With the batch client it is the first batch that begins it, records and offsets in one request.
        """
        found = _STATES.get((self.phase, self.moment)) or _STATES_OF_PHASE[self.phase]
        if client != BATCH or self.moment is not Moment.BEFORE:
            return found
        return found if self.phase is Phase.COMMIT else found | _ENDED | {"Ongoing"}

    def is_initialised(self, client: str) -> bool | None:
        """Say whether the id must have a new epoch (True) or the old one (False); None: any.

        With the batch client each transaction has its own.
        """
        if self.phase is not Phase.INIT or (client == BATCH and self.moment is Moment.BEFORE):
            return None
        return self.moment is not Moment.BEFORE

    @property
    def withholds_markers(self) -> bool:
        return (self.phase, self.moment) == (Phase.COMMIT, Moment.DURING)


_ENDED = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})
_STATES_OF_PHASE = {
    Phase.INIT: frozenset({"Empty"}),
    Phase.PRODUCE: frozenset({"Ongoing"}),
    Phase.OFFSETS: frozenset({"Ongoing"}),
}
_STATES = {
    (Phase.INIT, Moment.BEFORE): _ENDED,  # of the producer before
    (Phase.COMMIT, Moment.BEFORE): frozenset({"Ongoing"}),
    (Phase.COMMIT, Moment.DURING): frozenset({"PrepareCommit"}),
    (Phase.COMMIT, Moment.AFTER): frozenset({"CompleteCommit"}),
}

POINTS = tuple(Point(phase, moment) for phase in Phase for moment in Moment)
MATRIX_KINDS = (Kind.KILL_SLOT, Kind.STOP_SLOT, Kind.KILL_WORKER)
SPLIT_KINDS = (Kind.KILL_SLOT, Kind.KILL_WORKER)  # nothing replaces a split that is stopped: it has no lease


@dataclass(frozen=True)
class Blow:
    """One fault: which target, at which point, and whether what was withheld is delivered late or lost."""

    target: int
    point: Point
    is_late: bool


@dataclass(frozen=True)
class Round:
    """Faults of one kind that hit several targets at once, each at a point of its own."""

    kind: Kind
    blows: tuple[Blow, ...]


def matrix(seed: int, passes: int, kinds: Sequence[TaskKind]) -> list[Round]:
    """Return rounds that put every kind of fault at every point `passes` times, for targets of these kinds.

    Each point of a kind hits one target in a slot; a DataFrame split takes part in every
    round of the kinds that it can have, and gets points in turn.
    """
    drawn = random.Random(seed)
    slots = [number for number, kind in enumerate(kinds) if kind is TaskKind.SLOT]
    splits = [number for number, kind in enumerate(kinds) if kind is TaskKind.SPLIT]
    points_of_splits = _endless(drawn)
    rounds = []
    for kind, points in [(kind, points) for _ in range(passes) for kind, points in _deal(drawn, len(slots))]:
        victims = list(zip(drawn.sample(slots, len(points)), points, strict=True))
        if kind in SPLIT_KINDS:
            victims += [(target, next(points_of_splits)) for target in splits]
        rounds.append(Round(kind, tuple(Blow(target, point, drawn.random() < 0.5) for target, point in victims)))
    drawn.shuffle(rounds)
    return rounds


def _deal(drawn: random.Random, hand: int) -> Iterator[tuple[Kind, tuple[Point, ...]]]:
    """Yield all points of each kind, `hand` at a time."""
    for kind in MATRIX_KINDS:
        points = drawn.sample(POINTS, len(POINTS))
        for start in range(0, len(points), hand):
            yield kind, tuple(points[start : start + hand])


def _endless(drawn: random.Random) -> Iterator[Point]:
    for _ in itertools.count():
        yield from drawn.sample(POINTS, len(POINTS))
