"""Records a second: a FileStreamSource that reads a file of lines, in some settings."""

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.family import MemorySampler, Spending, since, threads_s
from bench.lines import TEXTS, TIMES, Lines, write_lines
from bench.options import Options, say
from bench.result import Result, Row
from bench.side import SIDES, Side
from bench.watch import EVERY_S, Watcher, last_value
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
WIDTH = TEXTS.width
_WARM_UP = 6_000_000
"""A JVM on two cores needs millions of records until it is as fast as it gets."""
_TRIES = 3
_DISTURBED = 0.05
"""More than this share of the machine taken by others, and a run is repeated."""
_QUIET_S = 1.0
_PATIENCE_S = 120.0

PLAIN = {"batch.size": "2000"}
TUNED = {
    "batch.size": "20000",
    "producer.override.linger.ms": "5",
    "producer.override.batch.size": "131072",
}
"""What makes Kafka Connect fast here. Fencepost gets its batch.size alone: its producer stays at our defaults."""


_TRANSFORMS = "org.apache.kafka.connect.transforms."
CHAIN = {
    **TUNED,
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "hoist,insert,replace,cast,time",
    "transforms.hoist.type": f"{_TRANSFORMS}HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.insert.type": f"{_TRANSFORMS}InsertField$Value",
    "transforms.insert.topic.field": "topic",
    "transforms.insert.static.field": "shop",
    "transforms.insert.static.value": "north",
    "transforms.replace.type": f"{_TRANSFORMS}ReplaceField$Value",
    "transforms.replace.renames": "line:at",
    "transforms.cast.type": f"{_TRANSFORMS}Cast$Value",
    "transforms.cast.spec": "at:int64",
    "transforms.time.type": f"{_TRANSFORMS}TimestampConverter$Value",
    "transforms.time.field": "at",
    "transforms.time.target.type": "string",
    "transforms.time.format": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
}
"""Lines of milliseconds become `{"at":"2026-…","topic":…,"shop":"north"}`."""


@dataclass(frozen=True)
class Case:
    """One setting of the race."""

    key: str
    name: str
    config: Mapping[str, str]
    reach: str
    connectors: int = 1
    is_exactly_once: bool = True
    lines: float = 1.0
    interval_s: float = 0.0
    worker: Mapping[str, str] = field(default_factory=dict)
    ours: Mapping[str, str] = field(default_factory=dict)
    form: Lines = TEXTS

    def config_of(self, side: str) -> dict[str, str]:
        """The connector's config, without file and topic."""
        config = {"connector.class": FILE_SOURCE, "tasks.max": "1", **self.config}
        if side == "fencepost":
            config = {key: value for key, value in config.items() if not key.startswith("producer.")} | dict(self.ours)
        if self.interval_s:
            interval = {"transaction.boundary": "interval"}
            config |= interval | {"transaction.boundary.interval.ms": str(int(self.interval_s * 1000))}
        return config


CASES = (
    Case("polled", "exactly-once, a transaction each poll, batch.size 2000", PLAIN, "3 × or more"),
    Case("tuned", "exactly-once, batch.size 20000, tuned", TUNED, "3 × or more"),
    Case("four", "4 connectors with one task each, tuned", TUNED, "2 × or more", connectors=4),
    Case("interval", "exactly-once, a transaction each 5 s, tuned", TUNED, "1.2 × or more", lines=2.0, interval_s=5.0),
    Case("chain", "a chain of five transforms and JSON, tuned", CHAIN, "3 × or more", lines=0.4, form=TIMES),
    Case(
        "off",
        "exactly-once off, batch.size 20000, tuned",
        TUNED,
        "1.2 × or more",
        is_exactly_once=False,
        worker={"exactly.once.source.support": "disabled"},
    ),
)


def _together(cases: Sequence[Case]) -> list[list[Case]]:
    """Those that one worker runs one after the other."""
    by_file: dict[str, list[Case]] = {}
    for case in cases:
        by_file.setdefault(str(case.worker), []).append(case)
    return list(by_file.values())


