"""The host for tasks of DataFrame connectors: each has a driver thread that runs one split, or epoch, after the other.

A split, or a few small ones together, is one Spark job with one partition, so a slow split delays no other task
(docs/decisions). Its executor initialises its producer, gets admitted and reads the position like any task, through
the channel.
"""

from collections.abc import Callable, Sequence
from typing import Any

from fencepost.config.raw import RawConfig
from fencepost.spark.slot.cores import CoreLedger
from fencepost.spark.slot.ended import ProcessEnds
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.worker.host.frame.jobs import FrameRuntime
from fencepost.worker.host.frame.life import FrameLife
from fencepost.worker.host.frame.watch import RunningFrames
from fencepost.worker.host.split.channel import SplitChannel
from fencepost.worker.supervision.admission import Admissions
from fencepost.worker.supervision.port import HostEvents, NoRoomError


class DataFrameHost:
    """A `TaskHost` for DataFrame connectors."""

    def __init__(
        self,
        events: HostEvents,
        ledger: CoreLedger,
        admissions: Admissions,
        connector_of: Callable[[RawConfig], type[Any]],
        channel: SplitChannel,
        ends: ProcessEnds,
    ) -> None:
        self.ends = ends
        self.events = events
        self.ledger = ledger
        self.admissions = admissions
        self.connector_of = connector_of
        self.channel = channel
        self._running = RunningFrames()

    def attach(self, runtime: FrameRuntime | str) -> None:
        """Use a Spark that is ready. A text says why there is none; all that ran on it is gone, and starts again."""
        lost = self._running.attach(runtime)
        for task in lost:
            task.lost()
        if lost:
            self.events.lost([task.spec.incarnation for task in lost], "Spark has gone")
        self.events.room_changed()

    # TaskHost

    def start(self, spec: TaskSpec) -> None:
        runtime = self._running.runtime
        if isinstance(runtime, str):
            raise NoRoomError(runtime)
        refusal = self.ledger.refusal_of_splits()
        if refusal is not None:
            raise NoRoomError(refusal)
        task = self._task(spec, runtime)
        if not self._running.add(task, runtime):
            raise NoRoomError("Spark is restarting")
        task.thread.start()

    def stop(self, incarnation: str) -> None:
        self._control(incarnation, Control.stop)

    def pause(self, incarnation: str) -> None:
        self._control(incarnation, Control.pause)

    def resume(self, incarnation: str) -> None:
        self._control(incarnation, Control.resume)

    def abandon(self, incarnation: str) -> Sequence[str]:
        """Cancel the running split; the next holder of its transactional id ends its transaction."""
        task = self._running.remove(incarnation)
        if task is not None:
            task.abandon()
        return ()

    def ended(self, incarnation: str) -> None:
        self._running.remove(incarnation)

    def _control(self, incarnation: str, act: Callable[[Control], None]) -> None:
        task = self._running.find(incarnation)
        if task is not None:
            act(task.control)

    def _task(self, spec: TaskSpec, runtime: FrameRuntime) -> FrameLife:
        """Return a task, not started. The first one imports PySpark, unless Spark's start has done so."""
        from fencepost.worker.host.epoch.stream_task import EpochStreamTask
        from fencepost.worker.host.epoch.task import EpochTask
        from fencepost.worker.host.split.task import FrameTask

        life = EpochStreamTask if spec.is_stream else EpochTask if spec.is_sink else FrameTask
        return life(self, spec, runtime)
