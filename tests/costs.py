"""What tests cost in processor time: `python -m tests.costs [ARGUMENTS OF PYTEST]`, such as `-n 5 tests/chaos`.

Each process of pytest has a control group of its own, so that all is counted that its tests start: children, children
of children, and those that outlive their parents. What a fixture costs is counted for the test that it is made for.
It takes root, and control groups that can be written to. What was measured for each test stays in `build/costs`.
"""

import json
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

_INTO = Path(__file__).parents[1] / "build/costs"
_ROOTS = {Path("/sys/fs/cgroup/cpuacct"): "cpuacct.usage", Path("/sys/fs/cgroup"): "cpu.stat"}
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SAMPLED_S = 0.4
# What is in a command line, and what such a process is.
_KINDS = {
    "kafka.Kafka": "JVM: Kafka",
    "fencepost.builtin.java": "JVM: host",
    "PythonGatewayServer": "JVM: Spark",
    "deploy.SparkSubmit": "JVM: Spark",
    "ExecutorBackend": "JVM: executor",
    "ConnectDistributed": "JVM: Kafka Connect",
    "javac": "JVM: javac",
    "/bin/java": "JVM: others",
    "forkserver": "forked: light workers, their slots",
    "exec(eval(sys.stdin.readline()))": "pytest",
    "pytest": "pytest",
    "tests.costs": "pytest",
    "pyspark": "Python below Spark",
    "fencepost.cli": "fencepost",
}
_SHOWN = 45


class Group:
    """The control group of this process and of all that it starts."""

    def __init__(self) -> None:
        root, self._usage = next((root, usage) for root, usage in _ROOTS.items() if (root / usage).exists())
        self._path = root / f"costs-{os.getpid()}"
        self._path.mkdir()
        (self._path / "cgroup.procs").write_text(str(os.getpid()))
        self._root = root
        self._before_s = time.process_time() - self._counted_s()

    def used_s(self) -> float:
        """Return the processor time that was used here so far, and by this process before."""
        return self._before_s + self._counted_s()

    def _counted_s(self) -> float:
        text = (self._path / self._usage).read_text()
        return int(text.split()[1]) / 1e6 if text.startswith("usage_usec") else int(text) / 1e9

    def processes(self) -> list[int]:
        return [int(pid) for pid in (self._path / "cgroup.procs").read_text().split()]

    def leave(self) -> None:
        for pid in self.processes():
            (self._root / "cgroup.procs").write_text(str(pid))
        self._path.rmdir()


class Costs:
    """The plugin: one line for each test, and at the end one for each kind of process."""

    def __init__(self, path: Path) -> None:
        self._group = Group()
        self._file = path.open("w")
        self._seen: dict[tuple[int, str], tuple[str, float]] = {}
        self._before_s = 0.0
        self._before_at_s = time.monotonic()
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if not self._before_s:
            self._note("collection")
        try:
            return (yield)
        finally:
            self._note(item.nodeid)

    def pytest_unconfigure(self) -> None:
        self._note("what ends last")
        self._over.set()
        self._sampler.join()
        kinds: Counter[str] = Counter()
        for kind, used_s in self._seen.values():
            kinds[kind] += used_s  # type: ignore[assignment]
        kinds["of processes too short to be seen"] = self._before_s - sum(kinds.values())  # type: ignore[assignment]
        starts = Counter(kind for kind, _ in self._seen.values())
        self._file.write(json.dumps({"kinds": {kind: [used_s, starts[kind]] for kind, used_s in kinds.items()}}) + "\n")
        self._file.close()
        self._group.leave()

    def _note(self, what: str) -> None:
        used_s, at_s = self._group.used_s(), time.monotonic()
        note = {"what": what, "used_s": used_s - self._before_s, "took_s": at_s - self._before_at_s}
        self._file.write(json.dumps(note) + "\n")
        self._file.flush()
        self._before_s, self._before_at_s = used_s, at_s

    def _sample(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._over.wait(_SAMPLED_S)
            for pid in self._group.processes():
                try:
                    numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    command = Path(f"/proc/{pid}/cmdline").read_text()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if command:  # it has not ended
                    used_s = (int(numbers[11]) + int(numbers[12])) / _TICKS_PER_S
                    self._seen[pid, numbers[19]] = (_kind(command), used_s)


def _kind(command: str) -> str:
    return next((kind for part, kind in _KINDS.items() if part in command), "others")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or not config.getoption("numprocesses"):
        config.pluginmanager.register(Costs(_INTO / f"{os.getpid()}.jsonl"))


def report(directory: Path) -> str:
    """Return the tables: by kind of process, and by module."""
    notes = [json.loads(line) for path in directory.iterdir() for line in path.read_text().splitlines()]
    modules: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    starts: Counter[str] = Counter()
    for note in notes:
        for kind, (used_s, count) in note.get("kinds", {}).items():
            kinds[kind] += used_s
            starts[kind] += count
        if "what" in note:
            module = note["what"].partition("::")[0]
            modules[module] += note["used_s"]
            tests[module] += 1
    lines = [f"{sum(modules.values()):8.1f} s of processor time", "", "by kind of process, and how many there were:"]
    lines += [f"{used_s:8.1f} s {starts[kind]:5} {kind}" for kind, used_s in kinds.most_common()]
    lines += ["", "by module, and how many of its tests ran:"]
    lines += [f"{used_s:8.1f} s {tests[module]:5} {module}" for module, used_s in modules.most_common(_SHOWN)]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    shutil.rmtree(_INTO, ignore_errors=True)
    _INTO.mkdir(parents=True)
    began_s = time.monotonic()
    code = pytest.main(["-p", "tests.costs", *arguments])
    print(f"\n{time.monotonic() - began_s:8.1f} s", report(_INTO), sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
