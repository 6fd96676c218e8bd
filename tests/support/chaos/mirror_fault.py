"""The faults of a mirror, the changes of its plan that may coincide with them, and a random plan of both."""

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Hurt(Enum):
    """What a fault does; it is undone afterwards."""

    KILL_SLOT = "SIGKILL of a slot that mirrors"
    STOP_SLOT = "SIGSTOP of a slot that mirrors, replaced, SIGCONT"
    KILL_WORKER = "SIGKILL of a worker with all below it, started again"
    STOP_WORKER = "SIGSTOP of a worker with all below it, replaced, SIGCONT"
    KILL_SOURCE = "SIGKILL of the source's broker, started again"
    KILL_TARGET = "SIGKILL of the target's broker, started again"
    LOSE_SOURCE = "all cut off from the source, reconnected"
    LOSE_TARGET = "a worker cut off from the target, replaced, reconnected"


class Change(Enum):
    """A change of the mirror's plan."""

    TASKS = "another number of tasks"
    TOPIC = "a new topic"
    PARTITIONS = "more partitions"


@dataclass(frozen=True)
class MirrorFault:
    """One fault, `delay_s` after the recovery from the one before it; `choice` (0 to 1) says which of its victims.

    A `change` is asked for just before; while a worker is stopped, where that is the fault.
    """

    hurt: Hurt
    delay_s: float
    choice: float
    change: Change | None

    @property
    def phase(self) -> str:
        return "any moment" if self.change is None else self.change.value

    def __str__(self) -> str:
        return self.hurt.value if self.change is None else f"{self.hurt.value}; {self.change.value}"


def mirror_plan(seed: int, quotas: Mapping[Hurt, int], longest_delay_s: float = 0.5) -> list[MirrorFault]:
    """Return the faults of a campaign, as many of each kind as `quotas` says.

    There are other tasks while a worker is stopped; every other one of the other faults meets a change.
    """
    drawn = random.Random(seed)
    hurts = [hurt for hurt, count in quotas.items() for _ in range(count)]
    drawn.shuffle(hurts)
    changes = itertools.cycle([Change.TASKS, None, Change.TOPIC, None, Change.TASKS, None, Change.PARTITIONS, None])
    return [
        MirrorFault(
            hurt,
            drawn.uniform(0.05, longest_delay_s),
            drawn.random(),
            Change.TASKS if hurt is Hurt.STOP_WORKER else next(changes),
        )
        for hurt in hurts
    ]
