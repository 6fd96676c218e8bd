"""What one poll of the task gives: records, and whether a transaction of Kafka ends with them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fencepost.api import Batch, SourceRecord, SourceTaskContext
from fencepost.builtin.postgres.source.progress import Offsets

Records = Batch | Sequence[SourceRecord] | None


@dataclass(frozen=True)
class Turn:
    """Records for the open transaction. If it `ends` with them, it also commits `offsets`."""

    records: Records = None
    offsets: Offsets = field(default_factory=dict)
    ends: bool = False


NOTHING = Turn()


class Stage(Protocol):
    """What a task does in one phase. All methods are called in the task's thread."""

    def turn(self) -> Turn:
        """Return what is next. May block for a tenth of a second. Errors of the database propagate."""

    def committed(self, offsets: Offsets) -> None:
        """Learn which offsets are committed."""

    def reset(self) -> None:
        """Forget what was returned since the last end of a transaction, and connect again at the next turn."""

    def close(self) -> None: ...

    @property
    def is_over(self) -> bool:
        """Say whether the committed offsets decide what is next."""


class Idle:
    """The stage in which nothing is left to do."""

    is_over = False

    def __init__(self, context: SourceTaskContext) -> None:
        self._context = context

    def turn(self) -> Turn:
        self._context.wait(0.5)
        return NOTHING

    def committed(self, offsets: Offsets) -> None:
        pass

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass
