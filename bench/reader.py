"""Rows a second out of Kafka into a query: `format("fencepost")` beside Spark's own source, in the same Spark."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.family import processor_s, since
from bench.moving import Run, Runs
from bench.options import Options, say
from bench.ordered import Ordered, spark
from bench.result import Result, Row
from bench.sink import CASES, WIDTH, filled
from bench.sink_jars import JARS, sink_jars
from fencepost.embedded import EmbeddedKafka

_FORMATS = {"fencepost": "fencepost", "spark source": "kafka"}


def run(options: Options) -> Result:
    """Run the cases, alternating between the readers."""
    records = options.size(4_000_000, 500_000)
    cases = [case for case in CASES if not options.cases or case.key in options.cases]
    result = Result("reader", "Reader", _method(records), {"both": _settings()})
    runs: Runs = {}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        topics = {case.key: filled(kafka.bootstrap_servers, case.partitions, records) for case in cases}
        with _spark(kafka.bootstrap_servers, directory) as process:
            for case in cases:
                for name in _sides(options, 0):
                    _read(process, kafka.pid, _FORMATS[name], topics[case.key], records)
            for turn in options.turns_of(5):
                for case in cases:
                    for name in _sides(options, turn):
                        done = _read(process, kafka.pid, _FORMATS[name], topics[case.key], records)
                        runs.setdefault((case.key, name), []).append(done)
                        say(f"{case.key:5} {name:12} {done.rate:11,.0f} rows/s  {dict(done.detail)}")
    titles = {case.key: f"topic of {case.partitions} partition{'s'[: case.partitions > 1]} to a sum" for case in CASES}
    result.rows = [
        Row(
            title,
            "rows/s",
            _samples(runs, key, "rate"),
            is_more_better=True,
            reach="2 × or more",
            detail=_detail(runs, key),
        )
        for key, title in titles.items()
    ]
    result.rows += [
        Row(
            f"{title}: processor time of Spark and its Python for a million rows",
            "s",
            _samples(runs, key, "processor_per_million"),
        )
        for key, title in titles.items()
    ]
    return result


def _sides(options: Options, turn: int) -> list[str]:
    names = [name for name in _FORMATS if not options.only or name == options.only]
    return names if turn % 2 == 0 else names[::-1]


def _spark(bootstrap: str, directory: Path) -> Ordered:
    arguments = [bootstrap, str(os.cpu_count()), ",".join(map(str, sink_jars()))]
    return spark("bench.spark_reader", arguments, directory / "spark-reader.log")


def _read(process: Ordered, broker: int, source: str, topic: str, records: int) -> Run:
    before, broker_before = processor_s(process.pid), processor_s(broker)
    rows, size, seconds = process.tell(source, topic).split("\t")
    if (int(rows), int(size)) != (records, records * WIDTH):
        raise ValueError(f"{source} has read {rows} rows of {size} bytes, not {records}")
    spent = since(before, processor_s(process.pid))
    own = sum(spent.values())
    spent["broker"] = sum(since(broker_before, processor_s(broker)).values())
    return Run(records / float(seconds), own * 1e6 / records, {key: round(value, 2) for key, value in spent.items()})


def _samples(runs: Runs, case: str, what: str) -> Mapping[str, Sequence[float]]:
    return {name: [getattr(run, what) for run in runs.get((case, name), ())] for name in _FORMATS}


def _detail(runs: Runs, case: str) -> Mapping[str, Sequence[Mapping[str, float]]]:
    return {name: [dict(run.detail) for run in runs.get((case, name), ())] for name in _FORMATS}


def _settings() -> Mapping[str, str]:
    source = ", ".join(f"{module} {revision}" for _, module, revision in JARS)
    both = "one Spark, local[cores], read_committed, the rest at defaults"
    return {"fencepost": both, "spark source": f"{both}; {source}"}


def _method(records: int) -> list[str]:
    return [
        f"A topic of {records:,} records of {WIDTH} bytes, without keys, is read from its beginning to its end by a "
        "query that counts the rows and sums the lengths of their values, once as a warm-up. The rate is all rows, by "
        "the time from making the query until it has its answer, which must be right.",
    ]
