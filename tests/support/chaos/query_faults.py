"""Faults of streaming queries at chosen requests of a micro-batch's transaction, seen by a proxy at their sink."""

import random
import signal
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from fencepost.testing import eventually
from support.chaos import wire
from support.chaos.dying_source import Dies, flag
from support.chaos.processes import owner_of
from support.chaos.query_campaign import WITHIN_S, QueryCampaign
from support.chaos.query_program import QUERIES, SPARKS_OWN
from support.proxy import Action, ApiKey, KafkaProxy, Request, Rule

_ANY = 1 << 30
_FIRST_FLEXIBLE_PRODUCE = 9
_CLIENT_ID_AT = 12  # after size, key, version and number


class Step(Enum):
    """A request of a micro-batch's transaction."""

    DATA = "records"
    DECISION = "decision"
    END = "EndTxn"


class Spot(Enum):
    """Where a query is held."""

    SEND = (Step.DATA, Action.HOLD, "before its records")
    ENDED = (Step.END, Action.HOLD_ANSWER, "after EndTxn, before Spark's commit log")
    DECIDE = (Step.DECISION, Action.HOLD, "before the decision")
    END = (Step.END, Action.HOLD, "between decision and EndTxn")


# What holds the decisions' topic open comes last: a query that takes its id over must read it.
_ORDER = list(Spot)


class Kind(Enum):
    """What happens."""

    ANSWER_LOST = "an answer is lost"
    REQUEST_LOST = "a request is lost"
    TASK = "tasks die"
    COMMITTER = "committing processes are killed"
    DRIVER = "the driver is killed"
    JVM = "the driver's JVM is killed"
    STOPPED = "the driver stands still, and wakes up when another one has its checkpoint"


_ENDS_DRIVER = (Kind.DRIVER, Kind.JVM, Kind.STOPPED)


def plan(seed: int, passes: int) -> list[Kind]:
    """Return rounds, of which each hits every query."""
    chosen = random.Random(seed)
    rounds: list[Kind] = []
    for _ in range(passes):
        one = [*Kind, Kind.TASK]
        rounds += chosen.sample(one, len(one))
    return rounds


def short_plan(seed: int) -> list[Kind]:
    """Return rounds of which one ends a driver, and one starts all queries again: these take longest."""
    chosen = random.Random(seed)
    lost = [Kind.ANSWER_LOST, Kind.REQUEST_LOST, chosen.choice((Kind.ANSWER_LOST, Kind.REQUEST_LOST))]
    one = [*lost, *[Kind.TASK] * 3, Kind.COMMITTER, chosen.choice(_ENDS_DRIVER)]
    return chosen.sample(one, len(one))


class QueryWire:
    """Finds the requests of a query: by its topic, and by the transactional ids that have written to that."""

    def __init__(self, proxy: KafkaProxy, topic: str, queries: Sequence[str]) -> None:
        self.proxy = proxy
        self._topics = {query: f"{topic}-{query}" for query in queries}
        self._ids: dict[str, set[str]] = defaultdict(set)
        proxy.on(ApiKey.PRODUCE, Action.PASS, _ANY, self._learn)

    def on(self, query: str, step: Step, action: Action) -> Rule:
        """Apply an action to the next such request of a query."""
        api_key = ApiKey.END_TXN if step is Step.END else ApiKey.PRODUCE
        return self.proxy.on(api_key, action, 1, lambda request: self._is(query, step, request))

    def _is(self, query: str, step: Step, request: Request) -> bool:
        if step is Step.DATA:
            return wire.names(request, self._topics[query])
        if step is Step.END:
            return wire.is_commit(request, list(self._ids[query]))
        return wire.owner(request, list(self._ids[query])) is not None and not wire.names(request, self._topics[query])

    def _learn(self, request: Request) -> bool:
        """Note whose id a request has. Never matches."""
        found = _transactional_id(request)
        for query, topic in self._topics.items():
            if found is not None and wire.names(request, topic):
                self._ids[query].add(found)
        return False


def _transactional_id(request: Request) -> str | None:
    """Return the first field of a Produce request."""
    version, size = (
        struct.unpack_from(">h", request.frame, 6)[0],
        struct.unpack_from(">h", request.frame, _CLIENT_ID_AT)[0],
    )
    at = _CLIENT_ID_AT + 2 + max(0, size)
    if version >= _FIRST_FLEXIBLE_PRODUCE:
        length, at = request.frame[at + 1] - 1, at + 2  # after the tags, of which there are none
    else:
        length, at = struct.unpack_from(">h", request.frame, at)[0], at + 2
    return request.frame[at : at + length].decode() if length > 0 else None


