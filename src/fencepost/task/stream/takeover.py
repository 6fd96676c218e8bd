"""Where a stream's task begins, and what its status tells of whoever was in the way (E20)."""

from collections.abc import Callable

from fencepost.task.control import Control
from fencepost.task.counters import StreamCounters
from fencepost.task.spec import RunState, TaskSpec
from fencepost.transaction import lane_ids
from fencepost.transaction.input_fence import Fenced
from fencepost.transaction.stable_positions import StablePositions

ReportState = Callable[[RunState, str | None], None]


class Takeover:
    """Tells of what reading the positions of one instance takes: counters, and a text in the task's status."""

    def __init__(self, counters: StreamCounters, report_state: ReportState) -> None:
        self._counters = counters
        self._report_state = report_state
        self._fenced: list[str] = []  # since the last assignment for which somebody was

    def positions(self, spec: TaskSpec, control: Control) -> StablePositions:
        """Return what reads the positions of the task, as a member of its group, for one instance of it."""
        return StablePositions(
            spec.consumer_conf,
            spec.producer_conf,
            lane_ids(str(spec.transactional_id)),
            on_fenced=self.fenced,
            on_waiting=self.waiting,
            is_over=lambda: control.is_stopping,
            foreign=spec.foreign_ids,
        )

    def fenced(self, fenced: list[Fenced]) -> None:
        """Take note of producers that were fenced for partitions of one assignment."""
        self._counters.producers_fenced += len(fenced)
        self._fenced = [f"Fenced {each}" for each in fenced]
        self._tell()

    def waiting(self, why: str) -> None:
        """Take note that the task waits, and why; empty: it waits no more."""
        self._counters.is_waiting_for_offsets = int(bool(why))
        self._tell(why)

    def _tell(self, why: str = "") -> None:
        lines = [*self._fenced, *([f"Waits: {why}"] if why else [])]
        self._report_state(self._counters.state, "\n".join(lines) or None)
