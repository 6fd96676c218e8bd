"""A campaign: loads on a worker, a feeder and readers beside them, and faults one after the other."""

import contextlib
import os
import re
import signal
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import psutil

from fencepost.kafka.admin import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Verdict, judge
from support.chaos.fault import Fault, Kind
from support.chaos.load import Load
from support.worker import Worker

_FEED_EVERY_S = 0.05
_RECOVERY_S = 240.0  # a limit for the busiest of machines; what it took is in the summary
_REFUSED = re.compile(r"has been fenced by a newer instance|is not admitted: a newer start")
_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


class Campaign:
    """Hurts a worker under load, and keeps what came of it. A context manager: feeder and readers run inside."""

    def __init__(self, worker: Worker, loads: Sequence[Load], bootstrap: str, records_per_s: int) -> None:
        self._worker = worker
        self._loads = loads
        self._broker_port = int(bootstrap.rpartition(":")[2])
        self._admin = Admin({"bootstrap.servers": bootstrap})
        self._readers = {load.name: CommittedReader(bootstrap, [load.topic]) for load in loads}
        self._marks = {load.name: _Mark(load, self._readers[load.name]) for load in loads}
        self._feeder = _Feeder(loads, records_per_s)
        self.recoveries: dict[Kind, list[float]] = defaultdict(list)
        self.open_at_fault: Counter[int] = Counter()
        self._last_recovery = ""

    def __enter__(self) -> "Campaign":
        for load in self._loads:
            self._admin.create_topic(load.topic, partitions=load.partitions, replication=1)
            response = self._worker.create(load.name, load.config())
            assert response.status_code == 201, response.text
        with contextlib.ExitStack() as stack:
            for reader in self._readers.values():
                stack.enter_context(reader)
            stack.enter_context(self._feeder)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self, faults: Iterable[Fault]) -> None:
        """Carry faults out, each after the recovery from the one before it."""
        self.await_progress()
        for number, fault in enumerate(faults, 1):
            threading.Event().wait(fault.delay_s)
            took_s = self._carry_out(fault)
            self.recoveries[fault.kind].append(took_s)
            print(f"fault {number}: {fault}: {took_s:.1f} s to new records ({self._last_recovery})", flush=True)

    def await_progress(self) -> None:
        """Wait until each load has committed a record that was made after this call."""
        self._set_marks()
        self._await_marks()

    def _set_marks(self) -> None:
        for mark in self._marks.values():
            mark.set()

    def _await_marks(self) -> None:
        try:
            eventually(self._is_past_marks, within_s=_RECOVERY_S)
        except AssertionError:
            raise AssertionError(f"no progress within {_RECOVERY_S:g} s: {self._described()}") from None

    def prove(self, within_s: float = 60.0) -> None:
        """Stop feeding; print and check the verdicts, that nothing is open, and that everything runs by itself."""
        self._finish(within_s)
        print(self.summary())
        verdicts = {name: verdict for load in self._loads for name, verdict in self._verdicts(load)}
        print("\n".join(f"  {name}: {verdict}" for name, verdict in verdicts.items()), flush=True)
        assert all(verdict.is_clean for verdict in verdicts.values()), verdicts
        for load in self._loads:
            self._worker.wait_for_tasks(load.name, *["RUNNING"] * int(load.config()["tasks.max"]))
            assert self._worker.status(load.name)["connector"]["state"] == "RUNNING"
        eventually(lambda: self.open_transactions() == [])

    def _finish(self, within_s: float) -> None:
        self._feeder.finish()
        with contextlib.suppress(AssertionError):  # what is missing then is the verdict's to say
            eventually(lambda: all(self._is_through(load) for load in self._loads), within_s=within_s)

    def _is_through(self, load: Load) -> bool:
        return len(self._readers[load.name].seen()) >= sum(map(len, load.expected().values()))

    def _verdicts(self, load: Load) -> Iterator[tuple[str, Verdict]]:
        """Yield the verdict by the reader that watched, and by one that comes now."""
        reader = self._readers[load.name]
        for how, seen in (("watched", reader.catch_up()), ("read afterwards", reader.read_all())):
            yield (
                f"{load.name}, {how}",
                judge(load.expected(), seen, sighting=load.sighting, is_at_home=load.is_at_home),
            )

    def open_transactions(self) -> list[str]:
        """Return the transactional ids of this worker's group that have a transaction open."""
        group = self._worker.properties["group.id"]
        own = (f"{group}-", f"connect-cluster-{group}")
        found = self._admin.transactions(_OPEN_STATES)
        return sorted(t.transactional_id for t in found if t.transactional_id.startswith(own))

    def summary(self) -> str:
        """Return faults and recovery times in a few lines."""
        lines = [f"{sum(map(len, self.recoveries.values()))} faults"]
        for kind, times in self.recoveries.items():
            lines.append(
                f"  {kind.value}: n={len(times)}, recovery p50 {statistics.median(times):.1f} s, max {max(times):.1f} s"
            )
        opened = ", ".join(f"{count}: {times}x" for count, times in sorted(self.open_at_fault.items()))
        lines.append(f"  transactions open right after the fault: {opened}")
        lines.append(f"  times that a zombie was refused: {len(_REFUSED.findall(self._worker.log_text()))}")
        return "\n".join(lines)

    # faults

    def _carry_out(self, fault: Fault) -> float:
        act: Callable[[Fault], float] = {
            Kind.KILL_SLOT: self._kill_slot,
            Kind.KILL_SPLIT: self._kill_split,
            Kind.STOP_SLOT: self._stop_slot,
            Kind.KILL_WORKER: self._kill_worker,
            Kind.KILL_EXECUTOR: self._kill_executor,
        }[fault.kind]
        return act(fault)

    def _kill_slot(self, fault: Fault) -> float:
        os.kill(_chosen(self._slots(), fault), signal.SIGKILL)
        return self._recover()

    def _kill_split(self, fault: Fault) -> float:
        os.kill(_chosen(eventually(self._split_processes, within_s=_RECOVERY_S, every_s=0.005), fault), signal.SIGKILL)
        return self._recover()

    def _kill_worker(self, fault: Fault) -> float:
        self._worker.kill()
        return self._recover(lambda: self._worker.start(_RECOVERY_S))

    def _kill_executor(self, fault: Fault) -> float:
        """The JVM that runs a slot; what was below it is an orphan, and a zombie for as long as it lives."""
        slot = psutil.Process(_chosen(self._slots(), fault))
        next(p for p in slot.parents() if "CoarseGrainedExecutorBackend" in _command(p)).kill()
        return self._recover()

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
        self.await_progress()
        eventually(lambda: not _is_alive(victim), within_s=_RECOVERY_S)
        return took_s

    def _recover(self, restart: Callable[[], None] | None = None) -> float:
        """Wait until each load has committed what was made after the fault. Returns how long that took."""
        started = time.monotonic()
        self._set_marks()
        count = threading.Thread(target=self._count_open_transactions)  # beside: asking may take seconds
        count.start()
        if restart is not None:
            restart()
        self._await_marks()
        took_s = time.monotonic() - started
        self._last_recovery = ", ".join(f"{name} {mark.took_s:.1f}" for name, mark in self._marks.items())
        count.join()
        return took_s

    def _count_open_transactions(self) -> None:
        self.open_at_fault[len(self.open_transactions())] += 1

    def _slots(self) -> list[int]:
        """Return the processes of slots that have tasks."""
        return eventually(lambda: self._producing(self._worker.slots().values()))

    def _split_processes(self) -> list[int]:
        """Return the Python processes of Spark that write and are no slots."""
        assert self._worker.process is not None
        slots = set(self._worker.slots().values())
        below = psutil.Process(self._worker.process.pid).children(recursive=True)
        return self._producing(p.pid for p in below if p.pid not in slots and "fencepost.spark.daemon" in _command(p))

    def _producing(self, pids: Iterable[int]) -> list[int]:
        """Return those processes that are connected to the broker, as every running task and split is."""
        return sorted(pid for pid in pids if self._broker_port in _peer_ports(pid))

    def _is_past_marks(self) -> bool:
        passed = [mark.is_passed() for mark in self._marks.values()]  # each is looked at: it keeps its own time
        return all(passed)

    def _described(self) -> str:
        lines = [f"open transactions: {self.open_transactions()}"]
        for load in self._loads:
            lines.append(f"{load.name}: {self._marks[load.name]}, {self._worker.status(load.name)}")
        return "\n".join(lines)


