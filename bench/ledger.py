"""What a ledger costs: processor time of a FileStreamSource's task and of the broker, with one and without."""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.lines import write_lines
from bench.options import Options, say
from bench.result import Result, Row
from bench.throughput import FILE_SOURCE
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.task.channel.message import Admission
from fencepost.task.channel.task_spec import CommitSpec, LookUpSpec, OutputSpec, TaskSpec, without_id
from fencepost.task.source.runner import SourceRunner

WITH, WITHOUT = "with a ledger", "without a ledger"
_STRING = "org.apache.kafka.connect.storage.StringConverter"
_WIDTH = 100
_US = 1e6


@dataclass(frozen=True)
class Case:
    """`batch` lines make a transaction; `full` and `quick` are how many lines a run has."""

    batch: int
    full: int
    quick: int
    turns: int

    @property
    def key(self) -> str:
        return str(self.batch)


CASES = (
    Case(1, 2_000, 500, 10),
    Case(2_000, 1_000_000, 200_000, 10),
    Case(20_000, 4_000_000, 800_000, 10),
)


@dataclass(frozen=True)
class Spent:
    """Processor time of one transaction, in microseconds."""

    task: float
    broker: float

    @property
    def both(self) -> float:
        return self.task + self.broker


def run(options: Options) -> Result:
    """For each size of transactions: runs with a ledger and without, in turns, with one broker."""
    result = Result("ledger", "What a ledger costs", _method(), {})
    with options.directory() as directory, EmbeddedKafka(dir=directory / "kafka") as kafka:
        for case in CASES:
            if not options.cases or case.key in options.cases:
                result.rows += _rows(case, _pairs(case, options, kafka, directory))
    return result


def _pairs(case: Case, options: Options, kafka: EmbeddedKafka, directory: Path) -> dict[str, list[Spent]]:
    lines = options.size(case.full, case.quick)
    file = directory / f"{case.key}.txt"
    write_lines(file, lines, _WIDTH - 1)
    for side in (WITH, WITHOUT) * 2:  # until the JVM has compiled what it needs
        _run(kafka, file, case.batch, lines, has_ledger=side == WITH)
    spent: dict[str, list[Spent]] = {WITH: [], WITHOUT: []}
    for turn in options.turns_of(case.turns):
        for side in (WITH, WITHOUT) if turn % 2 == 0 else (WITHOUT, WITH):
            spent[side].append(one := _run(kafka, file, case.batch, lines, has_ledger=side == WITH))
            say(f"ledger, {case.batch:6} lines a transaction, {side:16} {one}")
    return spent


def _run(kafka: EmbeddedKafka, file: Path, batch: int, lines: int, *, has_ledger: bool) -> Spent:
    """Let a task write all lines, in this process."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    topics = {name: {}, f"{name}-offsets": {"cleanup.policy": "compact"}, f"{name}-ledger": {}}
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    for topic, configs in topics.items():
        admin.topics.create(topic, partitions=1, replication=1, configs=configs)
    spec = _spec(kafka.bootstrap_servers, name, file, batch, f"{name}-ledger" if has_ledger else "")
    runner = SourceRunner(spec, lambda _spec, wants_offsets=True: Admission(True), lambda *_: None)
    processes = psutil.Process(), psutil.Process(kafka.pid)
    before = _times(processes)
    runner.thread.start()
    while runner.counters.records_written < lines or runner.counters.active.records:
        time.sleep(0.05)
        if not runner.thread.is_alive():
            raise ValueError("the task has ended before it had written everything")
    task, broker = (late - early for early, late in zip(before, _times(processes), strict=True))
    runner.control.stop()
    runner.thread.join()
    admin.topics.delete([*topics])
    commits = runner.counters.commits
    return Spent(round(task / commits * _US, 1), round(broker / commits * _US, 1))


def _times(processes: Sequence[psutil.Process]) -> list[float]:
    return [times.user + times.system for times in (each.cpu_times() for each in processes)]


def _spec(bootstrap: str, name: str, file: Path, batch: int, ledger: str) -> TaskSpec:
    config = {
        "name": name,
        "connector.class": FILE_SOURCE,
        "topic": name,
        "file": str(file),
        "batch.size": str(batch),
        "key.converter": _STRING,
        "value.converter": _STRING,
        "header.converter": _STRING,
    }
    return TaskSpec(
        connector=name,
        task=0,
        generation=1,
        incarnation=uuid.uuid4().hex,
        connector_config=config,
        task_config=config,
        look_up=LookUpSpec(),
        output=OutputSpec(
            producer_conf=without_id({"bootstrap.servers": bootstrap}).conf,
            offsets_topic=f"{name}-offsets",
            transactional_id=f"id-{name}",
            topic_creation_enabled=False,
            chooses_client=True,
        ),
        commits=CommitSpec(ledger_topic=ledger),
    )


def _rows(case: Case, spent: dict[str, list[Spent]]) -> list[Row]:
    lines = f"{case.batch:,} line{'' if case.batch == 1 else 's'} a transaction"
    return [
        Row(
            f"{lines}: {what}",
            "µs",
            {side: [getattr(one, key) for one in each] for side, each in spent.items()},
            reach="1.03 × or less" if key == "both" else "",
        )
        for key, what in (
            ("both", "processor time of a transaction"),
            ("task", "the task's"),
            ("broker", "the broker's"),
        )
    ]


def _method() -> list[str]:
    return [
        f"A task of FileStreamSource reads a file of lines of {_WIDTH} bytes and writes them with the batch client, in",
        "transactions of as many lines as `batch.size` says: with a ledger (`ledger.topic`), and without one, in pairs",
        "of runs, each side first in every other pair. There is no worker and no Spark: the task runs alone in a",
        "process. A figure is the processor time of a transaction, in the task's process and in the broker's.",
    ]
