"""The ports of the supervisor: hosts that run tasks, the other workers, the fence."""

from collections.abc import Sequence
from typing import Protocol

from fencepost.cluster.running import Start
from fencepost.config.reference import RawConfig
from fencepost.task.channel.message import TaskReport
from fencepost.task.channel.task_spec import TaskSpec

AWAY_S = 2.0  # until Kafka, which was away, is asked again
STARTING = "Spark is still starting"
"""Why there is no room before the first Spark is ready."""


class NoRoomError(Exception):
    """There is no slot or core for the task at the moment; the text becomes the reason of UNASSIGNED."""


class TaskHost(Protocol):
    """Runs starts of tasks. Called by the supervisor's thread; no method waits.

    The fate of a start is reported through `HostEvents`.
    """

    def start(self, spec: TaskSpec) -> None:
        """Run a start of a task. Raises NoRoomError."""

    def stop(self, incarnation: str) -> None:
        """Ask it to end, and to commit as its boundary decides; it ends with a report."""

    def pause(self, incarnation: str) -> None: ...

    def resume(self, incarnation: str) -> None: ...

    def abandon(self, incarnation: str) -> Sequence[str]:
        """Abandon it and its thread. Returns the incarnations that have to move away from there."""


class HostEvents(Protocol):
    """What hosts report to the supervisor, from any thread."""

    def reported(self, reports: Sequence[TaskReport]) -> None: ...

    def lost(self, incarnations: Sequence[str], reason: str) -> None:
        """Report that the process of these starts is gone, or was silent for longer than its lease."""

    def crashed(self, incarnations: Sequence[str], reason: str) -> None:
        """Report that the process of these starts crashed; one of them may be the cause."""

    def room_changed(self) -> None:
        """Report that there may now be a slot or core for starts that wait for one."""


class HostLookup(Protocol):
    """Finds the host that runs the tasks of a connector."""

    def of(self, config: RawConfig) -> TaskHost:
        """Return the host. Raises ConfigError if the class is not found."""


class Notices(Protocol):
    """Informs the other workers."""

    def ended_here(self, starts: Sequence[Start]) -> None:
        """Announce soon that these starts of tasks have ended here. Never waits."""