@dataclass(frozen=True)
class Run:
    """What one side has done in one run of a case."""

    records: int
    rate: float
    seconds_from_post: float
    memory_mb: Sequence[float]
    processor: Mapping[str, float]

    @property
    def others_share(self) -> float:
        """How much of the machine went to processes that are none of ours."""
        return self.processor["others"] / (self.seconds_from_post * (os.cpu_count() or 1))

    @property
    def processor_per_million(self) -> float:
        """Seconds of processor time of the worker and all below it for a million records."""
        return sum(self.processor[kind] for kind in ("worker", "jvm", "python") if kind in self.processor) * (
            1e6 / self.records
        )

    @property
    def detail(self) -> dict[str, float]:
        memory = {"rss_peak_mb": round(max(self.memory_mb)), "rss_first_mb": round(self.memory_mb[0])}
        return {"from_post_s": round(self.seconds_from_post, 2), **memory, **self.processor}


def run(options: Options) -> Result:
    """Run the cases (all, or `options.cases`), alternating between the sides."""
    lines = options.size(5_000_000, 1_000_000)
    cases = [replace(case, ours=options.ours) for case in CASES if not options.cases or case.key in options.cases]
    result = Result("throughput", "Throughput", _method(lines), {c.name: _settings(c) for c in cases})
    runs: dict[tuple[str, str], list[Run]] = {}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        arena = _Arena(kafka, directory, lines)
        arena.warm_broker(SIDES[options.sides(options.first)[0]])
        for turn in options.turns_of(3):
            for together in _together(cases):
                for side in options.sides(turn):
                    for case, done in arena.race(SIDES[side], together):
                        runs.setdefault((case.key, side), []).append(done)
                        say(f"{case.key:9} {side:10} {done.rate:11,.0f} records/s  {done.detail}")
    result.rows = [_rate_row(case, runs) for case in CASES]
    result.rows += [_processor_row(case, runs) for case in CASES if case.key in ("polled", "tuned", "chain", "off")]
    result.rows += [_memory_row(case, runs) for case in CASES if case.interval_s]
    result.rows.append(_guarantee_row(runs))
    return result


class _Arena:
    """The broker, the input files, and one race after another."""

    def __init__(self, kafka: EmbeddedKafka, directory: Path, lines: int) -> None:
        self._kafka = kafka
        self._admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
        self._directory = directory
        self._lines = lines
        self._warm_up = directory / "warm-up.txt"
        write_lines(self._warm_up, min(_WARM_UP, 2 * lines), WIDTH)

    def warm_broker(self, side_class: type[Side]) -> None:
        """Nobody shall meet a cold broker: many transactions, not measured."""
        with side_class(self._kafka.bootstrap_servers, self._directory) as side:
            self._move(side, CASES[0], self._warm_up, "warm-up")

    def race(self, side_class: type[Side], cases: Sequence[Case]) -> Iterator[tuple[Case, Run]]:
        """Start a worker, warm it up, then measure one case after the other."""
        with side_class(self._kafka.bootstrap_servers, self._directory, cases[0].worker) as side:
            self._move(side, replace(cases[0], config=TUNED, connectors=1, form=TEXTS), self._warm_up, "warm-up")
            for case in cases:
                if case.form is not TEXTS:  # code that the warm-up has not run
                    self._move(side, case, self._file(case), f"{case.key}-warm-up")
                yield case, self._undisturbed(side, case)

    def _undisturbed(self, side: Side, case: Case) -> Run:
        """A run in which nobody else computed; where that cannot be had, the one with the least of it."""
        tries: list[Run] = []
        while len(tries) < _TRIES and not any(run.others_share <= _DISTURBED for run in tries):
            tries.append(self._move(side, case, self._file(case), f"{case.key}-{len(tries)}"))
        return min(tries, key=lambda run: run.others_share)

    def _file(self, case: Case) -> Path:
        """The lines of one connector of a case; all connectors together move as many as one would."""
        count = int(self._lines * case.lines) // case.connectors
        path = self._directory / f"{case.form.key}-{count}.txt"
        if not path.exists():
            if shutil.disk_usage(self._directory).free < 4 * count * (case.form.width + 1):
                raise OSError(f"not enough room below {self._directory} for {count:,} lines: set TMPDIR")
            case.form.write(path, count)
        return path

    def _move(self, side: Side, case: Case, file: Path, name: str) -> Run:
        """1. Topics. 2. POST. 3. Wait until all is committed. 4. See that the last line of the file is the last."""
        topics = [f"{side.group}-{name}-{number}" for number in range(case.connectors)]
        for topic in topics:
            self._admin.topics.create(topic, partitions=1, replication=1)  # 1
        records = file.stat().st_size // (case.form.width + 1) * case.connectors
        with Watcher(self._kafka.bootstrap_servers, topics) as watcher, MemorySampler(side.pid) as memory:
            spending, threads = Spending(side.pid, self._kafka.pid), threads_s(side.pid)
            posted_at = time.monotonic()
            for topic in topics:
                side.create(topic, {**case.config_of(side.name), "file": str(file), "topic": topic})  # 2
            done = watcher.until_quiet(records, _QUIET_S, _PATIENCE_S)  # 3
            spent = spending.spent()
            spent["busiest_thread"] = max(since(threads, threads_s(side.pid)).values())
        for topic in topics:
            self._check_last(topic, file, case.form)  # 4
        for topic in topics:
            side.delete(topic)
        self._admin.topics.delete(topics)
        began_at = next(sample.at_s for sample in watcher.samples if sample.written)
        ended_at = done.at_s
        if case.interval_s:  # the last transaction stays open until the interval is over
            ended_at = next(sample.at_s for sample in watcher.samples if sample.written >= records)
        return Run(records, records / (ended_at - began_at), done.at_s - posted_at, memory.samples_mb, spent)

    def _check_last(self, topic: str, file: Path, form: Lines) -> None:
        expected = file.stat().st_size // (form.width + 1) - 1
        last = last_value(self._kafka.bootstrap_servers, topic)
        if last is None or form.number(last) != expected:
            raise ValueError(f"{topic} ends with {last!r}, not with line {expected}")


