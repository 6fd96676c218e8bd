"""The base of tasks that work in epochs: a driver thread that is the only member of its group.

It plans new records as ranges of offsets, and takes part in rebalances while Spark works.
"""

import logging
import threading
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from fencepost.api import Epoch, EpochConnector, FatalError, FencedError, RetriableError
from fencepost.config import ConfigError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaUnavailableError, ReadTimeoutError
from fencepost.kafka.read.doubt import SURE_S, Doubts
from fencepost.kafka.read.group_input import GroupInput, PositionReader
from fencepost.record import TopicPartition
from fencepost.spark.epoch.frame import EpochReader
from fencepost.spark.slot.failure import causes_of, is_refused_by_query, is_storage_failure, raised_in_python, reason
from fencepost.spark.slot.job import job_group
from fencepost.task.channel.client import ChannelError
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.life.admitted import admitted
from fencepost.task.life.counters import SinkCounters
from fencepost.task.sink.epoch_plan import (
    EpochOffset,
    EpochOffsets,
    OpenEpoch,
    all_begun,
    begun,
    newest,
    planned,
)
from fencepost.task.sink.ripeness import Ripeness
from fencepost.task.sink.subscription import subscription
from fencepost.worker.host.frame_life import FrameHost, FrameLife, FrameRuntime
from fencepost.worker.host.held_partitions import HeldPartitions

log = logging.getLogger(__name__)

_POLL_S = 0.1
_WAIT_FOR_WORK_S = 0.02
_LOOK_S = 0.5
_ASK_S = 30.0
_NOT_WHOLE_S = 30.0
_LATER = (
    KafkaUnavailableError,
    ReadTimeoutError,
    ChannelError,
    RetriableError,
)  # passing errors that end an executor's work
_AT_ONCE = 1_000  # offsets in one commit, if they need not all be in the same one
_LAST_WORK_S = 3.0  # the time that running work has to finish when it is asked to end


class CutShortError(RetriableError):
    """The member has lost the epoch's partitions, or is about to; their next owner continues the epoch."""


