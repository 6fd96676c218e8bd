"""A query's driver, its transactional id, and Spark's commit log: a micro-batch is a transaction of two records.

A `World` of its own for `search`. A driver takes the id, reads the decisions, sends both records, the decision and the
end, and notes the batch in Spark's commit log. Requests may be late or lost; drivers may die or be zombies, which is
the same from here: a driver need not go on. The coordinator keeps the epoch over the end of a transaction, as in the
older protocol, so that a late request may still be taken.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from model.broker import Anomaly


class Kind(StrEnum):
    INIT = "InitProducerId"
    FIRST = "Produce(first record)"
    SECOND = "Produce(second record)"
    DECISION = "Produce(decision)"
    END = "EndTxn(commit)"
    PLAIN = "decision, in no transaction"


class Decides(StrEnum):
    """When the decision about a batch is written."""

    INSIDE = "in its transaction"
    BEFORE = "before its end, outside of it"
    AFTER = "after its end, outside of it"


@dataclass(frozen=True)
class Rules:
    """What a driver keeps to. Each is switched off by some test, to see what it is good for."""

    decides: Decides = Decides.INSIDE
    reads_after_id: bool = True
    reads_committed: bool = True
    takes_over_after_loss: bool = True
    compares: bool = True  # whether a batch is skipped only if the decision is about the same offsets


class Batch(NamedTuple):
    """A micro-batch, and which of the checkpoints that share an id has planned it."""

    number: int
    checkpoint: int = 0


_NONE = Batch(-1)
Entry = tuple[Kind, Batch]


class Request(NamedTuple):
    kind: Kind
    epoch: int  # of an INIT: who asks, the driver's number and attempt in one
    batch: Batch

    def __str__(self) -> str:
        return f"{self.kind} of batch {self.batch.number}, {self.epoch}"


class Broker(NamedTuple):
    """`open` is the transaction, `taken` what the partitions know of this epoch, `visible` is sorted."""

    epoch: int = 0
    open: tuple[Entry, ...] = ()
    taken: frozenset[Entry] = frozenset()
    visible: tuple[Entry, ...] = ()
    decided: Batch = _NONE


class Phase(StrEnum):
    TAKING = "taking the id"
    READING = "reading the decisions"
    SENDING = "sending"
    DECIDING = "deciding"
    ENDING = "ending"
    DECIDING_PLAINLY = "deciding outside"
    LOGGING = "writing the commit log"


class Driver(NamedTuple):
    """`known` is the decision that it has read or made; `incarnation` changes with each take-over."""

    incarnation: int
    checkpoint: int
    batch: int
    phase: Phase
    epoch: int = 0
    known: Batch = _NONE
    waiting: tuple[Kind, ...] = ()
    retries: int = 0  # of this batch

    @property
    def own(self) -> Batch:
        return Batch(self.batch, self.checkpoint)


class State(NamedTuple):
    broker: Broker
    network: tuple[Request, ...]
    drivers: tuple[Driver, ...]
    logs: tuple[int, ...]  # of each checkpoint: how many batches are in Spark's commit log
    losses: int
    starts: int
    incarnations: int


Move = tuple[tuple[object, ...], State]


@dataclass(frozen=True)
class QueryWorld:
    """How many batches there are, and how many faults may come: lost answers, and other drivers.

    With `is_copied` the other driver has a copy of the checkpoint, made when it starts. A batch that is visible more
    than `most_copies` times is an anomaly; a higher number shows what else goes wrong.
    """

    rules: Rules = Rules()
    batches: int = 2
    losses: int = 1
    starts: int = 1
    is_copied: bool = False
    most_copies: int = 1

    def start(self) -> State:
        return self._with_driver(State(Broker(), (), (), (0, 0), self.losses, self.starts, 0), 0)

    def is_done(self, state: State) -> bool:
        return max(state.logs) >= self.batches

    def moves(self, state: State) -> Iterator[Move]:
        """Yield what can happen next. Raises Anomaly."""
        yield from self._deliveries(state)
        for driver in state.drivers:
            if driver.phase is Phase.READING:
                yield from self._reading(state, driver)
            elif driver.phase is Phase.LOGGING:
                yield self._logging(state, driver)
            elif driver.waiting and state.losses:
                yield from self._loss(state._replace(losses=state.losses - 1), driver)
        if state.starts:
            yield self._another(state._replace(starts=state.starts - 1))

    def _deliveries(self, state: State) -> Iterator[Move]:
        for place, request in enumerate(state.network):
            broker, is_done = _handled(state.broker, request, self.most_copies)
            after = state._replace(broker=broker, network=state.network[:place] + state.network[place + 1 :])
            asking = next((driver for driver in state.drivers if _waits_for(driver, request)), None)
            what = ("arrives:", request, "is done" if is_done else "is refused")
            if asking is None:
                yield what, after
            elif is_done:
                yield what, self._answered(after, asking, request)
            else:
                yield what, self._retrying(after, asking)

    def _answered(self, state: State, driver: Driver, request: Request) -> State:
        waiting = tuple(kind for kind in driver.waiting if kind is not request.kind)
        after = driver._replace(waiting=waiting)
        if request.kind is Kind.INIT:
            after = after._replace(epoch=state.broker.epoch)
            if self.rules.reads_after_id:
                return _moved(state, driver, after._replace(phase=Phase.READING))
            return self._run(state, driver, after)
        return _moved(state, driver, after) if waiting else self._next(state, driver, after)

    def _next(self, state: State, driver: Driver, after: Driver) -> State:
        """Go on when all that was sent has been answered."""
        is_inside = self.rules.decides is Decides.INSIDE
        if driver.phase is Phase.SENDING and is_inside:
            return _sent(state, driver, after._replace(phase=Phase.DECIDING), Kind.DECISION)
        if driver.phase is Phase.SENDING and self.rules.decides is Decides.BEFORE:
            return _sent(state, driver, after._replace(phase=Phase.DECIDING_PLAINLY), Kind.PLAIN)
        if driver.phase is Phase.ENDING and self.rules.decides is Decides.AFTER:
            return _sent(state, driver, after._replace(phase=Phase.DECIDING_PLAINLY), Kind.PLAIN)
        is_before = driver.phase is Phase.DECIDING_PLAINLY and self.rules.decides is Decides.BEFORE
        if driver.phase in (Phase.SENDING, Phase.DECIDING) or is_before:
            return _sent(state, driver, after._replace(phase=Phase.ENDING), Kind.END)
        return _moved(state, driver, after._replace(phase=Phase.LOGGING, known=driver.own))

    def _run(self, state: State, driver: Driver, after: Driver) -> State:
        """Skip the batch if it is decided, else send it."""
        if after.known.number < after.batch:
            return _sent(state, driver, after._replace(phase=Phase.SENDING), Kind.FIRST, Kind.SECOND)
        if self.rules.compares and after.known.checkpoint != after.checkpoint:
            return _moved(state, driver, None)  # refused: the decision is about other offsets
        return _moved(state, driver, after._replace(phase=Phase.LOGGING))

    def _reading(self, state: State, driver: Driver) -> Iterator[Move]:
        """A read_committed reader waits for the transaction that is open in the decisions' topic."""
        found = [batch for kind, batch in state.broker.open if kind is Kind.DECISION]
        if self.rules.reads_committed and found:
            return
        *_, known = state.broker.decided, *found
        what = ("driver", driver.incarnation, "reads the decision", known.number)
        after = driver._replace(known=known)
        if self.rules.reads_after_id:
            yield what, self._run(state, driver, after)
        else:
            yield what, self._asking(state, driver, after)

    def _logging(self, state: State, driver: Driver) -> Move:
        what = ("driver", driver.incarnation, "notes batch", driver.batch)
        if state.logs[driver.checkpoint] > driver.batch:
            return (*what, "which another driver has noted"), _moved(state, driver, None)
        for kind in (Kind.FIRST, Kind.SECOND):
            if (kind, driver.own) not in state.broker.visible:
                raise Anomaly(f"batch {driver.batch} is skipped: it is noted, and its {kind} is not visible")
        logs = [count + (place == driver.checkpoint) for place, count in enumerate(state.logs)]
        state = state._replace(logs=(logs[0], logs[1]))
        if driver.batch + 1 >= self.batches:
            return what, _moved(state, driver, None)
        after = driver._replace(batch=driver.batch + 1, retries=0)
        if driver.known == driver.own:  # a producer is kept if it has decided the batch before
            return what, self._run(state, driver, after)
        return what, self._taking(state, driver, after)

    def _loss(self, state: State, driver: Driver) -> Iterator[Move]:
        """There is no answer: the request may still be on its way."""
        what = ("driver", driver.incarnation, "gets no answer and")
        yield (*what, "takes the id over"), self._retrying(state, driver)
        if driver.waiting == (Kind.END,) and not self.rules.takes_over_after_loss:
            again = Request(Kind.END, driver.epoch, driver.own)
            yield (*what, "ends again"), state._replace(network=tuple(sorted((*state.network, again))))

    def _another(self, state: State) -> Move:
        if not self.is_copied:
            return ("another driver starts",), self._with_driver(state, 0)
        state = state._replace(logs=(state.logs[0], state.logs[0]))
        return ("another driver starts on a copy",), self._with_driver(state, 1)

    def _with_driver(self, state: State, checkpoint: int) -> State:
        if state.logs[checkpoint] >= self.batches:
            return state
        driver = Driver(-1, checkpoint, state.logs[checkpoint], Phase.TAKING)
        return self._taking(state._replace(drivers=(*state.drivers, driver)), driver)

    def _retrying(self, state: State, driver: Driver) -> State:
        """An error is settled by taking the id over once; the next one of the same batch ends the query."""
        if driver.retries:
            return _moved(state, driver, None)
        return self._taking(state, driver, driver._replace(retries=1))

    def _taking(self, state: State, driver: Driver, after: Driver | None = None) -> State:
        """Begin with a batch: take the id, then read; or the other way round."""
        state = state._replace(incarnations=state.incarnations + 1)
        after = (after or driver)._replace(incarnation=state.incarnations, waiting=(), known=_NONE)
        if self.rules.reads_after_id:
            return self._asking(state, driver, after)
        return _moved(state, driver, after._replace(phase=Phase.READING))

    def _asking(self, state: State, driver: Driver, after: Driver) -> State:
        after = after._replace(phase=Phase.TAKING, epoch=after.incarnation)
        return _sent(state, driver, after, Kind.INIT)


