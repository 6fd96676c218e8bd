"""The faults of one worker, and a random plan of many."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """A kind of fault, and its target."""

    KILL_SLOT = "SIGKILL of a slot's process"
    KILL_SPLIT = "SIGKILL of the process that runs a split"
    STOP_SLOT = "SIGSTOP of a slot, replaced, SIGCONT"
    KILL_WORKER = "SIGKILL of the worker with all below it, started again"
    KILL_EXECUTOR = "SIGKILL of an executor's JVM (Spark cluster)"
    END_EXECUTOR = "SIGTERM of an executor's JVM (Spark cluster)"


@dataclass(frozen=True)
class Fault:
    """One fault, `delay_s` after the recovery from the one before it; `choice` (0 to 1) says which of its victims."""

    kind: Kind
    delay_s: float
    choice: float

    def __str__(self) -> str:
        return f"{self.kind.value} after {self.delay_s:.2f} s"


def plan(seed: int, quotas: Mapping[Kind, int], longest_delay_s: float = 1.0) -> list[Fault]:
    """Return the faults of a campaign: as many of each kind as `quotas` says, their order and times from `seed`."""
    drawn = random.Random(seed)
    kinds = [kind for kind, count in quotas.items() for _ in range(count)]
    drawn.shuffle(kinds)
    return [Fault(kind, drawn.uniform(0.05, longest_delay_s), drawn.random()) for kind in kinds]
