"""The matrix of sinks: at which point of its calls a fault hits a task, and a random plan."""

import random
from dataclasses import dataclass
from enum import Enum

from support.chaos.fault import Kind
from support.chaos.point import Moment


class SinkPhase(Enum):
    """The task's current call."""

    OPEN = "open"
    PUT = "put"
    FLUSH = "flush"
    COMMIT = "offset commit"


@dataclass(frozen=True)
class SinkPoint:
    """A cell of the matrix, without the kind of fault.

    A call is held at its entry, in its middle, when a half of its records is written, or at its end. Of a commit the
    request is withheld, or its answer, or the task behind it, at its next `put`.
    """

    phase: SinkPhase
    moment: Moment

    def __str__(self) -> str:
        return f"{self.moment.value} {self.phase.value}"


SINK_POINTS = tuple(SinkPoint(phase, moment) for phase in SinkPhase for moment in Moment)
SINK_KINDS = (Kind.KILL_SLOT, Kind.STOP_SLOT)


@dataclass(frozen=True)
class SinkRound:
    """Faults of one kind that hit several tasks at once: which, where, and whether what the dead said comes late."""

    kind: Kind
    blows: tuple[tuple[int, SinkPoint, bool], ...]


def sink_matrix(seed: int, passes: int, targets: int) -> list[SinkRound]:
    """Return rounds that put every kind of fault at every point `passes` times, each round one at every target."""
    drawn = random.Random(seed)
    rounds = []
    for kind in [kind for _ in range(passes) for kind in SINK_KINDS]:
        points = drawn.sample(SINK_POINTS, len(SINK_POINTS))
        for start in range(0, len(points), targets):
            hand = points[start : start + targets]
            victims = drawn.sample(range(targets), len(hand))
            blows = [(victim, point, drawn.random() < 0.5) for victim, point in zip(victims, hand, strict=True)]
            rounds.append(SinkRound(kind, tuple(blows)))
    drawn.shuffle(rounds)
    return rounds