class EpochLife(FrameLife):
    """One start of a task that works in epochs."""

    _connector: EpochConnector

    def __init__(self, host: FrameHost, spec: TaskSpec, runtime: FrameRuntime) -> None:
        super().__init__(host, spec, runtime)
        self._reader = EpochReader(self._connector, self._properties)
        self.counters: SinkCounters = SinkCounters()
        self.input: GroupInput | None = None
        self._admin: Admin | None = None
        self._holding = HeldPartitions(self._notes, lambda: self._end_work(_LAST_WORK_S))
        self._begun_with = -1  # the count of `HeldPartitions.changes` for which `started` was called
        self._waits_since_s = time.monotonic()
        self._doubts: Doubts[TopicPartition] = Doubts()  # logs that seem to end before the group's offset
        self._metadata_max_bytes: int | None = None  # bytes of notes in one commit; None if plans need not be durable
        self._known = 0  # the newest number of an epoch known elsewhere, such as in the store
        self._rows_max = self._connector.epoch_rows_max
        self._ripeness = Ripeness(self._connector.partition_rows_min, self._connector.partition_wait_max_ms / 1000)
        self._next_epoch_s = 0.0
        self._look_s = 0.0
        self._wait_s = _POLL_S
        self._work: threading.Thread | None = None

    def _notes(self) -> Mapping[TopicPartition, str]:
        return {} if self.input is None else self.input.notes

    def _turn(self) -> bool:
        try:
            return self._one_epoch()
        except CutShortError as error:
            log.info("task %s: %s", self.spec.id, error)
            return False

    def _one_epoch(self) -> bool:
        wait_s, self._wait_s = self._wait_s, _POLL_S
        input_ = self._polled(wait_s)
        if not self._holding.offsets or not self._has_all(input_):
            return False
        if not self._is_well:
            self._begin()
        epoch = begun(self._holding.all) or self._next()
        if epoch is None:
            return False
        self._finish(epoch)
        self._wait_s = 0.0  # there may be more
        return True

    @property
    def _is_well(self) -> bool:
        """Say whether the member has all partitions, and has called `_started` for them."""
        return self._begun_with == self._holding.changes

    def _polled(self, wait_s: float = _POLL_S) -> GroupInput:
        """Return the membership after polling it. If that fails, leaves the group and raises the error."""
        input_ = self.input or self._join()
        try:
            input_.poll(wait_s, 1)
        except Exception:
            self._leave()  # it may have missed changes of its partitions
            raise
        if self.spec.input.consumer_conf.get("auto.offset.reset") == "latest":
            self._commit_fresh()  # at once, even while paused: the next start would begin at a later end
        return input_

    def _rest(self) -> None:
        """Do not wait: `poll` has waited."""

    def _stay_paused(self) -> None:
        """Keep the membership without planning anything."""
        while self.control.is_paused and not self.control.is_stopping:
            try:
                self._polled()
            except Exception as error:
                log.warning("task %s, paused: %s", self.spec.id, error)
                self.control.wait_for_stop(_LOOK_S)

    def _is_left_open(self) -> str | None:
        open_ = begun(self._holding.offsets)
        if open_ is None:
            return None
        return (
            f"Epoch {open_.epoch.number} has begun and is not finished; part of it may be written. It continues when "
            "the connector is resumed"
        )

    def _join(self) -> GroupInput:
        admitted(self.admit())
        self.input = GroupInput(
            self.spec.input.consumer_conf,
            subscription(self.spec),
            self._holding,
            fetches=False,
            positions=self._positions(),
        )
        return self.input

    def _positions(self) -> PositionReader | None:
        """Return the reader of the group's offsets; None for the member's own client."""
        return None

    def _has_all(self, input_: GroupInput) -> bool:
        """Say whether this member has all partitions: an epoch has only one writer.

        For a while, a start that was replaced may still be another member.
        """
        if self._is_well:
            self._waits_since_s = time.monotonic()
            return True
        missing = input_.partitions() - self._holding.offsets.keys()
        if missing and time.monotonic() - self._waits_since_s > _NOT_WHOLE_S:
            self._waits_since_s = time.monotonic()
            log.warning(
                "task %s waits for all partitions of its topics: %s and possibly others belong to another member of "
                "group %s, in which there should be no other consumer",
                self.spec.id, "-".join(map(str, min(missing))), self.spec.input.consumer_conf.get("group.id"),
            )  # fmt: skip
        return not missing

    def _commit_fresh(self) -> None:
        """Commit the starting offsets of partitions that only this member knows."""
        offsets = self._holding.offsets
        fresh = {place: offsets[place] for place in self._holding.fresh if place in offsets}
        places = sorted(fresh)
        for first in range(0, len(places), _AT_ONCE):
            self.commit({place: fresh[place] for place in places[first : first + _AT_ONCE]})

    @abstractmethod
    def _started(self, number: int, offsets: EpochOffsets) -> None:
        """Prepare for the first epoch of an assignment; `number` is that of the newest epoch."""

    def _decided_elsewhere(self) -> dict[TopicPartition, EpochOffset]:
        """Return the group's offsets in partitions that are no longer read but have output to be published."""
        return {}

    @abstractmethod
    def _make_durable(self, plan: OpenEpoch) -> None:
        """Ensure, if that matters, that a successor finishes the plan with the same ranges."""

    @abstractmethod
    def _finish(self, epoch: OpenEpoch) -> None:
        """Write and commit what was planned."""

    def _begin(self) -> None:
        changes = self._holding.changes
        self._holding.decided = self._decided_elsewhere()
        offsets = self._holding.all
        open_ = all_begun(offsets)
        if open_:
            log.info("task %s continues epoch %d, which was begun earlier", self.spec.id, open_[0].epoch.number)
        if self._admin is None:
            self._admin = Admin(self.spec.input.reader_admin_conf, timeout_s=_ASK_S)
        self._commit_fresh()
        number = open_[0].epoch.number if open_ else newest(offsets)
        self._started(number, offsets)
        newer = max(self._known, newest(offsets))
        for each in open_:
            if each.token is None and each.epoch.number < newer:
                newer += 1  # others may delete what an older number has written
                self.commit(each.with_number(newer).standings())
        self._begun_with = changes

    def _next(self) -> OpenEpoch | None:
        """Plan the next epoch, if it is due."""
        now = time.monotonic()
        if now < min(self._look_s, self._next_epoch_s):
            return None
        self._look_s = now + _LOOK_S
        offsets, ends = self._looked()
        lags = {place: max(0, ends[place] - s.offset) for place, s in offsets.items()}
        self.counters.partition_count, self.counters.lag_max = len(lags), max(lags.values(), default=0)
        ripe, most = self._ripeness.ripe({p: s.offset for p, s in offsets.items()}, ends, now), self._rows_max
        if sum(ripe.values()) < most and now < self._next_epoch_s:
            return None
        taken = self._ripeness.taken(ripe, most)
        ends_taken = {p: offsets[p].offset + count for p, count in taken.items()}
        plan = planned(offsets, ends_taken, most, self._known, self._metadata_max_bytes)
        if plan is not None:
            is_all = len(plan.epoch.ranges) == len(ends_taken)  # else the others' epoch follows at once
            self._next_epoch_s = now + (self._connector.epoch_interval_ms / 1000 if is_all else 0.0)
            self._make_durable(plan)
        return plan

    def _looked(self) -> tuple[dict[TopicPartition, EpochOffset], dict[TopicPartition, int]]:
        """Return the group's offsets and the ends of the logs, for the partitions that exist.

        If only committed records are read, a log ends before its first open transaction. Lost records below the group's
        offset are skipped with a warning. A group at the end of a log is within it, so the beginnings, and the ends
        including open transactions, are only asked for the other partitions.
        """
        assert self._admin is not None
        assert self.input is not None
        is_committed = self.spec.input.consumer_conf.get("isolation.level", "read_committed") != "read_uncommitted"
        there = self.input.partitions()
        offsets = {place: s for place, s in self._holding.offsets.items() if place in there}
        ends = self._admin.offsets.ends(offsets, read_committed=is_committed)
        apart = [place for place, s in offsets.items() if ends[place] != s.offset]
        begins, highs = self._admin.offsets.starts(apart), self._admin.offsets.ends(apart, read_committed=False)
        beyond = {place for place in apart if offsets[place].offset > highs[place]}
        lost = self._doubts.confirmed(offsets, beyond, time.monotonic(), SURE_S)
        for place in apart:
            held = offsets[place]
            if held.offset < begins[place] or place in lost:
                at = self._reset(place, held.offset, begins[place], highs[place])
                offsets[place] = self._holding.offsets[place] = EpochOffset(at, held.note)
                self._holding.fresh.add(place)
        return offsets, {TopicPartition(*place): end for place, end in ends.items()}

    def _reset(self, place: TopicPartition, offset: int, begin: int, end: int) -> int:
        """Return where to continue if the log has nothing at an offset. Raises FatalError if the user has to decide."""
        reset, stood = self.spec.input.consumer_conf.get("auto.offset.reset", "earliest"), f"{offset} of {place.topic}-"
        what = f"was at offset {stood}{place.partition}, whose log goes from {begin} to {end} now"
        if reset == "error":
            raise FatalError(
                f"The group {what}, and auto.offset.reset is none: choose where to continue (PATCH "
                "/connectors/<name>/offsets)"
            )
        at = begin if reset == "earliest" else end
        log.warning("task %s %s: it continues at %d; the records in between are gone", self.spec.id, what, at)
        return at

    def _ended(self, epoch: Epoch, began_s: float) -> None:
        """Count an epoch that is committed."""
        self.counters.moved(sum(each.end - each.start for each in epoch.ranges))
        self.counters.poll_time_total_s += time.monotonic() - began_s
        self.counters.topics.update(each.topic for each in epoch.ranges)
        self._back_off.passed()
        self._report(RunState.RUNNING)

    def _run_in_thread(self, what: str, work: Callable[[], object]) -> None:
        """Run work in a thread of its own, and take part in rebalances in the meantime. Raises what the work raises.

        Raises CutShortError if the partitions or the task are lost first; the work's Spark jobs are cancelled then.
        """
        group = f"epoch-{self.spec.id}-{uuid.uuid4().hex}"
        raised: list[BaseException] = []

        def run() -> None:
            try:
                self._runtime.adopt_thread()
                with job_group(self._runtime.session.sparkContext, group, f"{self.spec.id}: {what}"):
                    work()
            except BaseException as error:
                raised.append(error)

        before = self._holding.changes
        self._group = group
        self._work = threading.Thread(target=run, name=f"{what}-{self.spec.id}", daemon=True)
        self._work.start()
        try:
            while self._work is not None and self._work.is_alive():
                if self.control.is_stopping:
                    self._end_work(_LAST_WORK_S)
                elif self.input is not None:
                    self._work.join(_WAIT_FOR_WORK_S)  # returns at once when the work ends
                    self.input.poll(0, 1)
            if self._holding.changes != before or (self._work is None and not raised):
                raise CutShortError(f"{what} was cut short: another member has the partitions, or the task ends")
        finally:
            self._work = self._group = None
        for error in raised:
            translated = self._translate(error)
            if translated is error:
                raise error
            raise translated from error

    def _translate(self, error: BaseException) -> BaseException:
        """Return the error that the work's thread raised; one of Spark's is translated to its cause."""
        if isinstance(error, RetriableError | ConfigError | FencedError | OSError) or not isinstance(error, Exception):
            return error
        self._host.ends.record(f"an epoch of task {self.spec.id}", error)
        causes = causes_of(error)
        said = next((text for kind in _LATER if (text := raised_in_python(causes, kind))), None)
        if said is not None:
            return RetriableError(said)
        refusal = raised_in_python(causes, FatalError)
        if refusal is not None or is_refused_by_query(causes):
            return FatalError(refusal or reason(error))
        return (OSError if is_storage_failure(causes) else RuntimeError)(reason(error))

    def _end_work(self, within_s: float) -> None:
        """Wait for the running work, and cancel it if it takes longer than `within_s`."""
        work, group = self._work, self._group
        if work is None or group is None:
            return
        work.join(within_s)
        if work.is_alive():
            self._cancel(group)
            work.join(within_s)
            self._work = None

    def commit(self, offsets: EpochOffsets) -> None:
        """Make offsets durable, all or none. Raises CutShortError if the membership is over.

        After any failure the member leaves the group: the broker may have accepted the commit all the same, or may
        still accept it, but only from this member. What is durable is then read again.
        """
        assert self.input is not None
        try:
            done = self.input.commit(
                {place: s.offset for place, s in offsets.items()},
                {place: s.note.to_text() for place, s in offsets.items()},
            )
        except Exception as error:
            self._leave()
            if isinstance(error, FencedError):
                raise CutShortError(str(error)) from error
            raise
        if len(done) < len(offsets):
            self._leave()
            gone = "-".join(map(str, min(offsets.keys() - done.keys())))
            raise CutShortError(f"{gone} does not exist, or its coordinator does not know it yet")
        self._holding.committed(offsets)

    def _leave(self) -> None:
        input_, self.input = self.input, None
        if input_ is not None:
            input_.close()
        self._holding.clear()

    def _close(self) -> None:
        self._leave()
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _topics_used(self) -> Sequence[str]:
        return tuple(sorted(self.counters.topics))
