"""The base of tasks that work in epochs: a driver thread that is the only member of its group.

It plans new records as ranges of offsets, from where logs end or records are gone, and takes part in rebalances while
Spark works.
"""

import logging
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from fencepost.api import Epoch, EpochConnector, FatalError, RetriableError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.doubt import IF_RESTORED, SURE_S, Doubts, LowestEnds
from fencepost.kafka.read.known_positions import PositionReader
from fencepost.kafka.value.position import NO_EPOCH
from fencepost.record import TopicPartition, place_names
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
from fencepost.task.start.run import SinkCounters
from fencepost.task.tracing.tracing import FrameBatch, FrameWork
from fencepost.worker.host.epoch.membership import CutShortError, EpochMembership, EpochWork, HeldPartitions
from fencepost.worker.host.frame.task import FrameHost, FrameTask

if TYPE_CHECKING:
    from fencepost.spark.session.session import SparkRuntime


log = logging.getLogger(__name__)


class EpochLogs:
    """Used by the task's thread."""

    def __init__(self, spec: TaskSpec) -> None:
        self._spec = spec
        self._admin: Admin | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._doubts: Doubts[TopicPartition] = Doubts()  # logs that seem to end before the group's offset
        self._lowest = LowestEnds()  # of these
        self._unled: Doubts[TopicPartition] = Doubts()  # whose newest leaders do not answer

    @property
    def admin(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(self._spec.input.reader_admin_conf)
        return self._admin

    def look(
        self, held: HeldPartitions, there: set[TopicPartition]
    ) -> tuple[dict[TopicPartition, EpochOffset], dict[TopicPartition, int]]:
        """Return the group's offsets and the ends of the logs, for the partitions that are `there`.

        If only committed records are read, a log ends before its first open transaction. Lost records below the group's
        offset are skipped with a warning. A group at the end of a log is within it, so the beginnings, and the ends
        including open transactions, are only asked for the other partitions. A log that ends before the group's offset
        was cut, also if it has grown past the offset since, unless its topic has another id than the one of which the
        group has read: then it is read as a new one.
        """
        is_committed = self._spec.input.consumer_conf.get("isolation.level", "read_committed") != "read_uncommitted"
        offsets = {place: s for place, s in held.offsets.items() if place in there}
        ids = {name: topic.id for name, topic in self.admin.topics.get_all({p.topic for p in offsets}).items()}
        known = {place: s for place, s in offsets.items() if s.has_known_log}
        replaced = {p for p, s in known.items() if s.metadata.topic_id != ids.get(p.topic, "")}
        ends = self.admin.offsets.ends(offsets, read_committed=is_committed)
        led = {place: self.admin.offsets.epochs.get(place, NO_EPOCH) for place in offsets}
        cut, unled = self._compared({place: s for place, s in known.items() if place not in replaced}, led)
        apart = [
            place
            for place, s in offsets.items()
            if ends[place] != s.offset or place in replaced or place in cut or place in self._lowest
        ]
        begins, highs = self.admin.offsets.starts(apart), self.admin.offsets.ends(apart, read_committed=False)
        beyond = {place for place in apart if offsets[place].offset > highs[place]}
        seeming = beyond | replaced | cut.keys()
        lost = self._doubts.confirmed(offsets, seeming, time.monotonic(), SURE_S)
        doubtful = (seeming - lost) | unled  # nothing is planned for these
        for place in apart:
            before, cut_at = offsets[place], cut.get(place)
            epoch = led[place] if place in known else NO_EPOCH
            if place in beyond and cut_at is None:
                cut_at = self._lowest.lowest(place, before.offset, highs[place], epoch)
            elif place not in seeming and (cut_at := self._lowest.cut_at(place, before.offset, epoch)) is not None:
                lost.add(place)
            if place in doubtful:
                continue
            if place in lost and place in known and place not in replaced and cut_at is not None:
                at = self._end_of_cut(place, before.offset, begins[place], cut_at)
            elif before.offset < begins[place] or place in lost:
                at = self._reset(place, before.offset, begins[place], ends[place])
            else:
                continue
            offsets[place] = replace(before, offset=at)
            held.fresh.add(place)
        for place in doubtful:
            ends[place] = offsets[place].offset
        for place in offsets.keys() - doubtful:
            metadata = replace(offsets[place].metadata, topic_id=ids.get(place.topic))
            offsets[place] = held.offsets[place] = EpochOffset(offsets[place].offset, metadata, led[place])
        self._ends = {TopicPartition(*place): end for place, end in ends.items()}
        return offsets, self._ends

    def lags(self, held: HeldPartitions) -> list[int]:
        """Return how many records of each partition are to be read, by the ends at the last look."""
        return [max(0, self._ends[p] - s.offset) for p, s in held.offsets.items() if p in self._ends]

    def repeated(self, epoch: OpenEpoch) -> OpenEpoch:
        """Return an epoch that was planned earlier, before its ranges are read again as the logs are now.

        If a log was cut within the range, this reads what it has there since then. It would be read twice if the cut
        was found later. If it was cut below the range, or does not reach its end yet, that is still to be found.

        Raises RetriableError while brokers report only older leaders than that of the plan: what they lack is no loss.
        """
        ids = {name: topic.id for name, topic in self.admin.topics.get_all(epoch.topic_ids).items()}
        asked = {p: led for p, led in epoch.leader_epochs.items() if epoch.topic_ids.get(p.topic) == ids.get(p.topic)}
        ends = self.admin.offsets.ends(asked, read_committed=False)
        led = {place: self.admin.offsets.epochs[place] for place in asked}
        if unled := {place for place, planned in asked.items() if NO_EPOCH != led[place] < planned}:
            raise RetriableError(
                f"brokers report only older leaders of {place_names(unled)} than that with which epoch "
                f"{epoch.epoch.number} was planned. {IF_RESTORED}"
            )
        found, now = self.admin.offsets.ends_of_epochs(asked), self.admin.offsets.epochs
        newer = {
            each.place: led[each.place]
            for each in epoch.epoch.ranges
            if found.get(each.place, -1) >= each.start
            and ends[each.place] >= each.end
            and now[each.place] == led[each.place]
        }
        return replace(epoch, leader_epochs={**epoch.leader_epochs, **newer})

    def _compared(
        self, known: EpochOffsets, led: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
        """Return where logs were cut below the group's offsets, and the partitions whose newest leaders do not answer.

        `led`: the epochs of the leaders that answer. If it is the epoch of the offset, nothing was cut: a leader's log
        never becomes shorter.
        """
        other = {p: s.leader_epoch for p, s in known.items() if NO_EPOCH != led[p] != s.leader_epoch}
        found = self.admin.offsets.ends_of_epochs({p: epoch for p, epoch in other.items() if epoch < led[p]})
        now = self.admin.offsets.epochs
        unled = {p for p, epoch in other.items() if led[p] < epoch or now[p] != led[p]}
        if sure := self._unled.confirmed(known, unled, time.monotonic(), SURE_S):
            self._unled.forget(sure)  # and log it again after as long
            log.error(
                "task %s has read %s from a newer leader than any that brokers report now. Nothing is read there until "
                "they report it. %s", self._spec.id, place_names(sure), IF_RESTORED,
            )  # fmt: skip
        return {p: end for p, end in found.items() if end < known[p].offset}, unled

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _end_of_cut(self, place: TopicPartition, offset: int, begin: int, cut_at: int) -> int:
        """Return where to continue in a log that was cut. Raises FatalError if the user has to decide."""
        self._ensure_may_reset(f"was at offset {offset} of {place.topic}-{place.partition}, which was cut at {cut_at}")
        log.error(
            "task %s was at offset %d of %s-%d, whose log was cut at %d: reading continues there",
            self._spec.id, offset, *place, cut_at,
        )  # fmt: skip
        return max(begin, cut_at)

    def _reset(self, place: TopicPartition, offset: int, begin: int, end: int) -> int:
        """Return where to continue if the log has nothing at an offset. Raises FatalError if the user has to decide."""
        reset = self._spec.input.consumer_conf.get("auto.offset.reset", "earliest")
        self._ensure_may_reset(what := _described(place, offset, begin, end))
        at = begin if reset == "earliest" else end
        then = "records that it wrote are written again" if at < offset else "the records in between are gone"
        log.error(
            "task %s %s: it continues at %d, as auto.offset.reset is %s, and %s. If that is not what you want, stop "
            "the connector and choose another offset (PATCH /connectors/<name>/offsets)",
            self._spec.id, what, at, reset, then,
        )  # fmt: skip
        return at

    def _ensure_may_reset(self, what: str) -> None:
        if self._spec.input.consumer_conf.get("auto.offset.reset") == "error":
            raise FatalError(
                f"The group {what}, and auto.offset.reset is none: choose where to continue (PATCH "
                "/connectors/<name>/offsets)"
            )


def _described(place: TopicPartition, offset: int, begin: int, end: int) -> str:
    return f"was at offset {offset} of {place.topic}-{place.partition}, whose log goes from {begin} to {end} now"


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
