"""The work of an epoch: it uses Spark in a thread of its own, while the member takes part in rebalances."""

import contextvars
import threading
import uuid
from collections.abc import Callable
from typing import TypeVar

from fencepost.api import FatalError, FencedError, RetriableError, UnavailableError
from fencepost.config import ConfigError
from fencepost.kafka.errors import KafkaUnavailableError, ReadTimeoutError
from fencepost.spark.slot.ended import ProcessEnds
from fencepost.spark.slot.failure import causes_of, is_refused_by_query, is_storage_failure, raised_in_python, reason
from fencepost.spark.slot.job import job_group
from fencepost.task.channel.client import ChannelError
from fencepost.task.control import Control
from fencepost.worker.host.epoch.membership import CutShortError, EpochMembership
from fencepost.worker.host.frame.jobs import FrameJobs

T = TypeVar("T")

_WAIT_FOR_WORK_S = 0.02
_LATER = (
    KafkaUnavailableError,
    ReadTimeoutError,
    ChannelError,
    RetriableError,
    UnavailableError,
)  # passing errors that end an executor's work
_LAST_WORK_S = 3.0  # the time that running work has to finish when it is asked to end


class EpochWork:
    """Used by the task's thread."""

    def __init__(self, membership: EpochMembership, jobs: FrameJobs, control: Control, ends: ProcessEnds) -> None:
        self._membership = membership
        self._jobs = jobs
        self._control = control
        self._ends = ends
        self._thread: threading.Thread | None = None

    def run(self, what: str, work: Callable[[], T]) -> T:
        """Run work in a thread of its own, and take part in rebalances in the meantime.

        Returns what the work returns, and raises what it raises. Raises CutShortError if the partitions or the task are
        lost first; the work's Spark jobs are cancelled then.
        """
        jobs = self._jobs
        group = f"epoch-{jobs.task}-{uuid.uuid4().hex}"
        returned: list[T] = []
        raised: list[BaseException] = []

        def run() -> None:
            try:
                jobs.adopt_thread()
                with job_group(jobs.runtime.session.sparkContext, group, f"{jobs.task}: {what}"):
                    returned.append(work())
            except BaseException as error:
                raised.append(error)

        held = self._membership.held
        before = held.changes
        jobs.group = group
        self._control.move()
        context = contextvars.copy_context()  # has the span of this step
        self._thread = threading.Thread(target=context.run, args=(run,), name=f"{what}-{jobs.task}", daemon=True)
        self._thread.start()
        try:
            while self._thread is not None and self._thread.is_alive():
                if self._control.is_stopping:
                    self.end()
                elif self._membership.input is not None:
                    self._thread.join(_WAIT_FOR_WORK_S)  # returns at once when the work ends
                    self._membership.input.poll(0, 1)
            if held.changes != before or (self._thread is None and not raised):
                raise CutShortError(f"{what} was cut short: another member has the partitions, or the task ends")
        finally:
            self._thread = jobs.group = None
            self._control.move()
        for error in raised:
            translated = self._translate(error)
            if translated is error:
                raise error
            raise translated from error
        return returned[0]

    @property
    def thread(self) -> threading.Thread | None:
        """Return the thread of the running work, if there is some."""
        return self._thread

    def end(self) -> None:
        """Wait for the running work, and cancel it if it takes too long."""
        thread, group = self._thread, self._jobs.group
        if thread is None or group is None:
            return
        thread.join(_LAST_WORK_S)
        if thread.is_alive():
            self._jobs.cancel(group)
            thread.join(_LAST_WORK_S)
            self._thread = None

    def _translate(self, error: BaseException) -> BaseException:
        """Return the error that the work's thread raised; one of Spark's is translated to its cause."""
        if isinstance(error, RetriableError | ConfigError | FencedError | FatalError | OSError) or not isinstance(
            error, Exception
        ):
            return error
        self._ends.record(f"an epoch of task {self._jobs.task}", error)
        causes = causes_of(error)
        said = next((text for kind in _LATER if (text := raised_in_python(causes, kind))), None)
        if said is not None:
            return RetriableError(said)
        refusal = raised_in_python(causes, FatalError)
        if refusal is not None or is_refused_by_query(causes):
            return FatalError(refusal or reason(error))
        return (OSError if is_storage_failure(causes) else RuntimeError)(reason(error))
