"""Faults at random moments: a random process is killed or paused."""

import contextlib
import os
import signal
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import psutil

from fencepost.testing import eventually
from support.chaos.campaign import RECOVERY_S, Campaign
from support.chaos.fault import Fault, Kind
from support.chaos.processes import below, command, is_alive, peer_ports


class Kills:
    """Carries out planned faults, one after the recovery from the other."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._worker = campaign.worker
        self.recoveries: dict[Kind, list[float]] = defaultdict(list)
        self.open_at_fault: Counter[int] = Counter()
        self._opened = 0

    def run(self, faults: Iterable[Fault]) -> None:
        self._campaign.await_progress()
        for number, fault in enumerate(faults, 1):
            threading.Event().wait(fault.delay_s)
            took_s = self._carry_out(fault)
            self.recoveries[fault.kind].append(took_s)
            self._campaign.evidence.fault(fault.kind.value, "any moment", f"{self._opened} open", took_s)
            print(f"fault {number}: {fault}: {took_s:.1f} s to new records of all loads", flush=True)
        print(self.summary())

    def summary(self) -> str:
        """Return faults and recovery times in a few lines."""
        lines = [f"{sum(map(len, self.recoveries.values()))} faults"]
        for kind, times in self.recoveries.items():
            lines.append(
                f"  {kind.value}: n={len(times)}, recovery p50 {statistics.median(times):.1f} s, max {max(times):.1f} s"
            )
        opened = ", ".join(f"{count}: {times}x" for count, times in sorted(self.open_at_fault.items()))
        lines.append(f"  transactions open right after the fault: {opened}")
        return "\n".join(lines)

    def _carry_out(self, fault: Fault) -> float:
        act: Callable[[Fault], float] = {
            Kind.KILL_SLOT: self._kill_slot,
            Kind.KILL_SPLIT: self._kill_split,
            Kind.STOP_SLOT: self._stop_slot,
            Kind.KILL_WORKER: self._kill_worker,
            Kind.KILL_EXECUTOR: self._kill_executor,
            Kind.END_EXECUTOR: self._end_executor,
        }[fault.kind]
        return act(fault)

    def _kill_slot(self, fault: Fault) -> float:
        os.kill(_chosen(self._slots(), fault), signal.SIGKILL)
        return self._recover()

    def _kill_split(self, fault: Fault) -> float:
        os.kill(_chosen(eventually(self._split_processes, within_s=RECOVERY_S, every_s=0.005), fault), signal.SIGKILL)
        return self._recover()

    def _kill_worker(self, fault: Fault) -> float:
        self._worker.kill()
        return self._recover(lambda: self._worker.start(RECOVERY_S))

    def _kill_executor(self, fault: Fault) -> float:
        """The JVM that runs a slot; what was below it is an orphan, and a zombie for as long as it lives."""
        _executor_of(_chosen(self._slots(), fault)).kill()
        return self._recover()

    def _end_executor(self, fault: Fault) -> float:
        """Its slots hand their tasks over before it ends; the next fault comes when another executor is there."""
        executor = _executor_of(_chosen(self._slots(), fault))
        executor.terminate()
        took_s = self._recover()
        eventually(lambda: not is_alive(executor), within_s=RECOVERY_S)
        return took_s

    def _stop_slot(self, fault: Fault) -> float:
        """The zombie wakes up when its successor has committed, and must leave by itself."""
        victim = psutil.Process(_chosen(self._slots(), fault))
        victim.suspend()
        try:
            took_s = self._recover()
            assert victim.status() == psutil.STATUS_STOPPED, "the zombie was gone before it could wake up"
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.resume()
        self._campaign.await_progress()
        eventually(lambda: not is_alive(victim), within_s=RECOVERY_S)
        return took_s

    def _recover(self, restart: Callable[[], None] | None = None) -> float:
        """Wait until each load has committed what was made after the fault. Returns how long that took."""
        started = time.monotonic()
        self._campaign.set_marks()
        count = threading.Thread(target=self._count_open_transactions)  # beside: asking may take seconds
        count.start()
        if restart is not None:
            restart()
        self._campaign.await_marks()
        took_s = time.monotonic() - started
        count.join()
        return took_s

    def _count_open_transactions(self) -> None:
        self._opened = len(self._campaign.open_transactions())
        self.open_at_fault[self._opened] += 1

    def _slots(self) -> list[int]:
        """Return the processes of slots that have tasks."""
        return eventually(lambda: self._producing(self._worker.slots().values()))

    def _split_processes(self) -> list[int]:
        """Return the Python processes of Spark that write and are no slots."""
        assert self._worker.process is not None
        slots = set(self._worker.slots().values())
        return self._producing(
            p.pid
            for p in below(self._worker.process.pid)
            if p.pid not in slots and "fencepost.spark.session.daemon" in command(p)
        )

    def _producing(self, pids: Iterable[int]) -> list[int]:
        """Return those processes that are connected to the broker, as every running task and split is."""
        return sorted(pid for pid in pids if self._campaign.broker_port in peer_ports(pid))


def _executor_of(slot: int) -> psutil.Process:
    return next(p for p in psutil.Process(slot).parents() if "CoarseGrainedExecutorBackend" in command(p))


def _chosen(pids: Sequence[int], fault: Fault) -> int:
    return pids[int(fault.choice * len(pids))]
