"""The crash matrix: every kind of fault at every point of a transaction, the point confirmed by the broker."""

import contextlib
import itertools
import logging
import os
import signal
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import psutil
import pytest

from fencepost.cluster.fencing import leader_transactional_id
from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.chaos.campaign import RECOVERY_S, TRANSACTION_TIMEOUT_S, TRANSACTIONS, Campaign
from support.chaos.evidence import Evidence
from support.chaos.fault import Kind
from support.chaos.hold import Coordinator, Hold, Target
from support.chaos.load import PLUGIN_PATH, LineLoad, NumberedLoad, SpoolLoad, clients
from support.chaos.point import Blow, Moment, Phase, Round, TaskKind, matrix
from support.chaos.processes import is_alive, is_connected, owner_of
from support.long_form import IS_LONG
from support.proxy import Action, ApiKey, KafkaProxy, Request, Rule
from support.quick import quick_kafka
from support.worker import Worker, free_port

log = logging.getLogger(__name__)
_ANY = 1 << 30
_SUCCESSOR_S = 120.0
_GIVEN_UP = "does not answer: its tasks fence the lost worker's ids when they start"
_TIME_OUT_S = TRANSACTION_TIMEOUT_S - 60.0


@dataclass(frozen=True)
class Network:
    """A broker, the proxy that producers go through, and the one through which the broker talks to itself."""

    broker: EmbeddedKafka
    producers: KafkaProxy
    internal: KafkaProxy


