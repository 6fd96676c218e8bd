"""What tasks that work in epochs share: a driver thread that is the one member of its group.

It plans what is new as ranges of offsets, and lives through rebalances while Spark works.
"""

import logging
import threading
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence

from fencepost.api import Epoch, EpochConnector, FatalError, FencedError, RetriableError
from fencepost.config import ConfigError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaUnavailableError, ReadTimeoutError
from fencepost.kafka.group.contribution import beside
from fencepost.kafka.read.doubt import SURE_S, Doubts
from fencepost.kafka.read.group_input import GroupInput, Positions
from fencepost.record import TopicPartition
from fencepost.spark.epoch.frame import EpochReader
from fencepost.spark.slot.failure import causes_of, is_refused_by_query, is_storage_trouble, raised_in_python, reason
from fencepost.spark.slot.job import job_group
from fencepost.task.admitted import admitted
from fencepost.task.channel import ChannelError
from fencepost.task.counters import SinkCounters
from fencepost.task.sink.epoch_plan import (
    Begun,
    Note,
    Standing,
    Standings,
    all_begun,
    begun,
    newest,
    planned,
)
from fencepost.task.sink.ripeness import Ripeness
from fencepost.task.sink.subscription import subscription
from fencepost.task.spec import RunState, TaskSpec
from fencepost.worker.host.frame_life import FrameHost, FrameLife, Runtime

log = logging.getLogger(__name__)

_POLL_S = 0.1
_BESIDE_S = 0.02
_LOOK_S = 0.5
_ASK_S = 30.0
_NOT_WHOLE_S = 30.0
_LATER = (
    KafkaUnavailableError,
    ReadTimeoutError,
    ChannelError,
    RetriableError,
)  # what ends an executor's work, and passes
_AT_ONCE = 1_000  # offsets of one commit, where not all of them have to be in it
_LAST_WORK_S = 3.0  # what runs when it is to end has this long to get through


class CutShortError(RetriableError):
    """The epoch's partitions are not, or not for long, this member's: whoever has them next goes on with it."""


