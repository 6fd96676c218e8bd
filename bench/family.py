"""A process and all below it: memory and processor time as the system counts them."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil

from bench.background import Background
from fencepost.testing import eventually

_SAMPLE_EVERY_S = 0.5
_DEAD_WITHIN_S = 10.0
_MB = 1e6


def family(pid: int) -> list[psutil.Process]:
    """The process and all below it, itself first; those that live."""
    try:
        head = psutil.Process(pid)
        return [head, *head.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill_all(processes: list[psutil.Process]) -> None:
    """SIGKILL; returns when they are dead, collected by their parent or not."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    eventually(lambda: not any(map(is_alive, processes)), within_s=_DEAD_WITHIN_S, every_s=0.005)


def is_alive(process: psutil.Process) -> bool:
    """Whether it still runs: neither gone nor a zombie."""
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def has_open(process: psutil.Process, path: Path) -> bool:
    """Whether the process has this file open."""
    try:
        return any(Path(file.path) == path for file in process.open_files())
    except psutil.NoSuchProcess:
        return False


def holder(pid: int, path: Path, within_s: float) -> psutil.Process:
    """Wait for a process below `pid` that has this file open."""
    return eventually(lambda: [one for one in family(pid) if has_open(one, path)], within_s=within_s, every_s=0.1)[0]


def processor_s(pid: int) -> dict[str, float]:
    """Seconds of processor time so far: of the process (`worker`), of JVMs below it (`jvm`), of the rest (`python`)."""
    spent: dict[str, float] = {}
    for process in family(pid):
        try:
            with process.oneshot():
                kind = _kind(process, pid)
                times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        spent[kind] = spent.get(kind, 0.0) + times.user + times.system
    return spent


def threads_s(pid: int) -> dict[str, float]:
    """Seconds of processor time so far of each thread of the process and all below it."""
    spent: dict[str, float] = {}
    for process in family(pid):
        try:
            spent |= {f"{process.pid}/{t.id}": t.user_time + t.system_time for t in process.threads()}
        except psutil.NoSuchProcess:
            continue
    return spent


class Everybody:
    """The processor time of the whole machine, less our own, since this was made."""

    def __init__(self) -> None:
        self._began = self._now()

    def spent_s(self) -> float:
        return round(self._now() - self._began, 2)

    @staticmethod
    def _now() -> float:
        machine, ours = psutil.cpu_times(), psutil.Process().cpu_times()
        return float(sum(machine) - machine.idle - machine.iowait - machine.steal - ours.user - ours.system)


class Spending:
    """The processor time that a process and all below it, and the broker, spend from now on."""

    def __init__(self, pid: int, broker_pid: int) -> None:
        self._pid, self._broker_pid = pid, broker_pid
        self._before, self._broker = processor_s(pid), processor_s(broker_pid)
        self._everybody = Everybody()

    def spent(self) -> dict[str, float]:
        """As `processor_s`, with `broker`, and `others`: the rest of the machine."""
        spent = since(self._before, processor_s(self._pid))
        spent["broker"] = since(self._broker, processor_s(self._broker_pid))["worker"]
        spent["others"] = round(self._everybody.spent_s() - sum(spent.values()), 2)
        return spent


def own_s(spent: Mapping[str, float]) -> float:
    """The part of what was spent that went to a worker and all below it."""
    return sum(spent.get(kind, 0.0) for kind in ("worker", "jvm", "python"))


def _kind(process: psutil.Process, head: int) -> str:
    if process.pid == head:
        return "worker"
    return "jvm" if process.name() == "java" else "python"


def since(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """What was spent between two `processor_s`."""
    return {kind: round(spent - before.get(kind, 0.0), 2) for kind, spent in after.items()}


def resident_mb(pid: int) -> float:
    """The sum of the resident sizes: pages that processes share are counted in each."""
    return sum(_each(family(pid), lambda process: process.memory_info().rss / _MB))


def proportional_mb(pid: int) -> float:
    """As `resident_mb`, each shared page counted once (its share in each process, as the kernel says)."""
    return sum(_each(family(pid), lambda process: _pss_kb(process.pid) * 1024 / _MB))


def _pss_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def _each(processes: list[psutil.Process], measure: Callable[[psutil.Process], float]) -> Iterator[float]:
    for process in processes:
        try:
            yield measure(process)
        except (psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError):
            continue


class MemorySampler(Background):
    """Looks at `resident_mb` twice a second, in a thread; a context manager."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.samples_mb: list[float] = []
        self._pid = pid

    def _run(self) -> None:
        while True:
            self.samples_mb.append(resident_mb(self._pid))
            if self._stop.wait(_SAMPLE_EVERY_S):
                return