def _handled(broker: Broker, request: Request, most_copies: int) -> tuple[Broker, bool]:
    """Return what the broker is afterwards and whether it did as asked. Raises Anomaly."""
    if request.kind is Kind.INIT:
        return broker._replace(epoch=broker.epoch + 1, open=(), taken=frozenset()), True
    if request.kind is Kind.PLAIN:
        _judge(broker, {request.batch}, most_copies)
        return broker._replace(decided=request.batch), True
    if request.epoch != broker.epoch:
        return broker, False
    entry = request.kind, request.batch
    if request.kind is not Kind.END:
        if entry in broker.taken:  # a sequence that the partition knows
            return broker, True
        return broker._replace(open=(*broker.open, entry), taken=broker.taken | {entry}), True
    *_, decided = broker.decided, *(batch for kind, batch in broker.open if kind is Kind.DECISION)
    records = [each for each in broker.open if each[0] is not Kind.DECISION]
    ended = broker._replace(open=(), visible=tuple(sorted((*broker.visible, *records))), decided=decided)
    _judge(ended, {batch for _, batch in broker.open}, most_copies)
    return ended, True


def _judge(broker: Broker, ended: set[Batch], most_copies: int) -> None:
    """What is decided, or of which a part is visible, is visible whole, and once."""
    counts = Counter(broker.visible)
    for batch in ended:
        first, second = counts[Kind.FIRST, batch], counts[Kind.SECOND, batch]
        if max(first, second) > most_copies:
            raise Anomaly(f"batch {batch.number} is doubled")
        if first != second or not first:
            raise Anomaly(f"batch {batch.number} is half-committed: {first} and {second} of its records are visible")


def _waits_for(driver: Driver, request: Request) -> bool:
    if request.kind not in driver.waiting or request.batch != driver.own:
        return False
    return request.epoch == driver.epoch


def _sent(state: State, driver: Driver, after: Driver, *kinds: Kind) -> State:
    sent = [Request(kind, after.epoch, after.own) for kind in kinds]
    network = tuple(sorted((*state.network, *sent)))
    return _moved(state._replace(network=network), driver, after._replace(waiting=kinds))


def _moved(state: State, driver: Driver, after: Driver | None) -> State:
    """Put a driver in the place of itself; None: it has ended."""
    places = [after if each == driver else each for each in state.drivers]
    drivers = tuple(each for each in places if each is not None)
    network = [each for each in state.network if _matters(state.broker, drivers, each)]
    return state._replace(drivers=drivers, network=tuple(network))


def _matters(broker: Broker, drivers: tuple[Driver, ...], request: Request) -> bool:
    """To refuse a request of a past epoch that no driver waits for changes nothing."""
    is_fenced = request.kind not in (Kind.INIT, Kind.PLAIN) and request.epoch < broker.epoch
    return not is_fenced or any(_waits_for(driver, request) for driver in drivers)