class QueryFaults:
    """Carries out rounds. `hits` counts faults: where several queries are held, each is one, at its own request."""

    def __init__(self, campaign: QueryCampaign, wire_: QueryWire) -> None:
        self.hits = 0
        self._campaign = campaign
        self._wire = wire_
        self._turn = campaign.chosen.randrange(len(Spot))

    def run(self, rounds: Sequence[Kind]) -> None:
        left = sum(kind in _ENDS_DRIVER for kind in rounds)
        for number, kind in enumerate(rounds, 1):
            if left:
                self._campaign.prepare()
            left -= kind in _ENDS_DRIVER
            began_s = time.monotonic()
            print(f"round {number}: {kind.value}", flush=True)
            self._acts[kind](self, kind)
            print(f"round {number} took {time.monotonic() - began_s:.1f} s; {self.hits} faults", flush=True)

    # rounds that the driver lives through

    def _lose(self, kind: Kind) -> None:
        action = Action.ANSWER_LOST if kind is Kind.ANSWER_LOST else Action.RESET
        steps = dict(zip(QUERIES, self._campaign.chosen.sample(list(Step), len(QUERIES)), strict=True))
        rules = [self._wire.on(query, step, action) for query, step in steps.items()]
        for rule in rules:
            rule.await_met(within_s=WITHIN_S)
        self._wire.proxy.forget(*rules)
        self._note(kind, {query: step.value for query, step in steps.items()})

    def _kill_tasks(self, kind: Kind) -> None:
        dies = dict(zip(QUERIES, self._campaign.chosen.sample(list(Dies), len(QUERIES)), strict=True))
        flags = [flag(f"{self._campaign.given.directory}/die-{query}", when) for query, when in dies.items()]
        for each in flags:
            each.touch()
        eventually(lambda: not any(each.exists() for each in flags), within_s=WITHIN_S)
        self._note(kind, {query: when.value for query, when in dies.items()})

    def _kill_committers(self, kind: Kind) -> None:
        spots = self._next_spots()
        holds = self._hold(spots)
        for rule in holds.values():
            owner_of(rule.requests[0].client_port, self._wire.proxy.port).kill()
        self._let_go(kind, spots, holds)

    # rounds that end a driver

    def _kill_driver(self, kind: Kind) -> None:
        spots, driver = self._next_spots(), self._campaign.driver
        holds = self._hold(spots, with_sparks=True)
        if kind is Kind.JVM:
            driver.processes()
            driver.jvm().kill()
        else:
            driver.kill()
        self._campaign.start()
        self._let_go(kind, spots, holds)
        driver.kill()

    def _start_another(self, kind: Kind) -> None:
        """The older one goes on when the newer one has written all; then the older one is killed."""
        spots, older = self._next_spots(), self._campaign.driver
        holds = self._hold(spots, with_sparks=True)
        older.signal(signal.SIGSTOP)
        self._wire.proxy.forget(*holds.values())
        self._campaign.start()
        self._campaign.recover()
        for rule in holds.values():
            rule.release()
        older.signal(signal.SIGCONT)
        eventually(lambda: len(older.failures) >= len(spots), within_s=WITHIN_S)
        self._note(kind, {query: spot.value[2] for query, spot in spots.items()})
        older.kill()
        self._campaign.recover()

    def _next_spots(self) -> dict[str, Spot]:
        """Return where queries are held, each somewhere else, and elsewhere in each round."""
        spots = [list(Spot)[(self._turn + n) % len(Spot)] for n in range(len(QUERIES))]
        self._turn += 1
        return dict(zip(QUERIES, spots, strict=True))

    def _hold(self, spots: Mapping[str, Spot], *, with_sparks: bool = False) -> dict[str, Rule]:
        """Hold each query. Spark's own sink is held when the broker has its records."""
        holds: dict[str, Rule] = {}
        for query in sorted(QUERIES, key=lambda query: _ORDER.index(spots[query])):
            step, action, _ = spots[query].value
            holds[query] = self._wire.on(query, step, action)
            holds[query].await_met(within_s=WITHIN_S)
            if action is Action.HOLD_ANSWER:
                holds[query].await_answered(within_s=WITHIN_S)
        if with_sparks and SPARKS_OWN in self._campaign.given.queries:  # last: its producer sends again after 30 s
            holds[SPARKS_OWN] = self._wire.on(SPARKS_OWN, Step.DATA, Action.HOLD_ANSWER)
            holds[SPARKS_OWN].await_answered(within_s=WITHIN_S)
        return holds

    def _let_go(self, kind: Kind, spots: Mapping[str, Spot], holds: Mapping[str, Rule]) -> None:
        """What is withheld from the dead is lost, or comes when their successors have written all."""
        self._wire.proxy.forget(*holds.values())
        late = [rule for rule in holds.values() if rule.action is Action.HOLD and self._campaign.chosen.random() < 0.5]
        for rule in holds.values():
            if rule not in late:
                rule.discard()
        self._note(kind, {query: spot.value[2] for query, spot in spots.items()})
        for rule in late:
            rule.release()

    def _note(self, kind: Kind, phases: Mapping[str, str]) -> None:
        took = self._campaign.recover()
        for query, phase in phases.items():
            self._campaign.note(kind.value, f"{query}: {phase}", {query: took[query]})
        self.hits += len(phases)

    _acts: Mapping[Kind, Callable[["QueryFaults", Kind], None]] = {
        Kind.ANSWER_LOST: _lose,
        Kind.REQUEST_LOST: _lose,
        Kind.TASK: _kill_tasks,
        Kind.COMMITTER: _kill_committers,
        Kind.DRIVER: _kill_driver,
        Kind.JVM: _kill_driver,
        Kind.STOPPED: _start_another,
    }
