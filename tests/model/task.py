"""The client's half: a task, its producers (one, or two that take turns), and the rules that make it exactly-once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from model.broker import Kind, Request, Way

ALL_KINDS = frozenset(Kind)


@dataclass(frozen=True)
class Rules:
    """What a task keeps to. Each is switched off by some test, to see what it is good for."""

    strikes: frozenset[Kind] = ALL_KINDS  # E5: requests that, sent again, retire their producer
    repeats_unknown_commits: bool = False  # E6 forbids it
    position_in_transaction: bool = True  # E1
    fenced_lanes: int = 2  # E2: how many of its ids a starting task takes before it reads its position
    reads_after_fence: bool = True  # E3
    has_round: bool = True  # E18: whether a task of a newer plan begins when the ids of the older ones are taken
    tells_generation: bool = True  # E19: whether a member sends its positions as such
    reads_stable: bool = True  # E20: whether a position is read when no transaction is about to change it
    fences_by_input: bool = True  # E20: whether a member ends the transactions that it would have to wait for
    flushes_before_next_lane: bool = True
    commits_in_order: bool = True


class Stage(StrEnum):
    """What a producer is at. A stage is left when everything that it sent has been answered."""

    IDLE = "idle"
    OPENING = "opening"
    ADDING = "adding partitions"
    SENDING = "sending"
    FLUSHED = "flushed"
    ADDING_GROUP = "adding the group"
    SENDING_GROUP = "sending the group's offset"
    ENDING = "ending"
    WRITING_PLAINLY = "writing plainly"


class Lane(NamedTuple):
    """One producer. `waiting` are its requests without an answer."""

    epoch: int = 0
    stage: Stage = Stage.IDLE
    transaction: int = -1
    waiting: tuple[Kind, ...] = ()
    is_struck: bool = False


class Phase(StrEnum):
    FENCING = "fencing"
    READING = "reading the position"
    RUNNING = "running"


class Task(NamedTuple):
    """One start of a task; a later one of the same task has a greater number. `attempt` counts its own starts-over."""

    number: int
    attempt: int
    phase: Phase
    fenced: int
    next: int  # the transaction to begin next, which is also the position
    lanes: tuple[Lane, ...]

    @property
    def incarnation(self) -> tuple[int, int]:
        return self.number, self.attempt


Step = tuple[Task, list[Request]]


@dataclass(frozen=True)
class Plan:
    """What a task has to do: that many transactions of two records and a position each."""

    rules: Rules = Rules()
    lanes: int = 1
    later_lanes: int | None = None  # how many a later start of the task uses; it takes all ids anyway
    is_moved: bool = False  # a later start is another task, of a newer plan: it has one lane, with an id of its own
    is_member: bool = False  # a start joins the group that keeps the position: no plan, and no round
    transactions: int = 3
    way: Way = field(default_factory=Way)

    def start(self, number: int, attempt: int) -> Step:
        """Step 5 on: a new client for every id. The round of a newer plan comes before its first start, only."""
        task = Task(number, attempt, Phase.FENCING, 0, 0, (Lane(),) * self.lanes)
        if self.is_moved and attempt:
            task = task._replace(fenced=len(self._taken(task)) - 1)
        return self._fence_next(task) if self.rules.reads_after_fence else (task._replace(phase=Phase.READING), [])

    def positioned(self, task: Task, position: int) -> Step:
        """Step 7: the task goes on behind what is committed."""
        task = task._replace(next=position)
        return self._run(task) if self.rules.reads_after_fence else self._fence_next(task)

    def fence(self, task: Task, index: int) -> Step:
        """Take the id of another task, which has a position pending; then read again."""
        return self._opening(task._replace(phase=Phase.FENCING), index, Stage.IDLE, -1)

    def request(self, task: Task, kind: Kind, index: int) -> Request:
        """Return what a producer of the task sends in its transaction."""
        lane = task.lanes[index]
        tells = self.is_member and self.rules.tells_generation and kind is Kind.POSITION
        return Request(kind, index, lane.epoch, lane.transaction, task.number if tells else 0)

    def answered(self, task: Task, request: Request, epoch: int) -> Step:
        """A request was done; for an INIT `epoch` is the new one."""
        lane = task.lanes[request.lane]
        waiting = tuple(kind for kind in lane.waiting if kind is not request.kind)
        task = _with(task, request.lane, lane._replace(waiting=waiting))
        if request.kind is not Kind.INIT:
            return self._run(task)
        if lane.is_struck:  # a client that lost a connection already is not trusted to notice the next loss
            task = _with(task, request.lane, Lane())._replace(attempt=task.attempt + 1)
            return self._opening(task, request.lane, lane.stage, lane.transaction)
        task = _with(task, request.lane, Lane(epoch, lane.stage, lane.transaction))
        if task.phase is Phase.RUNNING:
            return self._run(task)
        return self._fence_next(task._replace(fenced=task.fenced + 1))

    def _fence_next(self, task: Task) -> Step:
        """Step 5, lane by lane; then 6 and 7."""
        task = task._replace(phase=Phase.FENCING)
        taken = self._taken(task)
        if task.fenced < len(taken):
            return self._opening(task, taken[task.fenced], Stage.IDLE, -1)
        if self.rules.reads_after_fence:
            return task._replace(phase=Phase.READING), []
        return self._run(task)

    def _taken(self, task: Task) -> Sequence[int]:
        """The ids that are taken before the position is read, in order."""
        if not self.is_moved:
            return range(min(self.rules.fenced_lanes, self.lanes))
        own = self._next_lane(task)
        has_round = self.rules.has_round and not self.is_member
        return [*(index for index in range(self.lanes) if has_round and index != own), own]

    def _opening(self, task: Task, index: int, stage: Stage, transaction: int) -> Step:
        lane = Lane(0, stage, transaction, (Kind.INIT,))
        return _with(task, index, lane), [Request(Kind.INIT, index, task.incarnation, -1)]

    def _run(self, task: Task) -> Step:
        """Step 8: send all that may be sent now. A request can be late, so sending it late would add nothing."""
        task = task._replace(phase=Phase.RUNNING)
        sent: list[Request] = []
        before = None
        while before != task:
            before = task
            for index in range(self.lanes):
                task = self._go_on(task, index, sent)
            task = self._maybe_begin(task, sent)
        return self._maybe_replace(task, sent)

    def _go_on(self, task: Task, index: int, sent: list[Request]) -> Task:
        lane = task.lanes[index]
        if lane.waiting or lane.stage is Stage.IDLE or not self._may_go_on(task, lane):
            return task
        stage, kinds = self._after(lane)
        sent += [self.request(task, kind, index) for kind in kinds]
        transaction = -1 if stage is Stage.IDLE else lane.transaction
        return _with(task, index, Lane(lane.epoch, stage, transaction, kinds, lane.is_struck))

    def _may_go_on(self, task: Task, lane: Lane) -> bool:
        """Whether what the other lane does to the transaction before this one allows the next step."""
        before = next((each for each in task.lanes if each.transaction == lane.transaction - 1), None)
        if before is None or before.stage is Stage.IDLE:
            return True
        if lane.stage is Stage.ADDING and self.rules.flushes_before_next_lane:
            return before.stage not in (Stage.OPENING, Stage.ADDING, Stage.SENDING)
        return not (lane.stage is Stage.FLUSHED and self.rules.commits_in_order)

    def _after(self, lane: Lane) -> tuple[Stage, tuple[Kind, ...]]:
        """One transaction, step by step. Offsets that are records go out with, and ahead of, the records."""
        is_given_up = lane.transaction in self.way.given_up
        is_group = self.way.keeps_group_offsets
        has_position = self.rules.position_in_transaction and not is_given_up
        match lane.stage:
            case Stage.OPENING:
                return self._adding(lane.transaction)
            case Stage.ADDING if has_position and not is_group:
                return Stage.SENDING, (Kind.POSITION, Kind.FIRST, Kind.SECOND)
            case Stage.ADDING:
                return Stage.SENDING, (Kind.FIRST, Kind.SECOND)
            case Stage.SENDING:
                return Stage.FLUSHED, ()
            case Stage.FLUSHED if has_position and is_group:
                return Stage.ADDING_GROUP, (Kind.ADD_GROUP,)
            case Stage.ADDING_GROUP:
                return Stage.SENDING_GROUP, (Kind.POSITION,)
            case Stage.FLUSHED | Stage.SENDING_GROUP:
                return Stage.ENDING, (Kind.ABORT if is_given_up else Kind.COMMIT,)
            case Stage.ENDING if not self.rules.position_in_transaction:
                return Stage.WRITING_PLAINLY, (Kind.PLAIN_POSITION,)
            case _:
                return Stage.IDLE, ()

    def _adding(self, transaction: int) -> tuple[Stage, tuple[Kind, ...]]:
        """The coordinator hears of all topics of a small transaction at once."""
        if self.way.keeps_group_offsets or transaction in self.way.given_up or not self.rules.position_in_transaction:
            return Stage.ADDING, (Kind.ADD_DATA,)
        return Stage.ADDING, (Kind.ADD_BOTH,)

    def _maybe_begin(self, task: Task, sent: list[Request]) -> Task:
        """The lanes take turns; nothing begins once a struck one is at its boundary."""
        index = self._next_lane(task)
        lane = task.lanes[index]
        is_over = any(each.is_struck and each.stage is Stage.IDLE for each in task.lanes)
        if task.next >= self.transactions or lane.stage is not Stage.IDLE or is_over:
            return task
        transaction, task = task.next, task._replace(next=task.next + 1)
        if lane.epoch == 0:
            task, opening = self._opening(task, index, Stage.OPENING, transaction)
            sent += opening
            return task
        stage, kinds = self._adding(transaction)
        sent += [Request(kind, index, lane.epoch, transaction) for kind in kinds]
        return _with(task, index, Lane(lane.epoch, stage, transaction, kinds))

    def _next_lane(self, task: Task) -> int:
        return (task.number - 1) % self.lanes if self.is_moved else task.next % self._used(task)

    def _used(self, task: Task) -> int:
        return self.lanes if task.number == 1 or self.later_lanes is None else self.later_lanes

    def _maybe_replace(self, task: Task, sent: list[Request]) -> Step:
        """E5: at the boundary a struck producer is retired, and the other one with it."""
        if any(each.stage is not Stage.IDLE for each in task.lanes) or not any(each.is_struck for each in task.lanes):
            return task, sent
        return self.start(task.number, task.attempt + 1)


def _with(task: Task, index: int, lane: Lane) -> Task:
    return task._replace(lanes=(*task.lanes[:index], lane, *task.lanes[index + 1 :]))
