"""Names of things that a cluster runs."""

from enum import Enum
from typing import NamedTuple


class TaskId(NamedTuple):
    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


class TargetState(Enum):
    """What a connector is told to be."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
