"""The faults of a cluster, and a random plan of many."""

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from support.chaos.point import Moment, Phase, Point


class Cut(Enum):
    """What a fault does; it is undone afterwards."""

    KILL = "SIGKILL of {} with all below it, started again"
    STOP = "SIGSTOP of {}, replaced, SIGCONT"
    BROKER_LOST = "{} cut off from the broker, replaced, reconnected"
    PEERS_LOST = "{} cut off from its peers' requests, reconnected"
    BROKER_KILL = "SIGKILL of the broker, started again"
    WRITE_KILL = "SIGKILL of the leader during a write"
    WRITE_STOP = "SIGSTOP of the leader during a write, replaced, SIGCONT"


IN_WRITE = (Cut.WRITE_KILL, Cut.WRITE_STOP)


class Write(Enum):
    """The writes of a leader, each a transaction."""

    CONFIG = "connector config"
    TASKS = "task configs and commit"
    TARGET = "target state"
    COUNT = "task count"
    KEY = "session key"
    DELETE = "delete"
    CREATE = "create with initial state and offsets"
    RESTART = "restart request"
    ASSIGNMENT = "assignment"


WRITE_POINTS = (
    Point(Phase.PRODUCE, Moment.BEFORE),
    Point(Phase.PRODUCE, Moment.DURING),
    Point(Phase.OFFSETS, Moment.BEFORE),
    Point(Phase.COMMIT, Moment.BEFORE),
    Point(Phase.COMMIT, Moment.DURING),
)
"""Where in its transaction: the first request with records of the write, the proof of leadership, the commit."""


@dataclass(frozen=True)
class ClusterFault:
    """One fault, `delay_s` after the recovery from the one before it.

    Attributes:
        is_leader: whether the leader is the victim; else `choice` (0 to 1) says which follower.
        is_quick: a killed worker is started again at once, not when it has been replaced.
        is_silent: where peers are cut off, whether their requests are lost, not refused.
        is_rescaled: whether a connector gets another number of tasks just before.
        is_late: whether what a leader had sent and was withheld is delivered at last, or lost.
    """

    cut: Cut
    delay_s: float
    choice: float
    is_leader: bool = False
    is_quick: bool = False
    is_silent: bool = False
    is_rescaled: bool = False
    is_late: bool = False
    write: Write | None = None
    point: Point | None = None

    @property
    def what(self) -> str:
        return self.cut.value.format("the leader" if self.is_leader else "a follower")

    @property
    def phase(self) -> str:
        if self.write is not None:
            return f"{self.write.value}: {self.point}"
        return "rescale under way" if self.is_rescaled else "any moment"

    def __str__(self) -> str:
        more = [word for word in ("quick", "silent", "late") if getattr(self, f"is_{word}")]
        return f"{self.what}, {', '.join([self.phase, *more])}"


def cluster_plan(
    seed: int, quotas: Mapping[Cut, int], writes_each: int, longest_delay_s: float = 0.5
) -> list[ClusterFault]:
    """Return the faults of a campaign in an order drawn from `seed`.

    Of each kind there are as many as `quotas` says, leaders and followers in turn; each kind of write is met
    `writes_each` times, at one point after the other. Every second fault of a kind meets a rescale, the first of a
    leader among them.
    """
    drawn = random.Random(seed)
    faults = [_fault(drawn, cut, n, longest_delay_s) for cut, count in quotas.items() for n in range(count)]
    kinds_of_loss = itertools.cycle(drawn.sample(IN_WRITE, len(IN_WRITE)))
    for write in Write:
        points = itertools.cycle(drawn.sample(WRITE_POINTS, len(WRITE_POINTS)))
        for _ in range(writes_each):
            faults.append(_loss(drawn, next(kinds_of_loss), write, next(points), longest_delay_s))
    drawn.shuffle(faults)
    return faults


def _fault(drawn: random.Random, cut: Cut, n: int, longest_delay_s: float) -> ClusterFault:
    return ClusterFault(
        cut,
        drawn.uniform(0.0, longest_delay_s),
        drawn.random(),
        is_leader=cut is not Cut.BROKER_KILL and n % 2 == 0,
        is_quick=cut is Cut.KILL and n % 4 in (1, 2),
        is_silent=cut is Cut.PEERS_LOST and n % 4 in (1, 2),
        is_rescaled=n % 4 in (0, 3),
    )


def _loss(drawn: random.Random, cut: Cut, write: Write, point: Point, longest_delay_s: float) -> ClusterFault:
    delay_s, choice, is_late = drawn.uniform(0.0, longest_delay_s), drawn.random(), drawn.random() < 0.6
    return ClusterFault(cut, delay_s, choice, is_leader=True, is_late=is_late, write=write, point=point)
