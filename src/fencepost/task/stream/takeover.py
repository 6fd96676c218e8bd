"""Where a stream's task begins, and what its status says about producers that it had to fence (E20)."""

from collections.abc import Callable

from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.life.counters import StreamCounters
from fencepost.transaction import lane_ids
from fencepost.transaction.input_fence import Fenced
from fencepost.transaction.stable_positions import StablePositions

ReportState = Callable[[RunState, str | None], None]


class Takeover:
    """Reports what reading the positions of one instance involves: counters, and a text in the task's status."""

    def __init__(self, counters: StreamCounters, report_state: ReportState) -> None:
        self._counters = counters
        self._report_state = report_state
        self._fenced: list[str] = []  # since the last assignment for which a producer was fenced

    def positions(self, spec: TaskSpec, control: Control) -> StablePositions:
        """Return the reader of the task's positions, as a member of its group, for one instance of it."""
        return StablePositions(
            spec.input.consumer_conf,
            spec.output.producer_conf,
            lane_ids(str(spec.output.transactional_id)),
            on_fenced=self.fenced,
            on_waiting=self.waiting,
            is_over=lambda: control.is_stopping,
            foreign=spec.input.foreign_ids,
        )

    def fenced(self, fenced: list[Fenced]) -> None:
        """Record the producers that were fenced for partitions of one assignment."""
        self._counters.producers_fenced += len(fenced)
        self._fenced = [f"Fenced {each}" for each in fenced]
        self._tell()

    def waiting(self, why: str) -> None:
        """Record that the task waits, and why; if `why` is empty, it no longer waits."""
        self._counters.is_waiting_for_offsets = int(bool(why))
        self._tell(why)

    def _tell(self, why: str = "") -> None:
        lines = [*self._fenced, *([f"Waits: {why}"] if why else [])]
        self._report_state(self._counters.state, "\n".join(lines) or None)