class Matrix:
    """Carries out rounds of faults against the tasks of a campaign.

    A round's targets are held, each at its point, and are all hit at once; they share nothing but worker and broker.
    """

    def __init__(
        self, campaign: Campaign, targets: Sequence[Target], network: Network, coordinator: Coordinator
    ) -> None:
        self._campaign = campaign
        self._targets = targets
        self._network = network
        self._coordinator = coordinator
        self.recoveries: dict[Kind, list[float]] = defaultdict(list)

    def run(self, rounds: Iterable[Round]) -> None:
        self._campaign.await_progress()
        for number, each in enumerate(rounds, 1):
            started = time.monotonic()
            self._carry_out(number, each)
            print(f"round {number} took {time.monotonic() - started:.1f} s", flush=True)
        print(self.summary())

    def summary(self) -> str:
        """Return faults and recovery times in a few lines."""
        lines = [f"{sum(map(len, self.recoveries.values()))} faults"]
        for kind, times in self.recoveries.items():
            p50 = statistics.median(times)
            lines.append(f"  {kind.value}: n={len(times)}, recovery p50 {p50:.1f} s, max {max(times):.1f} s")
        return "\n".join(lines)

    def _carry_out(self, number: int, each: Round) -> None:
        """Hold ▸ confirm ▸ hit ▸ recover ▸ what was withheld comes late, or never."""
        holds = [self._hold(blow) for blow in each.blows]
        markers = self._hold_all(holds)
        for hold in holds:
            hold.confirm()
        victims = [self._victim(hold) for hold in holds]
        act: dict[Kind, Callable[[list[Hold], list[psutil.Process], Rule | None], None]] = {
            Kind.KILL_SLOT: self._kill,
            Kind.STOP_SLOT: self._stop,
            Kind.KILL_WORKER: self._kill_worker,
        }
        self._campaign.set_marks()
        act[each.kind](holds, victims, markers)
        recoveries = [self._campaign.marks[hold.target.load.name].took_s[hold.target.line] for hold in holds]
        errors = self._deliver(each, holds, victims)
        for blow, hold, took_s, error in zip(each.blows, holds, recoveries, errors, strict=True):
            self._note(number, each.kind, blow, hold, took_s, error)
        slow = [took_s for took_s in recoveries if took_s > _TIME_OUT_S]
        assert not slow, f"round {number}: {slow} s to a new record, as if a dead task's transaction had to time out"

    def _hold(self, blow: Blow) -> Hold:
        target = self._targets[blow.target]
        return Hold(self._network.producers, self._coordinator, target, blow.point, self._is_of_worker)

    def _is_of_worker(self, request: Request) -> bool:
        """Whether the worker's own process asks: it locks a task's ids out, and forgets the offsets of splits.

        It is no victim: nobody would start it again.
        """
        process = self._campaign.worker.process
        return process is not None and is_connected(process.pid, request.client_port, self._network.producers.port)

    def _hold_all(self, holds: Sequence[Hold]) -> Rule | None:
        """Bring every target to its point; commits stay prepared last, for without markers nobody gets on.

        Returns the rule that withholds markers, if a point asks for it.
        """
        for _, group in itertools.groupby(sorted(holds, key=_turn), key=_turn):
            together = list(group)
            for hold in together:
                hold.arm()
            for hold in together:
                try:
                    hold.await_held()
                except AssertionError as error:
                    raise AssertionError(f"{error}; {self._campaign.described()}") from None
        prepared = [hold for hold in holds if hold.point.withholds_markers]
        for hold in holds:
            if hold not in prepared:
                hold.confirm()
        if not prepared:
            return None
        markers = self._network.internal.on(ApiKey.WRITE_TXN_MARKERS, Action.HOLD, _ANY)
        for hold in prepared:
            hold.prepare()
        return markers

    def _victim(self, hold: Hold) -> psutil.Process:
        """Return the process that the withheld request came from."""
        ports = hold.client_ports
        for port in ports:
            try:
                return owner_of(port, self._network.producers.port)
            except LookupError as error:
                log.info("%s, %s: %s", hold.target, hold.point, error)
        raise LookupError(f"{hold.target}, {hold.point}: nobody holds one of the connections from {ports}")

    # kinds

    def _kill(self, holds: list[Hold], victims: list[psutil.Process], markers: Rule | None) -> None:
        for victim in victims:
            os.kill(victim.pid, signal.SIGKILL)
        self._recover(holds, markers)

    def _kill_worker(self, holds: list[Hold], victims: list[psutil.Process], markers: Rule | None) -> None:
        self._campaign.worker.kill()
        self._recover(holds, markers, self._campaign.worker.launch)

    def _stop(self, holds: list[Hold], victims: list[psutil.Process], markers: Rule | None) -> None:
        """The zombies wake up when their successors have committed."""
        for victim in victims:
            victim.suspend()
        try:
            self._recover(holds, markers)
            gone = [v for v in victims if not is_alive(v)]
            assert not gone, f"zombies were gone before they could wake up: {gone}"
        finally:
            for victim in victims:
                if is_alive(victim):
                    victim.resume()

    def _recover(self, holds: list[Hold], markers: Rule | None, restart: Callable[[], None] | None = None) -> None:
        """Let successors through, and markers once those of prepared commits have asked for their ids."""
        inits = {hold: hold.let_through() for hold in holds}
        if restart is not None:
            restart()
        if markers is not None:
            for hold, init in inits.items():
                if hold.point.withholds_markers:
                    self._await_successor(hold, init, has_restarted=restart is not None)
            self._network.internal.forget(markers)
            markers.release()
        self._campaign.await_marks()
        self._network.producers.forget(*inits.values())

    def _await_successor(self, hold: Hold, init: Rule, *, has_restarted: bool) -> None:
        """Wait until a successor has asked for the id, or cannot ask before the markers come.

        That is so after a restart whose bulk fence had no answer from the first id that it tried within its second: it
        leaves the others to the starts of tasks then, and nobody starts tasks, since the leader's assignment is a
        transaction, too, and waits for its own marker.
        """
        worker = self._campaign.worker
        leader = leader_transactional_id(worker.properties["group.id"])

        def is_due() -> bool:
            if init.met > 0:
                return True
            has_given_up = has_restarted and _GIVEN_UP in worker.newest_log_text()
            return has_given_up and self._coordinator.describe([leader])[leader].state == "PrepareCommit"

        try:
            eventually(is_due, within_s=_SUCCESSOR_S)
        except AssertionError as error:
            raise AssertionError(f"{hold.target}: no successor, {error}; {self._campaign.described()}") from None
        if init.met == 0:
            print(f"{hold.target}: markers came before its successor could ask", flush=True)

    def _deliver(self, each: Round, holds: list[Hold], victims: list[psutil.Process]) -> list[int | None]:
        """Deliver all requests withheld from zombies, and late, as planned, some of those of dead processes."""
        is_stop = each.kind is Kind.STOP_SLOT
        errors: list[int | None] = []
        for blow, hold in zip(each.blows, holds, strict=True):
            if is_stop or blow.is_late:
                errors.append(hold.release())
            else:
                hold.discard()
                errors.append(None)
        if is_stop:
            eventually(lambda: not any(map(is_alive, victims)), within_s=RECOVERY_S)
        self._campaign.await_progress()
        return errors

    def _note(self, number: int, planned: Kind, blow: Blow, hold: Hold, took_s: float, error: int | None) -> None:
        assert hold.described is not None
        kind, withheld = _kind(planned, hold), _fate(planned, blow)
        self.recoveries[kind].append(took_s)
        self._campaign.evidence.fault(
            kind.value,
            str(hold.point),
            hold.described.state,
            took_s,
            task_kind=hold.target.task_kind.value,
            client=hold.target.client,
            id=hold.transactional_id,
            epoch=hold.described.producer_epoch,
            withheld=withheld,
            error=error,
            round=number,
        )
        print(
            f"round {number}: {kind.value}, {hold.target}, {hold.point} ({hold.described.state}): "
            f"{took_s:.1f} s to a new record; withheld: {withheld}{'' if error is None else f', error {error}'}",
            flush=True,
        )


