"""One source connector moves records into a topic: how fast, and with how much processor time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.family import Spending, own_s
from bench.result import Row
from bench.side import SIDES, Side
from bench.watch import Watcher
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin

_QUIET_S = 1.0
_PATIENCE_S = 300.0

PROCESSOR = "processor time of the worker and all below it for a million records"


@dataclass(frozen=True)
class Run:
    """What one side has done in one run of a case."""

    rate: float
    processor_per_million: float
    detail: Mapping[str, float]

    @classmethod
    def of(cls, records: int, seconds: float, spent: Mapping[str, float]) -> "Run":
        return cls(records / seconds, own_s(spent) * 1e6 / records, spent)


Runs = dict[tuple[str, str], list[Run]]
"""The runs by case and side."""


def moved(side: Side, kafka: EmbeddedKafka, topic: str, records: int, begin: Callable[[], object]) -> Run:
    """1. Let it begin. 2. Wait until as many records are committed as were wanted, and no more come.

    The rate is all records, by the time from the first of them in the log until all are committed.
    """
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    found = admin.offsets.ends([(topic, 0)], read_committed=False)[topic, 0]
    with Watcher(kafka.bootstrap_servers, [topic]) as watcher:
        spending = Spending(side.pid, kafka.pid)
        begin()  # 1
        done = watcher.until_quiet(found + records, _QUIET_S, _PATIENCE_S)  # 2
        spent = spending.spent()
    spent["further offsets"] = done.committed - found - records  # markers of transactions, and what was aborted
    began_at = next(sample.at_s for sample in watcher.samples if sample.written > found)
    return Run.of(records, done.at_s - began_at, spent)


def made_topic(kafka: EmbeddedKafka, topic: str) -> str:
    """Make a topic of one partition."""
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic, partitions=1, replication=1)
    return topic


def rows(names: Mapping[str, str], runs: Runs, rate: str, processor: str) -> list[Row]:
    """The rates of the cases, and then their processor time; `rate` and `processor` are what is to be reached."""

    def samples(case: str, what: str) -> dict[str, list[float]]:
        return {side: [getattr(run, what) for run in runs.get((case, side), ())] for side in SIDES}

    def details(case: str) -> dict[str, list[dict[str, float]]]:
        return {side: [dict(run.detail) for run in runs.get((case, side), ())] for side in SIDES}

    return [
        *(
            Row(name, "records/s", samples(case, "rate"), is_more_better=True, reach=rate, detail=details(case))
            for case, name in names.items()
        ),
        *(
            Row(f"{name}: {PROCESSOR}", "s", samples(case, "processor_per_million"), reach=processor)
            for case, name in names.items()
        ),
    ]
