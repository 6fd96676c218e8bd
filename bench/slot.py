"""What a slot takes of memory for the file sources in it, by the batch client and by librdkafka."""

from dataclasses import dataclass
from pathlib import Path

from bench.family import holder
from bench.lines import write_lines
from bench.options import Options, say
from bench.result import Result, Row
from bench.side import SIDES
from bench.throughput import FILE_SOURCE
from bench.watch import Watcher
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin

_CLIENTS = {"fencepost": "batch", "librdkafka": "librdkafka"}
_TASKS = 16
_BATCHES = (2000, 20000)
_WITHIN_S = 240.0
_MB = 1e6
_REST_S = 12.0  # what is free is given back each ten


@dataclass(frozen=True)
class Found:
    """Megabytes of one slot: the most while its tasks work, and once they have been without work for a while.

    `private` are those of the latter that no other process has mapped.
    """

    at_work: float
    at_rest: float
    private: float


def run(options: Options) -> Result:
    """A worker for each client, number of lines a transaction, and number of tasks."""
    lines = options.size(1_000_000, 100_000)
    result = Result("slot", "A slot of file sources", _method(lines), _settings())
    found: dict[tuple[int, int, str], list[Found]] = {}
    with options.directory() as directory:
        file = directory / "lines.txt"
        write_lines(file, lines)
        for turn in options.turns_of(2):
            for name in list(_CLIENTS) if turn % 2 == 0 else list(_CLIENTS)[::-1]:
                for batch in _BATCHES:
                    for tasks in (1, _TASKS):
                        found.setdefault((batch, tasks, name), []).append(
                            one := _turn(_CLIENTS[name], file, directory, lines, batch, tasks)
                        )
                        say(f"slot {name:10} batch.size {batch:6} {tasks:3} tasks {one}")
    result.rows = [row for batch in _BATCHES for row in _rows(batch, found)]
    return result


def _turn(client: str, file: Path, directory: Path, lines: int, batch: int, tasks: int) -> Found:
    with EmbeddedKafka() as kafka, SIDES["fencepost"](kafka.bootstrap_servers, directory, {"slots.max": "1"}) as side:
        topics = [f"{side.group}-{number}" for number in range(tasks)]
        admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
        for topic in topics:
            admin.topics.create(topic, partitions=1, replication=1)
            side.create(topic, _connector(file, topic, batch, client))
        with Watcher(kafka.bootstrap_servers, topics) as watcher:
            watcher.until_quiet(tasks * lines, _REST_S, _WITHIN_S)
        slot = holder(side.pid, file, _WITHIN_S)
        memory = slot.memory_full_info()
        return Found(_most_mb(slot.pid), memory.rss / _MB, memory.uss / _MB)


def _most_mb(pid: int) -> float:
    """The largest resident size that a process has had, as the kernel keeps it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / _MB for line in lines if line.startswith("VmHWM:"))


def _connector(file: Path, topic: str, batch: int, client: str) -> dict[str, str]:
    return {
        "connector.class": FILE_SOURCE,
        "tasks.max": "1",
        "file": str(file),
        "topic": topic,
        "batch.size": str(batch),
        "producer.client": client,
    }


def _rows(batch: int, found: dict[tuple[int, int, str], list[Found]]) -> list[Row]:
    def samples(tasks: int, what: str) -> dict[str, list[float]]:
        return {name: [getattr(one, what) for one in found[batch, tasks, name]] for name in _CLIENTS}

    rows = []
    for what, words in (("at_work", "at work, the most"), ("at_rest", "at rest"), ("private", "at rest, private")):
        one, many = samples(1, what), samples(_TASKS, what)
        each = {name: [(m - o) / (_TASKS - 1) for m, o in zip(many[name], one[name], strict=True)] for name in _CLIENTS}
        reach = "1 × or less"
        rows += [
            Row(f"batch.size {batch}: a slot with 1 task, {words}", "MB", one),
            Row(f"batch.size {batch}: a slot with {_TASKS} tasks, {words}", "MB", many),
            Row(f"batch.size {batch}: each further task, {words}", "MB", each, reach=reach),
        ]
    return rows


def _method(lines: int) -> list[str]:
    return [
        f"FileStreamSources with one task each read a file of {lines:,} lines of 100 bytes, all in one slot "
        "(`slots.max=1`), one of them or sixteen, each to a topic of its own. The resident size is that of the slot's "
        f"process, shared pages included: the most that the kernel has seen, and {_REST_S:.0f} s after "
        "all is written; private is what no other process has mapped. A further task is the difference, by fifteen.",
    ]


def _settings() -> dict[str, dict[str, str]]:
    return {
        "both": {"fencepost": "producer.client=batch (what auto chooses)", "librdkafka": "producer.client=librdkafka"}
    }
