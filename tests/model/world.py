"""Broker, tasks and a network that loses, delays and repeats: every move that can come next."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from model.broker import COMMITTED, PREPARED, Anomaly, Broker, Coordinator, Kind, Log, Request, decided, handle
from model.task import Phase, Plan, Step, Task


class State(NamedTuple):
    """Everything. `network` is a multiset (sorted) of requests in flight; each may arrive at any time, or never."""

    broker: Broker
    network: tuple[Request, ...]
    tasks: tuple[Task, ...]  # at most two; the last one is current, the other a zombie that does not know it yet
    resends: int
    takeovers: int


_UNFENCED = (Kind.INIT, Kind.PLAIN_POSITION)

Move = tuple[tuple[object, ...], State]  # what happens, in words to be joined


@dataclass(frozen=True)
class World:
    """A plan for the tasks, and how many faults there may be.

    A resend: a client has waited in vain (for an answer that is late or lost) and sends the request again. A takeover:
    a newer start of the task; the older one goes on, stops at any point, or has died: that is all the same from here,
    but for whoever waits for it. `dies`: it is dead, and what it has sent is lost.
    """

    plan: Plan
    resends: int = 1
    takeovers: int = 1
    dies: bool = False

    def start(self) -> State:
        broker = Broker((Coordinator(),) * self.plan.lanes, Log(self.plan.way.next_record(0)))
        task, sent = self.plan.start(1, 0)
        return State(broker, tuple(sent), (task,), self.resends, self.takeovers)

    def is_done(self, state: State) -> bool:
        """Whether all is delivered."""
        return state.broker.positions.visible == self.plan.transactions

    def moves(self, state: State) -> Iterator[Move]:
        """Yield what can happen next. Raises Anomaly, with the move in its text."""
        yield from self._deliveries(state)
        yield from self._markers(state)
        yield from self._readings(state)
        if state.resends:
            yield from self._resends(state)
        if state.takeovers:
            yield self._takeover(state)

    def _deliveries(self, state: State) -> Iterator[Move]:
        """A request arrives. Its answer arrives with it, or is lost while a copy of the request is in flight."""
        previous = None
        for place, request in enumerate(state.network):
            if request == previous:
                continue
            previous = request
            try:
                done = self._handled(state.broker, request)
                if done is None:
                    continue
                broker, is_done = done
            except Anomaly as anomaly:
                raise Anomaly(f"arrives: {request}\n{anomaly}") from None
            what = ("arrives:", request, "is done" if is_done else "is refused")
            network = state.network[:place] + state.network[place + 1 :]
            asking = next((task for task in state.tasks if _waits_for(task, request)), None)
            if asking is None or request in network:
                yield (*what, "unheard"), _without_vain(State(broker, network, *state[2:]))
            if asking is not None:
                step = self._step(state, asking, request, broker, is_done)
                yield what, _after(state, broker, network, asking, step)

    @cached_property
    def _handled(self) -> "Callable[[Broker, Request], tuple[Broker, bool] | None]":
        """What the broker does with a request, judged: the same for many a state of the network and the tasks."""

        @cache
        def handled(broker: Broker, request: Request) -> tuple[Broker, bool] | None:
            done = handle(broker, request, self.plan.way)
            if done is not None:
                self._judge(done[0])
            return done

        return handled

    @cached_property
    def _answered(self) -> "Callable[[Task, Request, int], Step]":
        """What a task does once a request is done: the same for many a state of the broker and the network."""
        return cache(self.plan.answered)

    def _step(self, state: State, asking: Task, request: Request, broker: Broker, is_done: bool) -> Step | None:
        """What a task makes of an answer. Refused, it starts again if it is the current one, else it leaves."""
        if is_done:
            return self._answered(asking, request, broker.ids[request.lane].epoch)
        return self.plan.start(asking.number, asking.attempt + 1) if asking == state.tasks[-1] else None

    def _markers(self, state: State) -> Iterator[Move]:
        for lane, known in enumerate(state.broker.ids):
            if known.status in PREPARED:
                try:
                    broker = decided(state.broker, lane, self.plan.way)
                    self._judge(broker)
                except Anomaly as anomaly:
                    raise Anomaly(f"markers of lane {lane}\n{anomaly}") from None
                yield ("markers of lane", lane), State(broker, *state[1:])

    def _judge(self, broker: Broker) -> None:
        """E1: what is visible is what the committed position covers.

        Behind something undecided a reader is not shown what is decided, in one log more than in the other.
        """
        if any(lane == COMMITTED for lane, _ in (*broker.data.tail, *broker.positions.tail)):
            return
        covered = self.plan.way.next_record(2 * broker.positions.visible)
        if broker.data.visible != covered:
            raise Anomaly(f"torn: {broker.data.visible} records are visible, the position covers {covered}")

    def _readings(self, state: State) -> Iterator[Move]:
        """Steps 6 and 7: who is not current leaves; it is not read while a transaction is open."""
        for task in state.tasks:
            if task.phase is not Phase.READING:
                continue
            if task != state.tasks[-1]:
                yield ("task", task.number, "is not admitted"), _after(state, state.broker, state.network, task, None)
            elif self.plan.is_member and state.broker.generation < task.number:
                yield (
                    ("task", task.number, "joins"),
                    state._replace(broker=state.broker._replace(generation=task.number)),
                )
            elif pending := self._pending(state, task):
                for lane in pending:
                    what = ("task", task.number, "fences lane", lane)
                    yield what, _after(state, state.broker, state.network, task, self.plan.fence(task, lane))
            elif not state.broker.positions.tail or not self.plan.rules.reads_stable:
                position = state.broker.positions.visible
                step = self.plan.positioned(task, position)
                what = ("task", task.number, "reads its position:", position)
                yield what, _after(state, state.broker, state.network, task, step)

    def _pending(self, state: State, task: Task) -> list[int]:
        """Return whose transactions a member ends before it reads its position."""
        rules = self.plan.rules
        if not (self.plan.is_member and rules.fences_by_input and rules.reads_stable):
            return []
        return sorted({lane for lane, _ in state.broker.positions.tail if lane != COMMITTED})

    def _resends(self, state: State) -> Iterator[Move]:
        for task in state.tasks:
            for index, lane in enumerate(task.lanes):
                for kind in lane.waiting:
                    again = self.plan.request(task, kind, index)
                    if kind is Kind.INIT:
                        again = Request(kind, index, task.incarnation, -1)
                    yield from self._resend(state, task, again)

    def _resend(self, state: State, task: Task, again: Request) -> Iterator[Move]:
        rules, lane = self.plan.rules, task.lanes[again.lane]
        network = tuple(sorted((*state.network, again), key=_order))
        fewer = State(*state[:3], state.resends - 1, state.takeovers)
        struck = lane._replace(is_struck=lane.is_struck or again.kind in rules.strikes)
        lanes = (*task.lanes[: again.lane], struck, *task.lanes[again.lane + 1 :])
        step: Step = task._replace(lanes=lanes), []
        what = ("task", task.number, "gets no answer and")
        yield (*what, "sends again:", again), _after(fewer, state.broker, network, task, step)
        if again.kind is not Kind.COMMIT:
            return
        if rules.repeats_unknown_commits:
            yield (*what, "commits again"), _after(fewer, state.broker, network, task, (task, []))
        else:  # E6: unknown
            again_from = self.plan.start(task.number, task.attempt + 1) if task == state.tasks[-1] else None
            yield (*what, "gives up"), _after(fewer, state.broker, state.network, task, again_from)

    def _takeover(self, state: State) -> Move:
        older = state.tasks[-1]
        newer, sent = self.plan.start(older.number + 1, 0)
        left = () if self.dies else state.network
        network = tuple(sorted((*left, *sent), key=_order))
        tasks = (newer,) if self.dies else (older, newer)
        what = ("task", newer.number, "takes over from" if not self.dies else "replaces the dead", older.number)
        return what, State(state.broker, network, tasks, state.resends, state.takeovers - 1)


def _after(state: State, broker: Broker, network: tuple[Request, ...], task: Task, step: Step | None) -> State:
    """The state once `task` has taken a step, or has left."""
    if step is None:
        tasks = tuple(each for each in state.tasks if each != task)
    else:
        tasks = tuple(step[0] if each == task else each for each in state.tasks)
        if step[1]:
            network = tuple(sorted((*network, *step[1]), key=_order))
    return _without_vain(State(broker, network, tasks, state.resends, state.takeovers))


def _without_vain(state: State) -> State:
    """Forget requests of an epoch that has passed and that nobody waits for: to refuse them changes nothing."""
    ids, tasks = state.broker.ids, state.tasks
    network = [
        request
        for request in state.network
        if request.epoch == ids[request.lane].epoch
        or request.kind in _UNFENCED
        or any(_waits_for(task, request) for task in tasks)
    ]
    return state if len(network) == len(state.network) else State(state.broker, tuple(network), *state[2:])


@cache
def _order(request: Request) -> tuple[str, int, str, int]:
    return request.kind, request.lane, str(request.epoch), request.transaction


def _waits_for(task: Task, request: Request) -> bool:
    lane = task.lanes[request.lane]
    if request.kind not in lane.waiting:
        return False
    if request.kind is Kind.INIT:
        return bool(request.epoch == task.incarnation)
    return (request.epoch, request.transaction) == (lane.epoch, lane.transaction)
