"""The base of tasks that work in epochs: a driver thread that is the only member of its group.

It plans new records as ranges of offsets, and takes part in rebalances while Spark works.
"""

import logging
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from fencepost.api import Epoch, EpochConnector
from fencepost.kafka.read.known_positions import PositionReader
from fencepost.record import TopicPartition
from fencepost.spark.epoch.frame import EpochFrames
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.sink.epoch_plan import (
    EpochOffset,
    EpochOffsets,
    OpenEpoch,
    Ripeness,
    all_begun,
    begun,
    newest,
    planned,
)
from fencepost.task.start.counters import SinkCounters
from fencepost.task.tracing.tracing import FrameBatch, FrameWork
from fencepost.worker.host.epoch.logs import EpochLogs
from fencepost.worker.host.epoch.membership import CutShortError, EpochMembership, EpochWork
from fencepost.worker.host.frame.task import FrameHost, FrameTask

if TYPE_CHECKING:
    from fencepost.spark.session.session import SparkRuntime

_LOOK_S = 0.5


class EpochPlanner:
    """Plans epochs. `metadata_max_bytes`: of the metadata in one commit; None if plans need not be durable.

    `known` is the newest number of an epoch that is known elsewhere, such as in the store.
    """

    def __init__(self, connector: EpochConnector, metadata_max_bytes: int | None) -> None:
        self.metadata_max_bytes = metadata_max_bytes
        self.known = 0
        self._rows_max = connector.epoch_rows_max
        self._interval_s = connector.epoch_interval_ms / 1000
        self._ripeness = Ripeness(connector.partition_rows_min, connector.partition_wait_max_ms / 1000)
        self._next_epoch_s = 0.0
        self._look_s = 0.0

    def begins_look(self, now: float) -> bool:
        """Say whether to look now for new records; if so, the next look is due later."""
        if now < min(self._look_s, self._next_epoch_s):
            return False
        self._look_s = now + _LOOK_S
        return True

    def retry(self) -> None:
        """Make the next plan due at once: the last one is not carried out."""
        self._next_epoch_s = 0.0

    def plan(self, offsets: EpochOffsets, ends: Mapping[TopicPartition, int], now: float) -> OpenEpoch | None:
        """Return the next epoch, if it is due."""
        ripe = self._ripeness.ripe({p: s.offset for p, s in offsets.items()}, ends, now)
        if sum(ripe.values()) < self._rows_max and now < self._next_epoch_s:
            return None
        taken = self._ripeness.taken(ripe, self._rows_max)
        ends_taken = {p: offsets[p].offset + count for p, count in taken.items()}
        plan = planned(offsets, ends_taken, self._rows_max, self.known, self.metadata_max_bytes)
        if plan is not None:
            is_all = len(plan.epoch.ranges) == len(ends_taken)  # else the others' epoch follows at once
            self._next_epoch_s = now + (self._interval_s if is_all else 0.0)
        return plan


log = logging.getLogger(__name__)

T = TypeVar("T")

_POLL_S = 0.1


