"""The memory, descriptors and threads of a worker and its child processes, sampled over time."""

import contextlib
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import psutil

_MIB = 1 << 20


@dataclass(frozen=True)
class Footprint:
    """The memory and processor time of one process, or of several."""

    resident_mib: float = 0.0
    descriptors: int = 0
    threads: int = 0

    def __add__(self, other: "Footprint") -> "Footprint":
        return Footprint(
            self.resident_mib + other.resident_mib,
            self.descriptors + other.descriptors,
            self.threads + other.threads,
        )

    def __str__(self) -> str:
        return f"{self.resident_mib:,.1f} MiB, {self.descriptors} descriptors, {self.threads} threads"


Sample = Mapping[str, Footprint]


def sample(pid: int) -> Sample:
    """Return the footprints of a process and of all below it, by what they are."""
    found: dict[str, Footprint] = defaultdict(Footprint)
    worker = psutil.Process(pid)
    for process in [worker, *worker.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            role = "worker" if process.pid == pid else "JVM" if process.name() == "java" else "Python of Spark"
            with process.oneshot():
                found[role] += Footprint(process.memory_info().rss / _MIB, process.num_fds(), process.num_threads())
    return dict(found)


def typical(samples: Sequence[Sample]) -> Sample:
    """Return by role the median of the memory, and the least of the rest: what comes and goes is no growth."""
    roles = {role for each in samples for role in each}
    return {role: _typical([each.get(role, Footprint()) for each in samples]) for role in sorted(roles)}


def total(sample: Sample) -> Footprint:
    return sum(sample.values(), Footprint())


def _typical(found: Sequence[Footprint]) -> Footprint:
    return Footprint(
        statistics.median(each.resident_mib for each in found),
        min(each.descriptors for each in found),
        min(each.threads for each in found),
    )


@dataclass
class Growth:
    """Samples taken every `every_s`, and what the last fifth of them says against the first, warm-up left out."""

    every_s: float
    warm_up: float = 1 / 6  # part of the samples
    samples: list[Sample] = field(default_factory=list)

    def watch(self, pid: int, duration_s: float) -> None:
        """Take samples for so long, and print some of them."""
        until_s, told_s = time.monotonic() + duration_s, 0.0
        rest = threading.Event()
        while (now_s := time.monotonic()) < until_s:
            self.samples.append(sample(pid))
            if now_s - told_s >= max(60.0, duration_s / 30):
                told_s = now_s
                print(f"{len(self.samples):5} {_shown(self.samples[-1])}", flush=True)
            rest.wait(self.every_s)

    @property
    def ends(self) -> tuple[Sample, Sample]:
        """Return typical values of the first and of the last fifth after the warm-up."""
        warm = self.samples[int(len(self.samples) * self.warm_up) :]
        count = max(1, len(warm) // 5)
        return typical(warm[:count]), typical(warm[-count:])

    @property
    def of_memory(self) -> float:
        """By what part resident memory has grown."""
        first, last = (total(each).resident_mib for each in self.ends)
        return last / first - 1

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{len(self.samples)} samples, one in {self.every_s:g} s; resident memory {self.of_memory:+.1%}"
        for name, each in zip(("first", "last"), self.ends, strict=True):
            yield f"  {name} fifth after the warm-up: {_shown(each)}"


def _shown(sample: Sample) -> str:
    parts = "; ".join(f"{role} {footprint}" for role, footprint in sorted(sample.items()))
    return f"{total(sample)} ({parts})"
