"""Faults of a broker that the other nodes do not reach, or that hangs, while a worker's connectors run."""

import functools
import json
import os
import random
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from confluent_kafka import Producer

from fencepost.testing import eventually
from fencepost.testing.verdict import Verdict, judge
from support.brokers import COORDINATORS
from support.chaos.cut_flows import FED_LINES, HERE, PARTITIONS, PROGRAM, SPARK, THERE, Flow, Program
from support.chaos.evidence import Evidence
from support.cut_brokers import BROKERS, CutBrokers
from support.feed import Feed
from support.worker import Worker

WITHIN_S = 300.0  # for the busiest of machines; what it took is printed, and in the evidence
_BLOCK, _PER_S = 20, 100


class State(Enum):
    """How a broker is."""

    WELL = "healed"
    CUT = "cut off"
    HANG = "hangs"
    BOTH = "cut off, and hangs"

    @property
    def is_cut(self) -> bool:
        return self in (State.CUT, State.BOTH)

    @property
    def hangs(self) -> bool:
        return self in (State.HANG, State.BOTH)


class Restart(Enum):
    """What is killed once the broker is so; it starts again by itself, or is started again."""

    NOTHING = "nothing"
    WORKER = "a worker"
    SLOT = "a slot"


class Led(Enum):
    """What the broker leads before."""

    DATA = "inputs and outputs"
    COORDINATORS = "groups and transactions"
    WORKER = "the worker's topics"
    ALL = "all"


@dataclass(frozen=True)
class Fault:
    """One fault: the broker becomes so, and then something is restarted."""

    state: State
    restart: Restart
    at: str
    """Which worker is hit."""

    def __str__(self) -> str:
        again = "" if self.restart is Restart.NOTHING else f", restart of {self.restart.value} ({self.at})"
        return f"{self.state.value}{again}"


@dataclass(frozen=True)
class Round:
    """One broker that leads something; faults of it, of which the last one is that it is well again."""

    broker: int
    led: Led
    first: int
    """The broker that is the first one of `bootstrap.servers` of a worker that is started."""
    faults: tuple[Fault, ...]


_FAULTS_A_ROUND = 6


def plan(seed: int, faults: int, workers: Sequence[str]) -> list[Round]:
    """Return as many rounds as have so many faults in all; `workers` are hit."""
    chosen = random.Random(seed)
    rounds: list[Round] = []
    led: list[Led] = []
    while _FAULTS_A_ROUND * len(rounds) < faults:
        led = led or chosen.sample(list(Led), len(Led))
        broker = chosen.choice(BROKERS)
        first = chosen.choice((broker, chosen.choice(BROKERS)))
        rounds.append(Round(broker, led.pop(), first, tuple(_faults(chosen, workers))))
    return rounds


def _faults(chosen: random.Random, workers: Sequence[str]) -> Iterator[Fault]:
    """Yield each state, two of them once more with a restart, and that the broker is well again."""
    ill, every = [State.CUT, State.HANG, State.BOTH], list(Restart)
    for state in chosen.sample(ill, 3):
        yield _fault(chosen, state, every, workers)
    for state in chosen.sample(ill, 2):
        yield _fault(chosen, state, [Restart.WORKER, Restart.SLOT], workers)
    yield _fault(chosen, State.WELL, every, workers)


def _fault(chosen: random.Random, state: State, restarts: Sequence[Restart], workers: Sequence[str]) -> Fault:
    restart = chosen.choice(restarts)
    with_slots = [worker for worker in workers if worker not in (PROGRAM, SPARK)]  # whose tasks are in slots
    return Fault(state, restart, chosen.choice(with_slots if restart is Restart.SLOT else workers))