class EpochTask(FrameTask):
    """One start of a task that works in epochs."""

    _connector: EpochConnector
    _reader: EpochFrames

    def __init__(
        self, host: FrameHost, spec: TaskSpec, runtime: "SparkRuntime", metadata_max_bytes: int | None = None
    ) -> None:
        super().__init__(host, spec, runtime)
        self.counters: SinkCounters = SinkCounters()
        self.membership = EpochMembership(spec, self.admit, self._positions, lambda: self._work.end())
        self._work = EpochWork(self.membership, self._jobs, self.control, host.ends)
        self._logs = EpochLogs(spec)
        self._planner = EpochPlanner(self._connector, metadata_max_bytes)
        self._wait_s = _POLL_S

    def _working_thread(self) -> threading.Thread:
        return self._work.thread or self.thread

    def _turn(self) -> bool:
        try:
            return self._one_epoch()
        except CutShortError as error:
            log.info("task %s: %s", self.spec.id, error)
            return False

    def _one_epoch(self) -> bool:
        wait_s, self._wait_s = self._wait_s, _POLL_S
        input_, held = self.membership.poll(wait_s), self.membership.held
        if not held.offsets or not self.membership.has_all(input_):
            return False
        if not held.has_begun:
            self._begin()
        epoch = self._again(begun(held.all)) or self._next()
        if epoch is None:
            return False
        with self._traced(epoch.epoch) as batch:
            self._finish(epoch, batch)
        self._wait_s = 0.0  # there may be more
        return True

    @contextmanager
    def _traced(self, epoch: Epoch) -> Iterator[FrameBatch]:
        """Trace what is done with an epoch; an epoch without success is begun again later, in a new trace."""
        topics = {each.topic for each in epoch.ranges}
        try:
            with self.tracing.frame(FrameWork(topics, _count(epoch), True, not self.spec.is_stream)) as batch:
                try:
                    yield batch
                except CutShortError:
                    batch.cut_short()
                    raise
        except CutShortError:
            self.tracing.dropped()
            raise
        except Exception as error:
            self.tracing.commit_failed(error)
            raise

    def _step(self, name: str, work: Callable[[], T]) -> T:
        """Run a step of an epoch in a thread of its own, in which its span is the current one."""
        with self.tracing.step(name):
            return self._work.run(name, work)

    @contextmanager
    def _core(self) -> Iterator[None]:
        """Hold a core for Spark jobs. Raises CutShortError if the task is asked to stop or pause instead."""
        if not self._take_core():
            raise CutShortError("the task is stopping or pausing")
        try:
            yield
        finally:
            self._release_core()

    @property
    def _is_well(self) -> bool:
        return self.membership.held.has_begun

    def _rest(self) -> None:
        """Do not wait: `poll` has waited."""

    def _stay_paused(self) -> None:
        while self.control.is_paused and not self.control.is_stopping:
            try:
                self.membership.poll(_POLL_S)
            except Exception as error:
                log.warning("task %s, paused: %s", self.spec.id, error)
                self.control.wait_for_stop(_LOOK_S)

    def _is_left_open(self) -> str | None:
        open_ = begun(self.membership.held.offsets)
        if open_ is None:
            return None
        return (
            f"Epoch {open_.epoch.number} has begun and is not finished; part of it may be written. It continues when "
            "the connector is resumed"
        )

    def _positions(self) -> PositionReader | None:
        """Return the reader of the group's offsets; None for the member's own client."""
        return None

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
    def _finish(self, epoch: OpenEpoch, batch: FrameBatch) -> None:
        """Write and commit what was planned."""

    def _begin(self) -> None:
        held = self.membership.held
        changes = held.changes
        held.decided = self._decided_elsewhere()
        offsets = held.all
        open_ = all_begun(offsets)
        if open_:
            log.info("task %s continues epoch %d, which was begun earlier", self.spec.id, open_[0].epoch.number)
        self.membership.commit_fresh()
        number = open_[0].epoch.number if open_ else newest(offsets)
        self._started(number, offsets)
        newer = max(self._planner.known, newest(offsets))
        for each in open_:
            if each.token is None and each.epoch.number < newer:
                newer += 1  # others may delete what an older number has written
                self.membership.commit(each.with_number(newer).offsets())
        held.begun_with = changes

    def _again(self, epoch: OpenEpoch | None) -> OpenEpoch | None:
        return epoch if epoch is None or epoch.token is not None else self._logs.repeated(epoch)

    def _next(self) -> OpenEpoch | None:
        now = time.monotonic()
        if not self._planner.begins_look(now):
            return None
        assert self.membership.input is not None
        offsets, ends = self._logs.look(self.membership.held, self.membership.input.partitions())
        if self._count_lags():
            self._report(RunState.RUNNING)
        plan = self._planner.plan(offsets, ends, now)
        if plan is None:
            return None
        try:
            # After the ends of the logs: then no record of the epoch has a schema that is newer than these.
            plan = self._with_schemas(plan)
            self._make_durable(plan)
        except BaseException:
            self._planner.retry()
            raise
        return plan

    def _with_schemas(self, plan: OpenEpoch) -> OpenEpoch:
        """Return the plan with the schemas of the registry that define its columns, unless it has them.

        Raises RetriableError if the registry is away: without its schemas nothing is planned.
        """
        topics = {each.topic for each in plan.epoch.ranges}
        if self._reader.registry_conf is None or topics <= plan.schemas.keys():
            return plan
        return plan.with_schemas(self._work.run("schemas", lambda: self._reader.planned_schemas(topics)))

    def _ended(self, epoch: Epoch, began_s: float) -> None:
        sizes = [each.end - each.start for each in epoch.ranges]
        self.counters.moved(*(sizes if self.spec.is_stream else [sum(sizes)]))  # a stream commits each range
        self.counters.poll_time_total_s += time.monotonic() - began_s
        self.counters.topics.update(each.topic for each in epoch.ranges)
        self._count_lags()
        self._back_off.passed()
        self._report(RunState.RUNNING)

    def _count_lags(self) -> bool:
        before, lags = self.counters.lag_max, self._logs.lags(self.membership.held)
        self.counters.partition_count, self.counters.lag_max = len(lags), max(lags, default=0)
        return before != self.counters.lag_max

    def _close(self) -> None:
        self.membership.leave()
        self._logs.close()

    def _topics_used(self) -> Sequence[str]:
        return tuple(sorted(self.counters.topics))


def _count(epoch: Epoch) -> int:
    return sum(each.end - each.start for each in epoch.ranges)