class _Holding:
    """What the member holds: the partitions of the assignment, and where the group stands in them."""

    def __init__(self, notes: Callable[[], Mapping[TopicPartition, str]], let_go: Callable[[], None]) -> None:
        """`let_go` is called before partitions are granted to others."""
        self.standings: dict[TopicPartition, Standing] = {}
        self.decided: dict[TopicPartition, Standing] = {}
        """Where the group stands in partitions of other topics, of which epochs are to be published still."""
        self.fresh: set[TopicPartition] = set()
        """Of which the group has not committed where they begin: that is known to this member only."""
        self.changes = 0
        self._notes = notes
        self._let_go = let_go

    def assigned(
        self, positions: Mapping[TopicPartition, int], fresh: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Take over partitions, with what was begun in them."""
        notes = self._notes()
        self.standings.update({p: Standing(at, Note.of_text(beside(notes.get(p, "")))) for p, at in positions.items()})
        self.fresh |= set(fresh)
        self.changes += 1
        return {}

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Give up partitions: nothing of them is written any more when this returns."""
        self._let_go()
        self.lost(partitions)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Take note that partitions are others'."""
        self.changes += 1
        self.fresh -= set(partitions)
        for place in partitions:
            self.standings.pop(place, None)

    def committed(self, standings: Standings) -> None:
        """Take note of where the group stands now."""
        for place, standing in standings.items():
            if self.decided.pop(place, None) is None:
                self.standings[place] = standing
                self.fresh.discard(place)

    def clear(self) -> None:
        """Hold nothing any more."""
        self.standings.clear()
        self.decided.clear()
        self.fresh.clear()
        self.changes += 1

    @property
    def all(self) -> dict[TopicPartition, Standing]:
        """Return where the group stands in what this member may commit: its partitions, and what is decided."""
        return {**self.decided, **self.standings}


class EpochLife(FrameLife):
    """One start of a task that works in epochs."""

    _connector: EpochConnector

    def __init__(self, host: FrameHost, spec: TaskSpec, runtime: Runtime) -> None:
        super().__init__(host, spec, runtime)
        self._reader = EpochReader(self._connector, self._properties)
        self.counters: SinkCounters = SinkCounters()
        self._input: GroupInput | None = None
        self._admin: Admin | None = None
        self._holding = _Holding(self._notes, lambda: self._end_work(_LAST_WORK_S))
        self._begun_with = -1  # the count of `_Holding.changes` for which `started` was called
        self._waits_since_s = time.monotonic()
        self._doubts: Doubts[TopicPartition] = Doubts()  # of logs that seem to end before where the group stands
        self._notes_max: int | None = None  # bytes of notes in one commit; None where a plan need not be durable
        self._known = 0  # the newest number of an epoch outside of the group's own partitions: in the store, for one
        self._rows_max = self._connector.epoch_rows_max
        self._ripeness = Ripeness(self._connector.partition_rows_min, self._connector.partition_wait_max_ms / 1000)
        self._next_epoch_s = 0.0
        self._look_s = 0.0
        self._wait_s = _POLL_S
        self._work: threading.Thread | None = None

    def _notes(self) -> Mapping[TopicPartition, str]:
        return {} if self._input is None else self._input.notes

    def _turn(self) -> bool:
        try:
            return self._one_epoch()
        except CutShortError as error:
            log.info("task %s: %s", self.spec.id, error)
            return False

    def _one_epoch(self) -> bool:
        wait_s, self._wait_s = self._wait_s, _POLL_S
        input_ = self._polled(wait_s)
        if not self._holding.standings or not self._has_all(input_):
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
        """Say whether the partitions are this member's, all of them, and it has begun with them."""
        return self._begun_with == self._holding.changes

    def _polled(self, wait_s: float = _POLL_S) -> GroupInput:
        """Return the membership, after a look at the group; what fails within gives it up, and is raised."""
        input_ = self._input or self._join()
        try:
            input_.poll(wait_s, 1)
        except Exception:
            self._leave()  # what it was to be told of its partitions it was not
            raise
        if self.spec.consumer_conf.get("auto.offset.reset") == "latest":
            self._commit_fresh()  # at once, also while it is paused: the next start would begin at a later end
        return input_

    def _rest(self) -> None:
        """Go on at once: `poll` has waited."""

    def _stay_paused(self) -> None:
        """Keep the membership; nothing is planned meanwhile."""
        while self.control.is_paused and not self.control.is_stopping:
            try:
                self._polled()
            except Exception as error:
                log.warning("task %s, paused: %s", self.spec.id, error)
                self.control.wait_for_stop(_LOOK_S)

    def _is_left_open(self) -> str | None:
        open_ = begun(self._holding.standings)
        if open_ is None:
            return None
        return (
            f"Epoch {open_.epoch.number} was begun and is not finished: some of it may be written. It goes on when the "
            "connector is resumed"
        )

    def _join(self) -> GroupInput:
        admitted(self.admit())
        self._input = GroupInput(
            self.spec.consumer_conf,
            subscription(self.spec),
            self._holding,
            fetches=False,
            positions=self._positions(),
        )
        return self._input

    def _positions(self) -> Positions | None:
        """Return what reads where the group stands; None: the member's own client."""
        return None

    def _has_all(self, input_: GroupInput) -> bool:
        """Say whether all partitions are this member's: an epoch has one writer.

        For a while, a start that was replaced may be another member.
        """
        if self._is_well:
            self._waits_since_s = time.monotonic()
            return True
        missing = input_.partitions() - self._holding.standings.keys()
        if missing and time.monotonic() - self._waits_since_s > _NOT_WHOLE_S:
            self._waits_since_s = time.monotonic()
            log.warning(
                "task %s waits for all partitions of its topics: %s and others are another member's of group %s, in "
                "which no other consumer should be",
                self.spec.id, "-".join(map(str, min(missing))), self.spec.consumer_conf.get("group.id"),
            )  # fmt: skip
        return not missing

    def _commit_fresh(self) -> None:
        """Have the group know where partitions begin of which only this member knows."""
        standings = self._holding.standings
        fresh = {place: standings[place] for place in self._holding.fresh if place in standings}
        places = sorted(fresh)
        for first in range(0, len(places), _AT_ONCE):
            self._commit({place: fresh[place] for place in places[first : first + _AT_ONCE]})

    @abstractmethod
    def _started(self, number: int, standings: Standings) -> None:
        """Do what comes before the first epoch of an assignment, whose newest one has this number."""

    def _decided_elsewhere(self) -> dict[TopicPartition, Standing]:
        """Return where the group stands in partitions that are not read any more, and have output to be published."""
        return {}

    @abstractmethod
    def _make_durable(self, plan: Begun) -> None:
        """See to it that whoever takes over finishes the plan with the same ranges, where that matters."""

    @abstractmethod
    def _finish(self, epoch: Begun) -> None:
        """Write and commit what was planned."""

    def _begin(self) -> None:
        changes = self._holding.changes
        self._holding.decided = self._decided_elsewhere()
        standings = self._holding.all
        open_ = begun(standings)
        if open_ is not None:
            log.info("task %s goes on with epoch %d, which was begun before", self.spec.id, open_.epoch.number)
        if self._admin is None:
            self._admin = Admin(self.spec.reader_admin_conf, timeout_s=_ASK_S)
        self._commit_fresh()
        number = newest(standings) if open_ is None else open_.epoch.number
        self._started(number, standings)
        newer = max(self._known, newest(standings))
        for each in all_begun(standings):
            if each.token is None and each.epoch.number < newer:
                newer += 1  # what is old is anybody's to delete
                self._commit(each.with_number(newer).standings())
        self._begun_with = changes

    def _next(self) -> Begun | None:
        """Plan the next epoch, if it is time for one."""
        now = time.monotonic()
        if now < min(self._look_s, self._next_epoch_s):
            return None
        self._look_s = now + _LOOK_S
        standings, ends = self._looked()
        behind = {place: max(0, ends[place] - s.offset) for place, s in standings.items()}
        self.counters.partition_count, self.counters.lag_max = len(behind), max(behind.values(), default=0)
        ripe, most = self._ripeness.ripe({p: s.offset for p, s in standings.items()}, ends, now), self._rows_max
        if sum(ripe.values()) < most and now < self._next_epoch_s:
            return None
        taken = self._ripeness.taken(ripe, most)
        ends_taken = {p: standings[p].offset + count for p, count in taken.items()}
        plan = planned(standings, ends_taken, most, self._known, self._notes_max)
        if plan is not None:
            is_all = len(plan.epoch.ranges) == len(ends_taken)  # else the others have an epoch at once
            self._next_epoch_s = now + (self._connector.epoch_interval_ms / 1000 if is_all else 0.0)
            self._make_durable(plan)
        return plan

    def _looked(self) -> tuple[dict[TopicPartition, Standing], dict[TopicPartition, int]]:
        """Return where the group stands and where logs end, of the partitions that there are.

        They end before the first open transaction where only what is committed is read. What is gone below where the
        group stands is passed over, aloud: nobody can read it any more. Who stands at an end stands in the log, so only
        the others are asked about where theirs begins, and ends for those who see open transactions.
        """
        assert self._admin is not None
        assert self._input is not None
        is_committed = self.spec.consumer_conf.get("isolation.level", "read_committed") != "read_uncommitted"
        there = self._input.partitions()
        standings = {place: s for place, s in self._holding.standings.items() if place in there}
        ends = self._admin.end_offsets(standings, read_committed=is_committed)
        apart = [place for place, s in standings.items() if ends[place] != s.offset]
        begins, highs = self._admin.start_offsets(apart), self._admin.end_offsets(apart, read_committed=False)
        beyond = {place for place in apart if standings[place].offset > highs[place]}
        lost = self._doubts.confirmed(standings, beyond, time.monotonic(), SURE_S)
        for place in apart:
            standing = standings[place]
            if standing.offset < begins[place] or place in lost:
                at = self._reset(place, standing.offset, begins[place], highs[place])
                standings[place] = self._holding.standings[place] = Standing(at, standing.note)
                self._holding.fresh.add(place)
        return standings, {TopicPartition(*place): end for place, end in ends.items()}

    def _reset(self, place: TopicPartition, offset: int, begin: int, end: int) -> int:
        """Return where to go on, where the log has nothing at an offset. FatalError if somebody has to say so."""
        reset, stood = self.spec.consumer_conf.get("auto.offset.reset", "earliest"), f"{offset} of {place.topic}-"
        what = f"stood at offset {stood}{place.partition}, whose log goes from {begin} to {end} now"
        if reset == "error":
            raise FatalError(
                f"The group {what}, and auto.offset.reset is none: say where to go on (PATCH "
                "/connectors/<name>/offsets)"
            )
        at = begin if reset == "earliest" else end
        log.warning("task %s %s: it goes on at %d; what was between is gone", self.spec.id, what, at)
        return at

    def _ended(self, epoch: Epoch, began_s: float) -> None:
        """Count an epoch that is committed."""
        self.counters.moved(sum(each.end - each.start for each in epoch.ranges))
        self.counters.poll_time_total_s += time.monotonic() - began_s
        self.counters.topics.update(each.topic for each in epoch.ranges)
        self._back_off.passed()
        self._report(RunState.RUNNING)

    def _beside(self, what: str, work: Callable[[], object]) -> None:
        """Run work in a thread of its own, and live through rebalances meanwhile. Raises what it raises.

        CutShortError where the partitions, or the task, go first: its Spark jobs are cancelled then.
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
                elif self._input is not None:
                    self._work.join(_BESIDE_S)  # and go on at once when it ends
                    self._input.poll(0, 1)
            if self._holding.changes != before or (self._work is None and not raised):
                raise CutShortError(f"{what} was cut short: the partitions or the task are somebody else's, or end")
        finally:
            self._work = self._group = None
        for error in raised:
            meant = self._meant(error)
            if meant is error:
                raise error
            raise meant from error

    def _meant(self, error: BaseException) -> BaseException:
        """Return what the work's thread has raised, in words where it comes from Spark."""
        if isinstance(error, RetriableError | ConfigError | FencedError | OSError) or not isinstance(error, Exception):
            return error
        self._host.ends.note(f"an epoch of task {self.spec.id}", error)
        causes = causes_of(error)
        said = next((text for kind in _LATER if (text := raised_in_python(causes, kind))), None)
        if said is not None:
            return RetriableError(said)
        refusal = raised_in_python(causes, FatalError)
        if refusal is not None or is_refused_by_query(causes):
            return FatalError(refusal or reason(error))
        return (OSError if is_storage_trouble(causes) else RuntimeError)(reason(error))

    def _end_work(self, within_s: float) -> None:
        """Have the work that runs get through within a time, or cancel it."""
        work, group = self._work, self._group
        if work is None or group is None:
            return
        work.join(within_s)
        if work.is_alive():
            self._cancel(group)
            work.join(within_s)
            self._work = None

    def _commit(self, standings: Standings) -> None:
        """Make standings durable, all or none. Raises CutShortError where the membership is over.

        After any failure the membership is given up: the broker may have taken it all the same, or may take it later,
        from this member only. What is durable is read anew.
        """
        assert self._input is not None
        try:
            done = self._input.commit(
                {place: s.offset for place, s in standings.items()},
                {place: s.note.to_text() for place, s in standings.items()},
            )
        except Exception as error:
            self._leave()
            if isinstance(error, FencedError):
                raise CutShortError(str(error)) from error
            raise
        if len(done) < len(standings):
            self._leave()
            gone = "-".join(map(str, min(standings.keys() - done.keys())))
            raise CutShortError(f"{gone} is not there, or its coordinator has not heard of it yet")
        self._holding.committed(standings)

    def _leave(self) -> None:
        input_, self._input = self._input, None
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
