"""docs/explanation/benchmarks.md, made of the result files and of nothing else."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import plot
from bench.peer import JVM
from bench.result import COMMITTED
from bench.statistic import number, statistic

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "benchmarks.md"

PARTS = (
    "throughput",
    "sink",
    "postgres_source",
    "postgres_sink",
    "java_files",
    "java_debezium",
    "json_rows",
    "files",
    "reader",
    "spool",
    "retention",
    "mirror",
    "stream",
    "query",
    "latency",
    "memory",
    "slot",
    "recovery",
    "rest",
    "cluster",
    "idle",
    "start",
    "ledger",
)
"""In the order in which they run, and stand on the page."""

TITLES = {
    "fencepost": "Fencepost",
    "connect": "Kafka Connect",
    "spark sink": "Spark's Kafka sink",
    "spark files": "Spark's file sink",
    "spark source": "Spark's Kafka source",
    "streams": "Kafka Streams",
    "spark": "Spark Structured Streaming",
    "without plugins": "Fencepost without plug-ins",
    "flink": "Flink SQL",
    "quix": "Quix Streams",
    "old way": "a producer for each partition",
    "librdkafka": "by librdkafka",
    "psql": "psql's COPY",
}

_HEAD = """\
# Benchmarks

<!-- Written by `python -m bench page` from bench/results; `make bench` measures anew. -->

Fencepost beside Kafka Connect, measured on one machine and one broker at a time, the two taking turns. `make bench`
does it all again, fetches what it needs, and writes this page. A figure is the median of its samples unless the row
names another statistic (percentiles by nearest rank); in brackets stand the smallest, the largest and the number of
samples. A ratio is ours by theirs.
"""

_WORKER = """\
## Both sides

Both workers get the same file: addresses, a group, internal topics with one replica, `StringConverter`, exactly-once
enabled; all else is at its default. Fencepost runs as `fencepost worker FILE`, Spark inside it. Kafka Connect runs as
`ConnectDistributed` with the JVM options `{jvm}` and `plugin.discovery=service_load`. The broker is that of
`fencepost kafka`, one node with a small heap, on the same cores.
"""


def write(results: Path = COMMITTED, page: Path = PAGE) -> Path:
    """Write the page. ValueError where there is no result."""
    found = load(results)
    if not found:
        raise ValueError(f"there are no results in {results}: run `make bench`")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(found))
    return page


def load(directory: Path) -> list[dict[str, Any]]:
    """The results, in the order in which the bench runs them."""
    files = [directory / f"{part}.json" for part in PARTS]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def render(results: Sequence[Mapping[str, Any]]) -> str:
    """The page for these results."""
    parts = [_HEAD, _where(results), _WORKER.format(jvm=" ".join(JVM)), *(_part(result) for result in results)]
    return "\n".join(parts)


def _where(results: Sequence[Mapping[str, Any]]) -> str:
    """Say when, with which versions, and on which machine; each part names its own where they are several."""
    machines = {_machine(result) for result in results}
    machine = machines.pop() if len(machines) == 1 else "on machines of two cores that each part names"
    versions = ", ".join(f"{name} {value}" for name, value in _common(results).items())
    days = sorted({run["began"][:10] for result in results for run in result["runs"]})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"Measured on {when}; {machine}.\n\n{versions}.\n"


def _machine(result: Mapping[str, Any]) -> str:
    return ", ".join(_worded(key, value) for key, value in result["machine"].items())


def _worded(key: str, value: str) -> str:
    return {"cores": f"{value} cores", "memory": f"{value} of memory"}.get(key, value)


def _common(results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The versions that are the same everywhere."""
    first: Mapping[str, str] = results[0]["versions"]
    return {k: v for k, v in first.items() if all(result["versions"].get(k) == v for result in results)}


def _part(result: Mapping[str, Any]) -> str:
    sides = list(dict.fromkeys(side for row in result["rows"] for side in row["samples"]))
    lines = [f"## {result['title']}", "", *result["method"], ""]
    if plot.bars(result):
        lines += [f"![{result['title']}: how many times as good as the peer](plots/{result['part']}.svg)", ""]
    lines += _table(result["rows"], sides)
    lines += ["", *_settings(result["settings"])]
    minutes = sum(run["seconds"] for run in result["runs"]) / 60
    commits = ", ".join(dict.fromkeys(run["commit"] for run in result["runs"]))
    lines += ["", f"Took {minutes:.0f} minutes; commit {commits}; {_machine(result)}.", ""]
    return "\n".join(lines)


def _table(rows: Sequence[Mapping[str, Any]], sides: Sequence[str]) -> Iterator[str]:
    titles = [TITLES.get(side, side) for side in sides]
    yield f"| | {' | '.join(titles)} | ratio | wanted |"
    yield f"|---|{'---|' * len(titles)}---|---|"
    for row in (row for row in rows if any(row["samples"].values())):
        for name in row["statistics"]:
            cells = [_cell(row, name, side) for side in sides]
            yield f"| {_label(row, name)} | {' | '.join(cells)} | {ratio(row, name, sides)} | {row['reach']} |"


def _label(row: Mapping[str, Any], name: str) -> str:
    what = row["name"] if name == "median" else f"{row['name']}, {name}"
    return f"{what}, {row['unit']}" if row["unit"] else str(what)


def _cell(row: Mapping[str, Any], name: str, side: str) -> str:
    values = row["samples"].get(side) or []
    if not values:
        return ""
    spread = f"{number(min(values))}-{number(max(values))}, n {len(values)}"
    return f"**{number(statistic(name, values))}** ({spread})" if len(values) > 1 else f"**{number(values[0])}** (n 1)"


def ratio(row: Mapping[str, Any], name: str, sides: Sequence[str]) -> str:
    """Ours by theirs; empty where one is missing."""
    values = [row["samples"].get(side) or [] for side in sides[:2]]
    if len(values) < 2 or not all(values):
        return ""
    ours, theirs = (statistic(name, each) for each in values)
    return number(ours / theirs) if theirs else ""


def _settings(settings: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for case, sides in settings.items():
        told = {f"{TITLES.get(side, side)}: {text}" for side, text in sides.items()}
        if len(set(sides.values())) == 1:
            yield f"- {case}: {next(iter(sides.values()))}."
        else:
            yield f"- {case}. {'. '.join(sorted(told))}."


if __name__ == "__main__":
    print(write())