class CutCampaign:
    """Workers and their connectors, what feeds them, and the brokers."""

    def __init__(
        self,
        brokers: CutBrokers,
        there: str,
        workers: Mapping[str, Worker | Program],
        flows: Sequence[Flow],
        topics: Sequence[str],
        evidence: Evidence,
    ) -> None:
        """`there` is another cluster; `topics` are those of the flows, the one that is fed first."""
        self._brokers = brokers
        self._workers = workers
        self._flows = flows
        self._topics = topics
        self._evidence = evidence
        self._feeds: dict[str, Feed] = {}
        self._state = State.WELL
        self._producers = {"topic": _producer(brokers.bootstrap_servers), "there": _producer(there)}

    def begin(self) -> None:
        """Create the connectors, feed them, and wait until each has shown something."""
        for flow in self._flows:
            worker = self._workers[flow.at]
            if isinstance(worker, Worker):
                answer = worker.create(flow.name, flow.config)
                assert answer.status_code == 201, answer.text
        feeds = {
            "topic": functools.partial(self._write_records, "topic"),
            "there": functools.partial(self._write_records, "there"),
            "lines": self._write_lines,
        }
        wanted = {flow.reads for flow in self._flows}
        self._feeds = {name: Feed(write, block=_BLOCK, per_s=_PER_S) for name, write in feeds.items() if name in wanted}
        print("begun:", _figures(self._await_marks(self._marks(), time.monotonic())), flush=True)

    def carry_out(self, seed: int, faults: int) -> None:
        rounds = plan(seed, faults, list(self._workers))
        for number, each in enumerate(rounds, 1):
            self._brokers.await_well()
            self._place(each)
            print(
                f"round {number}: broker {each.broker} leads {each.led.value}; broker {each.first} is first", flush=True
            )
            for fault in each.faults:
                self._suffer(each, fault)

    def _place(self, each: Round) -> None:
        topics: Mapping[Led, Sequence[str]] = {
            Led.DATA: self._topics,
            Led.COORDINATORS: COORDINATORS,
            Led.WORKER: [
                worker.properties[f"{kind}.storage.topic"]
                for at, worker in self._workers.items()
                for kind in ("config", "offset", "status")
                if at != THERE and isinstance(worker, Worker)
            ],
        }
        chosen = {t for led, found in topics.items() if each.led in (led, Led.ALL) for t in found}
        others = [broker for broker in BROKERS if broker != each.broker]
        places = [
            place for place in self._brokers.leaders_by(each.broker) if any(place[0] in t for t in topics.values())
        ]
        self._brokers.place(
            {place: each.broker if place[0] in chosen else others[n % 2] for n, place in enumerate(sorted(places))}
        )
        self._await_marks(self._marks(), time.monotonic())

    def _suffer(self, each: Round, fault: Fault) -> None:
        began_s = time.monotonic()
        self._become(each.broker, fault.state)
        worker = self._workers[fault.at]
        if fault.restart is Restart.WORKER:
            worker.kill()
            if fault.at != THERE:
                servers = self._brokers.bootstrap_servers.split(",")
                worker.properties["bootstrap.servers"] = ",".join(servers[each.first - 1 :] + servers[: each.first - 1])
            worker.start(WITHIN_S)
        elif fault.restart is Restart.SLOT and isinstance(worker, Worker):
            _kill_a_slot(worker)
        marks = self._marks()
        workers = [one for one in self._workers.values() if isinstance(one, Worker)]
        with ThreadPoolExecutor(2) as pool:
            asked, changed = pool.submit(lambda: max(map(_asked, workers))), pool.map(_changed, workers)
            took = self._await_marks(marks, began_s)
            asked_s, changed_s = asked.result(), max(changed)
        print(f"  {fault}: {_figures(took)}; REST: asked {asked_s:.1f}, changed {changed_s:.1f} s", flush=True)
        self._evidence.fault(
            fault.state.value, fault.restart.value, None, max(took.values()), led=each.led.value, flows=took
        )

    def _become(self, broker: int, state: State) -> None:
        before, self._state = self._state, state
        if state.is_cut and not before.is_cut:
            self._brokers.cut(broker)
        if state.hangs and not before.hangs:
            self._brokers.hang(broker)
        # Only now: one that wakes up to be cut off, for example, is not to hear anything in between.
        if before.is_cut and not state.is_cut:
            self._brokers.heal(broker)
        if before.hangs and not state.hangs:
            self._brokers.wake(broker)
        if state is not State.WELL:
            self._brokers.await_deposed(broker)

    def _marks(self) -> dict[str, set[int]]:
        """Return for each flow numbers that come after all that was fed until now."""
        found = {}
        for flow in self._flows:
            feed = self._feeds.get(flow.reads)
            last = max(flow.shown(), default=0) + 100 if feed is None else feed.sent + 2 * _BLOCK
            found[flow.name] = set(range(last - PARTITIONS + 1, last + 1))
        return found

    def _await_marks(self, marks: Mapping[str, set[int]], began_s: float) -> dict[str, float]:
        """Wait until each flow has shown its numbers. Returns how long after `began_s` that was."""
        took: dict[str, float] = {}

        def are_shown() -> bool:
            for feed in self._feeds.values():
                assert feed.sent >= 0  # or raises why no more is written
            for worker in self._workers.values():
                if isinstance(worker, Program):
                    worker.check()
            for flow in self._flows:
                if flow.name not in took and marks[flow.name] <= set(flow.shown()):
                    took[flow.name] = time.monotonic() - began_s
            return len(took) == len(self._flows)

        try:
            eventually(are_shown, within_s=WITHIN_S, every_s=0.1)
        except AssertionError:
            self._tell(marks, took)
            raise
        return took

    def _tell(self, marks: Mapping[str, set[int]], took: Mapping[str, float]) -> None:
        print("  went on:", _figures(took), {name: feed.sent for name, feed in self._feeds.items()})
        for flow in self._flows:
            if flow.name not in took:
                worker = self._workers[flow.at]
                status = worker.status(flow.name) if isinstance(worker, Worker) else {}
                print(f"  {flow.name} is at {max(flow.shown(), default=0)}, {marks[flow.name]} wanted: {status}")
        for at in {flow.at for flow in self._flows if flow.name not in took}:
            print(at, *self._workers[at].newest_log_text().splitlines()[-40:], sep="\n", flush=True)

    def verdicts(self) -> dict[str, Verdict]:
        """Stop feeding, wait until all is shown, and compare."""
        sent = {name: feed.stop() for name, feed in self._feeds.items()}
        self._evidence.records = sum(sent.values())
        return {flow.name: self._verdict(flow, sent.get(flow.reads)) for flow in self._flows}

    def close(self) -> None:
        """Stop feeding, and close what feeds: it would look for the brokers until the process ends."""
        for producer in self._producers.values():
            producer.purge()
        for feed in self._feeds.values():
            with suppress(AssertionError):  # it could not write, which the test has said
                feed.stop()
        for producer in self._producers.values():
            producer.close()

    def note(self, verdict: str) -> None:
        """Have the evidence hold the verdict."""
        self._evidence.verdict = verdict

    def _verdict(self, flow: Flow, sent: int | None) -> Verdict:
        if sent is None:
            sent = max(flow.shown())  # it never ends
        numbers = range(1, sent + 1)
        try:
            eventually(lambda: len(set(flow.shown())) >= sent, within_s=WITHIN_S)
        except AssertionError as error:
            print(f"{flow.name}: {error}")
        expected = {p: [n for n in numbers if n % PARTITIONS == p] for p in range(PARTITIONS)}
        shown = [n for n in flow.shown() if n <= sent]
        if not flow.is_exact:
            print(f"{flow.name}: {len(shown) - len(set(shown))} more than once, as it is at least once")
            shown = sorted(set(shown))
        return judge(expected, [(n % PARTITIONS, n) for n in shown])

    def _write_records(self, name: str, numbers: range) -> bool:
        producer = self._producers[name]
        errors: list[object] = []
        note = functools.partial(lambda error, _: errors.append(error) if error else None)
        for n in numbers:
            producer.produce(self._topics[0], _record(n), partition=n % PARTITIONS, on_delivery=note)
        assert producer.flush(WITHIN_S) == 0
        assert not errors, errors
        return True

    def _write_lines(self, numbers: range) -> bool:
        with (self._workers[HERE].directory / FED_LINES).open("ab") as file:
            file.write(b"".join(_record(n) + b"\n" for n in numbers))
        return True


