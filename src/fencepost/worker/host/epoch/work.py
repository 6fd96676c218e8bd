"""The work of an epoch: it uses Spark in a thread of its own, while the member takes part in rebalances."""

import contextvars
import logging
import threading
import time
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

log = logging.getLogger(__name__)

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
_WARN_EVERY_S = 30.0


class EpochWork:
    """Used by the task's thread."""

    def __init__(self, membership: EpochMembership, jobs: FrameJobs, control: Control, ends: ProcessEnds) -> None:
        self._membership = membership
        self._jobs = jobs
        self._control = control
        self._ends = ends
        self._thread: threading.Thread | None = None
        self._is_cut = False  # whether it was cancelled

    def run(self, what: str, work: Callable[[], T]) -> T:
        """Run work in a thread of its own, and take part in rebalances in the meantime.

        Returns what the work returns, and raises what it raises. Raises CutShortError if the partitions or the task are
        lost first, and what a poll of the member raises; the work's Spark jobs are cancelled then. The work is always
        over when this returns or raises.
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
        jobs.group, self._is_cut = group, False
        self._control.move()
        context = contextvars.copy_context()  # has the span of this step
        self._thread = threading.Thread(target=context.run, args=(run,), name=f"{what}-{jobs.task}", daemon=True)
        self._thread.start()
        try:
            self._attend(self._thread)
        except Exception:
            self.end()
            self._membership.leave()  # it may have missed changes of its partitions
            raise
        finally:
            self._thread = jobs.group = None
            self._control.move()
        if held.changes != before or self._is_cut:
            raise CutShortError(f"{what} was cut short: another member has the partitions, or the task ends")
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
        """Wait for the running work, and cancel it if it takes too long.

        Once this returns, nothing is written any more. Work that does not heed its cancellation is waited for, because
        its output would come after that of the next owner.
        """
        thread, group = self._thread, self._jobs.group
        if thread is None or group is None:
            return
        thread.join(_LAST_WORK_S)
        since_s = time.monotonic()
        while thread.is_alive():
            self._is_cut = True
            self._jobs.cancel(group)
            thread.join(_LAST_WORK_S)
            if thread.is_alive() and time.monotonic() - since_s > _WARN_EVERY_S:
                since_s = time.monotonic()
                log.warning("task %s waits for work on an epoch that does not heed its cancellation", self._jobs.task)

    def _attend(self, thread: threading.Thread) -> None:
        """Take part in rebalances until the work is over."""
        while thread.is_alive():
            if self._control.is_stopping:
                self.end()
            else:
                thread.join(_WAIT_FOR_WORK_S)  # returns at once when the work ends
                if self._membership.input is not None:
                    self._membership.input.poll(0, 1)

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
