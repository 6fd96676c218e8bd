"""Executors that streaming queries lose, copies of their tasks, and brokers that die, hang or are cut off."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path

from fencepost.testing import eventually
from support.brokers import COORDINATORS
from support.chaos.dying_source import stall_flag, stalled
from support.chaos.query_campaign import WITHIN_S, QueryCampaign
from support.cut_brokers import BROKERS, CONTROLLER, CutBrokers
from support.standalone import StandaloneCluster

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.task.duration.threshold": "1s",
}
"""Settings with which Spark starts copies of tasks that take longer than a second."""

Recovery = tuple[str, Mapping[str, float]]  # what was hit, and how long each query took to go on
_REFUSALS = 20  # connections that are refused before a broker takes some again


class Loss(Enum):
    """What happens."""

    EXECUTOR = "an executor is killed, with a task that has written"
    COPY = "a copy of a task writes, too"
    KILLED = "a broker is killed"
    HUNG = "a broker hangs"
    CUT = "a broker is cut off from all others"
    APART = "a broker is cut off from the controller"
    REFUSED = "clients are cut off from a broker"
    MOVED = "all coordinators of transactions move"


_CUTS = (Loss.CUT, Loss.APART, Loss.REFUSED)


def plan(seed: int, passes: int) -> list[Loss]:
    """Return faults, of which each hits all queries or one."""
    chosen = random.Random(seed)
    return [loss for _ in range(passes) for loss in chosen.sample(list(Loss), len(Loss))]


def short_plan(seed: int) -> list[Loss]:
    """Return faults of which one cuts a broker off."""
    chosen = random.Random(seed)
    one = [*(loss for loss in Loss if loss not in _CUTS), chosen.choice(_CUTS)]
    return chosen.sample(one, len(one))


class QueryLosses:
    """Carries out faults. `hits` counts them."""

    def __init__(self, campaign: QueryCampaign, brokers: CutBrokers, cluster: StandaloneCluster) -> None:
        self.hits = 0
        self._campaign = campaign
        self._brokers = brokers
        self._cluster = cluster

    def run(self, losses: Sequence[Loss]) -> None:
        for loss in losses:
            began_s = time.monotonic()
            print(f"fault {self.hits + 1}: {loss.value}", flush=True)
            phase, took = self._acts[loss](self)
            self._campaign.note(loss.value, phase, took)
            self._campaign.recover()
            self.hits += 1
            print(f"fault {self.hits} took {time.monotonic() - began_s:.1f} s", flush=True)

    # executors

    def _lose_executor(self) -> Recovery:
        query, mark = self._stall()
        pid = int(mark.read_text().partition(" ")[0])
        self._cluster.executor_of(pid).kill()
        mark.unlink(missing_ok=True)
        return query, self._campaign.recover()

    def _copy_task(self) -> Recovery:
        query, mark = self._stall()
        eventually(lambda: not mark.exists(), within_s=WITHIN_S)
        return query, self._campaign.recover()

    def _stall(self) -> tuple[str, Path]:
        """Have a task of a query stall once it has written. Returns the query, and the file that says so."""
        query = self._campaign.chosen.choice(self._campaign.given.queries)
        path = f"{self._campaign.given.directory}/die-{query}"
        stall_flag(path).touch()
        eventually(stalled(path).exists, within_s=WITHIN_S, every_s=0.02)
        return query, stalled(path)

    # brokers

    def _kill_broker(self) -> Recovery:
        victim = self._victim()
        self._brokers.kill(victim)
        took = self._campaign.recover()
        self._brokers.start(victim)
        return f"{victim}", took

    def _hang_broker(self) -> Recovery:
        return self._depose(self._brokers.hang, self._brokers.wake)

    def _cut_broker(self) -> Recovery:
        return self._depose(self._brokers.cut, self._brokers.heal)

    def _cut_from_controller(self) -> Recovery:
        return self._depose(lambda broker: self._brokers.cut(broker, CONTROLLER), self._brokers.heal)

    def _depose(self, hurt: Callable[[int], None], cure: Callable[[int], None]) -> Recovery:
        """Hurt a broker until others have all that it led, and the queries have gone on."""
        victim = self._victim()
        hurt(victim)
        try:
            self._brokers.await_deposed(victim)
            return f"{victim}", self._campaign.recover()
        finally:
            cure(victim)

    def _refuse_clients(self) -> Recovery:
        victim = self._victim()
        with self._brokers.refusing(victim) as line:
            eventually(lambda: line.refused >= _REFUSALS, within_s=WITHIN_S)
        return f"{victim}", self._campaign.recover()

    def _move_coordinators(self) -> Recovery:
        self._brokers.await_well()
        leader = self._brokers.leader_of(COORDINATORS[0])
        target = self._campaign.chosen.choice([each for each in BROKERS if each != leader])
        self._brokers.lead(target, COORDINATORS[0])
        return f"to {target}", self._campaign.recover()

    def _victim(self) -> int:
        """Return the leader of one of the partitions that matter, once all brokers are well."""
        self._brokers.await_well()
        leaders = self._brokers.leaders_by(BROKERS[0])
        return self._campaign.chosen.choice([leaders[place] for place in sorted(leaders)])

    _acts: Mapping[Loss, Callable[["QueryLosses"], Recovery]] = {
        Loss.EXECUTOR: _lose_executor,
        Loss.COPY: _copy_task,
        Loss.KILLED: _kill_broker,
        Loss.HUNG: _hang_broker,
        Loss.CUT: _cut_broker,
        Loss.APART: _cut_from_controller,
        Loss.REFUSED: _refuse_clients,
        Loss.MOVED: _move_coordinators,
    }