def _rate_row(case: Case, runs: Mapping[tuple[str, str], Sequence[Run]]) -> Row:
    samples = {side: [run.rate for run in runs.get((case.key, side), ())] for side in SIDES}
    detail = {side: [run.detail for run in runs.get((case.key, side), ())] for side in SIDES}
    return Row(case.name, "records/s", samples, is_more_better=True, reach=case.reach, detail=detail)


def _processor_row(case: Case, runs: Mapping[tuple[str, str], Sequence[Run]]) -> Row:
    samples = {side: [run.processor_per_million for run in runs.get((case.key, side), ())] for side in SIDES}
    return Row(f"{case.name}: processor time of the worker and all below it for a million records", "s", samples)


def _memory_row(case: Case, runs: Mapping[tuple[str, str], Sequence[Run]]) -> Row:
    samples = {side: [max(run.memory_mb) for run in runs.get((case.key, side), ())] for side in SIDES}
    return Row(f"{case.name}: most resident memory of the worker and all below it", "MB", samples, reach="flat")


def _guarantee_row(runs: Mapping[tuple[str, str], Sequence[Run]]) -> Row:
    """Empty unless both cases were run."""
    pairs = {side: zip(runs.get(("tuned", side), ()), runs.get(("off", side), ()), strict=False) for side in SIDES}
    samples = {side: [on.rate / off.rate for on, off in pair] for side, pair in pairs.items()}
    return Row("rate with exactly-once by rate without, tuned", "", samples, is_more_better=True, reach="0.9 or more")


def _settings(case: Case) -> dict[str, str]:
    def told(side: str) -> str:
        settings = {k: v for k, v in {**case.worker, **case.config_of(side)}.items() if k != "connector.class"}
        return ", ".join(f"{key}={value}" for key, value in settings.items())

    return {side: told(side) for side in SIDES}


def _method(lines: int) -> list[str]:
    chain = next(case for case in CASES if case.key == "chain")
    return [
        f"A file of {lines:,} lines of {WIDTH} bytes (with the interval {2 * lines:,}; with 4 connectors a quarter "
        f"each) goes to topics of one partition. A worker is started, moves {_WARM_UP:,} lines as a warm-up, and then "
        "runs the cases one after the other; the one without exactly-once has a worker of its own. The broker is one "
        "and the same, and was warmed up before.",
        f"The ends of the log, written and committed, are asked of the broker every {EVERY_S * 1000:.0f} ms. The rate "
        "is all records, by the time from the first record in the log until all are committed. With the interval, "
        "until all are in the log: the last transaction stays open until its time is over.",
        f"The chain reads a file of {int(lines * chain.lines):,} lines of {chain.form.width} digits, milliseconds "
        "since 1970, all different. Its transforms are HoistField, InsertField, ReplaceField, Cast and "
        "TimestampConverter, before JsonConverter without schemas. It moves the file once before it is measured.",
        f"A run in which other processes took more than {_DISTURBED:.0%} of the machine is repeated, at most twice; "
        "the least disturbed one counts. Afterwards the last committed record must be the last line of the file.",
    ]