def _kind(kind: Kind, hold: Hold) -> Kind:
    is_split = hold.target.task_kind is TaskKind.SPLIT
    return Kind.KILL_SPLIT if is_split and kind is Kind.KILL_SLOT else kind


def _fate(kind: Kind, blow: Blow) -> str:
    """Return what happened to the withheld request."""
    if kind is Kind.STOP_SLOT:
        return "delivered when the zombie woke up"
    if blow.point.moment is Moment.DURING:
        return "an answer, lost"
    return "delivered late" if blow.is_late else "lost"


def _turn(hold: Hold) -> int:
    """Put starts that are not admitted yet first: positions are read up to the open transactions of all tasks."""
    if hold.target.task_kind is TaskKind.SPLIT:
        return 1
    return 0 if (hold.point.phase, hold.point.moment) == (Phase.INIT, Moment.AFTER) else 2


PASSES = int(os.environ.get("FENCEPOST_CHAOS_PASSES", "7" if IS_LONG else "1"))
RECORDS_PER_S = 100  # for each of six loads; it is the faults that count
SETTINGS = {
    **TRANSACTIONS,
    "plugin.path": PLUGIN_PATH,
    "slot.lease.ms": "2000",
    # Spark would kill what it has given up; here the zombie has to live until it wakes up.
    "spark.python.task.killTimeout": "600s",
}


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """A broker of its own, which tells itself to come in by a proxy: so its markers can be withheld."""
    port = free_port()
    with contextlib.ExitStack() as stack:
        internal = stack.enter_context(KafkaProxy("127.0.0.1:0"))
        advertised = f"CLIENT://127.0.0.1:{port},INTERNAL://{internal.bootstrap_servers}"
        properties = {"advertised.listeners": advertised, "group.min.session.timeout.ms": "1000"}
        broker = stack.enter_context(quick_kafka(port=port, properties=properties))
        internal.lead_to(broker.internal_servers)
        yield Network(broker, stack.enter_context(KafkaProxy(broker.bootstrap_servers)), internal)


@pytest.mark.chaos
@pytest.mark.timeout(900 * PASSES)
def test_every_fault_at_every_point_of_a_transaction_leaves_the_delivery_exact(network, tmp_path, seed, capfd):
    """Every other task writes with the batch client; which ones is the seed's choice."""
    group = f"matrix-{seed}"
    bootstrap = network.broker.bootstrap_servers
    interval = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "500"}
    chosen = clients(seed)
    of_load: dict[str, str] = {}

    def own(name: str, **more: str) -> dict[str, str]:
        of_load[name] = next(chosen)
        return {"slot_dedicated": "true", "producer_client": of_load[name], **more}

    # With six tasks there are two rounds for the twelve points of a kind: it is the time that costs, not the tasks.
    polls = [
        LineLoad(name, tmp_path, f"{group}-{name}", **own(name, transaction_boundary="poll"))
        for name in ("lines-poll-a", "lines-poll-b")
    ]
    timed = [
        LineLoad(name, tmp_path, f"{group}-{name}", **own(name, **interval))
        for name in ("lines-interval-a", "lines-interval-b")
    ]
    numbered = NumberedLoad("own-transactions", tmp_path, f"{group}-own", tasks=2, **own("own-transactions"))
    spool = SpoolLoad("spool", tmp_path, f"{group}-spool", rows=200, producer_client=next(chosen))
    of_load["spool"] = spool.config()["producer.client"]
    tasks = [*((lines, 0, lines.name) for lines in (*polls, *timed)), (numbered, 0, 0), (numbered, 1, 1)]

    def target(load, task, line, task_kind=TaskKind.SLOT):
        name = f"{group}-{load.name}-{task}"
        return Target(load, task_kind, line, (name, f"{name}#1"), f"{group}-offsets", of_load[load.name])

    targets = [*(target(*task) for task in tasks), target(spool, 0, spool.name, TaskKind.SPLIT)]
    settings = {
        **SETTINGS,
        "producer.bootstrap.servers": network.producers.bootstrap_servers,
    }
    with (
        capfd.disabled(),
        contextlib.closing(Coordinator(bootstrap)) as coordinator,
        Worker(bootstrap, tmp_path, settings, group=group) as worker,
        Campaign(
            worker, [*polls, *timed, numbered, spool], bootstrap, RECORDS_PER_S, Evidence("matrix", seed)
        ) as campaign,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        rounds = matrix(seed, PASSES, [t.task_kind for t in targets])
        chosen_rounds = rounds if IS_LONG else rounds[::4]  # each seed has other ones
        Matrix(campaign, targets, network, coordinator).run(chosen_rounds)
        campaign.prove()
