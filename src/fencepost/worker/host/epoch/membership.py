"""The only member of its group, which commits the offsets of epochs."""

import contextvars
import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from fencepost.api import FatalError, FencedError, RetriableError, UnavailableError
from fencepost.config import ConfigError
from fencepost.kafka.errors import KafkaUnavailableError, ReadTimeoutError
from fencepost.kafka.read.client_fetcher import NoFetcher
from fencepost.kafka.read.group_input import GroupInput
from fencepost.kafka.read.known_positions import PositionReader
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition
from fencepost.spark.slot.failure import causes_of, is_refused_by_query, is_storage_failure, raised_in_python, reason
from fencepost.spark.slot.job import ProcessEnds, job_group
from fencepost.task.channel.client import ChannelError
from fencepost.task.channel.message import Admission
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.sink.epoch_plan import EpochOffset, EpochOffsets
from fencepost.task.sink.reader import subscription
from fencepost.task.start.runner import admitted
from fencepost.worker.host.frame.jobs import FrameJobs

log = logging.getLogger(__name__)

_NOT_WHOLE_S = 30.0
_AT_ONCE = 1_000  # offsets in one commit, if they need not all be in the same one


class HeldPartitions:
    """The member's assigned partitions, and the group's offsets in them."""

    def __init__(
        self, committed: Callable[[], Mapping[TopicPartition, GroupOffset]], let_go: Callable[[], None]
    ) -> None:
        """`committed` returns the group's offsets. `let_go` is called before partitions are granted to others."""
        self.offsets: dict[TopicPartition, EpochOffset] = {}
        self.decided: dict[TopicPartition, EpochOffset] = {}
        """The group's offsets in partitions of other topics whose epochs only remain to be published."""
        self.fresh: set[TopicPartition] = set()
        """Partitions whose starting offset the group has not committed: only this member knows it."""
        self.changes = 0
        self.begun_with = -1  # the count of `changes` with which the work on these partitions began
        self._committed = committed
        self._let_go = let_go

    def assigned(
        self, positions: Mapping[TopicPartition, int], fresh: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Add partitions, with the epochs that were begun in them."""
        committed = self._committed()
        self.offsets.update({p: EpochOffset.of(committed.get(p, GroupOffset(*p, at))) for p, at in positions.items()})
        self.fresh |= set(fresh)
        self.changes += 1
        return {}

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Release partitions: once this returns, nothing of them is written any more."""
        self._let_go()
        self.lost(partitions)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Remove partitions that belong to other members."""
        self.changes += 1
        self.fresh -= set(partitions)
        for place in partitions:
            self.offsets.pop(place, None)

    def committed(self, offsets: EpochOffsets) -> None:
        """Record the group's new offsets."""
        for place, offset in offsets.items():
            if self.decided.pop(place, None) is None:
                self.offsets[place] = offset
                self.fresh.discard(place)

    def clear(self) -> None:
        """Hold nothing any more."""
        self.offsets.clear()
        self.decided.clear()
        self.fresh.clear()
        self.changes += 1

    @property
    def has_begun(self) -> bool:
        """Say whether the member has all partitions, and the work on them has begun."""
        return self.begun_with == self.changes

    @property
    def all(self) -> dict[TopicPartition, EpochOffset]:
        """Return the offsets that this member may commit: those of its partitions, and of decided epochs."""
        return {**self.decided, **self.offsets}


class CutShortError(RetriableError):
    """The member has lost the epoch's partitions, or is about to; their next owner continues the epoch."""


class EpochMembership:
    """Joins when it is first polled, and again after it has left. Used by the task's thread."""

    def __init__(
        self,
        spec: TaskSpec,
        admit: Callable[[], Admission],
        positions: Callable[[], PositionReader | None],
        let_go: Callable[[], None],
    ) -> None:
        """`admit` is called before it joins. `positions` returns the reader of the group's offsets; None for the
        member's own client. `let_go` is called before partitions are granted to others."""
        self._spec = spec
        self._admit = admit
        self._positions = positions
        self.input: GroupInput | None = None
        self.held = HeldPartitions(self._committed, let_go)
        self._waits_since_s = time.monotonic()

    def poll(self, wait_s: float) -> GroupInput:
        """Return the member after polling it. If that fails, leaves the group and raises the error."""
        input_ = self.input or self._join()
        try:
            input_.poll(wait_s, 1)
        except Exception:
            self.leave()  # it may have missed changes of its partitions
            raise
        if self._spec.input.begins_at_the_end:
            self.commit_fresh()  # at once, even while paused: the next start would begin at a later end
        return input_

    def has_all(self, input_: GroupInput) -> bool:
        """Say whether this member has all partitions: an epoch has only one writer.

        For a while, a start that was replaced may still be another member.
        """
        if self.held.has_begun:
            self._waits_since_s = time.monotonic()
            return True
        missing = input_.partitions() - self.held.offsets.keys()
        if missing and time.monotonic() - self._waits_since_s > _NOT_WHOLE_S:
            self._waits_since_s = time.monotonic()
            log.warning(
                "task %s waits for all partitions of its topics: %s and possibly others belong to another member of "
                "group %s, in which there should be no other consumer",
                self._spec.id, "-".join(map(str, min(missing))), self._spec.input.consumer_conf.get("group.id"),
            )  # fmt: skip
        return not missing

    def commit_fresh(self) -> None:
        """Commit the starting offsets of partitions that only this member knows."""
        offsets = self.held.offsets
        fresh = {place: offsets[place] for place in self.held.fresh if place in offsets}
        places = sorted(fresh)
        for first in range(0, len(places), _AT_ONCE):
            self.commit({place: fresh[place] for place in places[first : first + _AT_ONCE]})

    def commit(self, offsets: EpochOffsets) -> None:
        """Make offsets durable, all or none. Raises CutShortError if the membership is over.

        After any failure the member leaves the group: the broker may have accepted the commit all the same, or may
        still accept it, but only from this member. What is durable is then read again.
        """
        assert self.input is not None
        try:
            done = self.input.commit([s.to_commit(place) for place, s in offsets.items()])
        except Exception as error:
            self.leave()
            if isinstance(error, FencedError):
                raise CutShortError(str(error)) from error
            raise
        if len(done) < len(offsets):
            self.leave()
            gone = "-".join(map(str, min(offsets.keys() - done.keys())))
            raise CutShortError(f"{gone} does not exist, or its coordinator does not know it yet")
        self.held.committed(offsets)

    def leave(self) -> None:
        input_, self.input = self.input, None
        if input_ is not None:
            input_.close()
        self.held.clear()

    def _join(self) -> GroupInput:
        admitted(self._admit())
        self.input = GroupInput(
            self._spec.input.consumer_conf,
            subscription(self._spec),
            self.held,
            fetcher=NoFetcher,
            positions=self._positions(),
        )
        return self.input

    def _committed(self) -> Mapping[TopicPartition, GroupOffset]:
        return {} if self.input is None else self.input.starts.committed


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
        while thread.is_alive():
            if self._control.is_stopping:
                self.end()
            else:
                thread.join(_WAIT_FOR_WORK_S)  # returns at once when the work ends
                if self._membership.input is not None:
                    self._membership.input.poll(0, 1)

    def _translate(self, error: BaseException) -> BaseException:
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
