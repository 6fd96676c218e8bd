"""The faults of a stream, and a random plan of many."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class StreamHurt(Enum):
    """What a fault does; it is undone afterwards."""

    KILL_SLOT = "SIGKILL of a slot that has tasks"
    STOP_SLOT = "SIGSTOP of a slot that has tasks, replaced, SIGCONT"
    KILL_WORKER = "SIGKILL of a worker with all below it, started again"
    STOP_WORKER = "SIGSTOP of a worker with all below it, replaced, SIGCONT"
    LOSE_BROKER = "a worker cut off from the broker, replaced, reconnected"
    KILL_BROKER = "SIGKILL of the broker, started again"
    RESCALE = "another number of tasks"
    KILL_OLD = "SIGKILL of an instance of the old style, after it has joined"
    STOP_OLD = "SIGSTOP of an instance of the old style, after it has joined, replaced, SIGCONT"


@dataclass(frozen=True)
class StreamFault:
    """One fault, `delay_s` after the recovery from the one before it; `choice` (0 to 1) says which of its victims.

    With `rebalances` the number of tasks changes at the same time.
    """

    hurt: StreamHurt
    delay_s: float
    choice: float
    rebalances: bool

    @property
    def phase(self) -> str:
        return "a rebalance" if self.rebalances else "any moment"

    def __str__(self) -> str:
        return f"{self.hurt.value}; {self.phase}"


def stream_plan(seed: int, quotas: Mapping[StreamHurt, int], longest_delay_s: float = 0.5) -> list[StreamFault]:
    """Return the faults of a campaign, as many of each kind as `quotas` says; every third one meets a rebalance."""
    drawn = random.Random(seed)
    hurts = [hurt for hurt, count in quotas.items() for _ in range(count)]
    drawn.shuffle(hurts)
    return [
        StreamFault(hurt, drawn.uniform(0.05, longest_delay_s), drawn.random(), number % 3 == 0)
        for number, hurt in enumerate(hurts)
    ]
