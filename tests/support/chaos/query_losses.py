"""Executors that streaming queries lose, copies of their tasks, and brokers that die, hang or are cut off."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from fencepost.testing import eventually
from support.brokers import COORDINATORS
from support.chaos.dying_source import stall_flag, stalled
from support.chaos.query_campaign import WITHIN_S, QueryCampaign
from support.chaos.query_program import QUERIES
from support.cut_brokers import BROKERS, CutBrokers
from support.standalone import StandaloneCluster

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.task.duration.threshold": "1s",
}
"""Settings with which Spark starts copies of tasks that take longer than a second."""


class Loss(Enum):
    """What happens."""

    EXECUTOR = "an executor is killed, with a task that has written"
    COPY = "a copy of a task writes, too"
    KILLED = "a broker is killed"
    HUNG = "a broker hangs"
    CUT = "a broker is cut off"
    MOVED = "all coordinators of transactions move"


def plan(seed: int, passes: int) -> list[Loss]:
    """Return faults, of which each hits all queries or one."""
    chosen = random.Random(seed)
    return [loss for _ in range(passes) for loss in chosen.sample(list(Loss), len(Loss))]


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
            phase = self._acts[loss](self)
            self._campaign.note(loss.value, phase, self._campaign.recover())
            self.hits += 1
            print(f"fault {self.hits} took {time.monotonic() - began_s:.1f} s", flush=True)

    # executors

    def _lose_executor(self) -> str:
        query, mark = self._stall()
        pid = int(mark.read_text().partition(" ")[0])
        self._cluster.executor_of(pid).kill()
        mark.unlink(missing_ok=True)
        return query

    def _copy_task(self) -> str:
        query, mark = self._stall()
        eventually(lambda: not mark.exists(), within_s=WITHIN_S)
        return query

    def _stall(self) -> tuple[str, Path]:
        """Have a task of a query stall once it has written. Returns the query, and the file that says so."""
        query = self._campaign.chosen.choice(QUERIES)
        path = f"{self._campaign.given.directory}/die-{query}"
        stall_flag(path).touch()
        eventually(stalled(path).exists, within_s=WITHIN_S, every_s=0.02)
        return query, stalled(path)

    # brokers

    def _kill_broker(self) -> str:
        victim = self._victim()
        self._brokers.kill(victim)
        self._campaign.recover()
        self._brokers.start(victim)
        return f"{victim}"

    def _hang_broker(self) -> str:
        with self._deposed(self._brokers.hang, self._brokers.wake) as victim:
            self._campaign.recover()
        return f"{victim}"

    def _cut_broker(self) -> str:
        with self._deposed(self._brokers.cut, self._brokers.heal) as victim:
            self._campaign.recover()
        return f"{victim}"

    def _move_coordinators(self) -> str:
        self._brokers.await_well()
        leader = self._brokers.leader_of(COORDINATORS[0])
        target = self._campaign.chosen.choice([each for each in BROKERS if each != leader])
        self._brokers.lead(target, COORDINATORS[0])
        return f"to {target}"

    @contextmanager
    def _deposed(self, hurt: Callable[[int], None], cure: Callable[[int], None]) -> Iterator[int]:
        victim = self._victim()
        hurt(victim)
        try:
            self._brokers.await_deposed(victim)
            yield victim
        finally:
            cure(victim)

    def _victim(self) -> int:
        """Return the leader of one of the partitions that matter, once all brokers are well."""
        self._brokers.await_well()
        leaders = self._brokers.leaders_by(BROKERS[0])
        return self._campaign.chosen.choice([leaders[place] for place in sorted(leaders)])

    _acts: Mapping[Loss, Callable[["QueryLosses"], str]] = {
        Loss.EXECUTOR: _lose_executor,
        Loss.COPY: _copy_task,
        Loss.KILLED: _kill_broker,
        Loss.HUNG: _hang_broker,
        Loss.CUT: _cut_broker,
        Loss.MOVED: _move_coordinators,
    }