def _kill_a_slot(worker: Worker) -> None:
    slots: dict[str, int] = eventually(worker.slots, within_s=WITHIN_S)  # one may be on its way
    os.kill(min(slots.items())[1], signal.SIGKILL)


def _asked(worker: Worker) -> float:
    """Return how long it takes to be shown all states."""
    began_s = time.monotonic()
    assert worker.rest.get("/connectors?expand=status").status_code == 200
    return time.monotonic() - began_s


def _changed(worker: Worker) -> float:
    """Return how long it takes to create a connector and to delete it; what is refused is tried again."""
    began_s, config = time.monotonic(), {"connector.class": "FileStreamSource", "topic": "none", "file": "none"}
    conflict = 409  # an answer was lost
    eventually(
        lambda: worker.create("passing", config, initial_state="STOPPED").status_code in (201, conflict),
        within_s=WITHIN_S,
    )
    eventually(lambda: worker.rest.delete("/connectors/passing").status_code in (204, 404), within_s=WITHIN_S)
    return time.monotonic() - began_s


def _producer(servers: str) -> Producer:
    """Return a producer that does not wait long for a broker that does not answer."""
    return Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 1,
            "socket.timeout.ms": 6000,
            "request.timeout.ms": 5000,
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 1000,
        }
    )


def _record(n: int) -> bytes:
    return json.dumps({"n": n}).encode()


def _figures(took: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {s:.1f}" for name, s in took.items())
