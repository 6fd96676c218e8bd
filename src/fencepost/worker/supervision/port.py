"""The port between the supervisor and the two doors that run tasks."""

from collections.abc import Sequence
from typing import Protocol

from fencepost.task.spec import TaskReport, TaskSpec


class NoRoomError(Exception):
    """There is no slot or core for the task now; the text becomes the reason of UNASSIGNED."""


class TaskHost(Protocol):
    """Runs starts of tasks. Called by the supervisor's thread; nothing here waits.

    What becomes of a start is told through `HostEvents`.
    """

    def start(self, spec: TaskSpec) -> None:
        """Run a start of a task. Raises NoRoomError."""

    def stop(self, incarnation: str) -> None:
        """Ask it to end, committing by its boundary's rule; ends with a report."""

    def pause(self, incarnation: str) -> None: ...

    def resume(self, incarnation: str) -> None: ...

    def abandon(self, incarnation: str) -> Sequence[str]:
        """Give it up: its thread is left behind. Returns the incarnations that have to move away from there."""


class HostEvents(Protocol):
    """What hosts tell the supervisor, from any thread."""

    def reported(self, reports: Sequence[TaskReport]) -> None: ...

    def lost(self, incarnations: Sequence[str], reason: str) -> None:
        """Take note that the process that ran these starts is gone, or silent for longer than its lease."""

    def crashed(self, incarnations: Sequence[str], reason: str) -> None:
        """Take note that the process that ran these starts died of itself; one of them may have been its death."""

    def room_changed(self) -> None:
        """Take note that there may be room now for what there was no room for."""