class _Mark:
    """Whether a load has got past a point."""

    def __init__(self, load: Load, reader: CommittedReader) -> None:
        self._load = load
        self._reader = reader
        self._goal: dict[Hashable, int] = {}
        self._reached: dict[Hashable, int] = {}
        self._looked_at = 0
        self._set_at = 0.0
        self.took_s = 0.0

    def __str__(self) -> str:
        return f"wanted {self._goal}, seen {self._reached}"

    def set(self) -> None:
        self._goal = self._load.front
        self._set_at, self.took_s = time.monotonic(), 0.0

    def is_passed(self) -> bool:
        seen = self._reader.seen()
        for observation in seen[self._looked_at :]:
            line, place = self._load.place(observation)
            self._reached[line] = max(place, self._reached.get(line, -1))
        self._looked_at = len(seen)
        is_passed = all(self._reached.get(line, -1) >= place for line, place in self._goal.items())
        if is_passed and not self.took_s:
            self.took_s = time.monotonic() - self._set_at
        return is_passed


class _Feeder:
    """Feeds all loads at a steady rate, in a thread."""

    def __init__(self, loads: Sequence[Load], records_per_s: int) -> None:
        self._loads = loads
        self._rate = records_per_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def __enter__(self) -> "_Feeder":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        for load in self._loads:
            load.finish()

    def _run(self) -> None:
        begun, fed = time.monotonic(), 0
        while not self._stop.wait(_FEED_EVERY_S):
            due = int((time.monotonic() - begun) * self._rate) - fed
            for load in self._loads:
                load.feed(due)
            fed += due


def _chosen(pids: Sequence[int], fault: Fault) -> int:
    return pids[int(fault.choice * len(pids))]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return ""


def _peer_ports(pid: int) -> set[int]:
    with contextlib.suppress(psutil.Error):
        return {c.raddr.port for c in psutil.Process(pid).net_connections("tcp") if c.raddr}
    return set()


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
