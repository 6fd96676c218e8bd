"""The figures of the README, made of the result files and of nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.statistic import statistic

README = Path(__file__).parents[1] / "README.md"

BEGIN = "<!-- These figures are written by `python -m bench page` from bench/results. -->\n"
END = "<!-- Here they end. -->\n"

_TEXT = """\
| | Fencepost compared with Kafka Connect |
|---|---|
| records per second, exactly-once: small transactions · large transactions · four connectors · one transaction every 5 s | {rates} times |
| records per second from a topic to a file: 1 partition · 4 partitions | {sink} times, with {sink_cpu} of the CPU time |
| CPU time per record, exactly-once: small transactions · large transactions | {cpu} times |
| Debezium for Postgres in both, records per second: snapshot · stream | {debezium} times, with {debezium_cpu} of the CPU time |
| time from a new line in a file until it is visible, p50 | {line} ms instead of {line_of_connect} ms |
| time from `kill -9` of the only worker to the next record, longest of {kills} (Kafka Connect: of {kills_of_connect}) | {kill} s instead of {kill_of_connect} s |
| time from worker start until its task runs | {start} s instead of {start_of_connect} s, because Spark has to start |

Mirroring compared with MirrorMaker 2, both exactly once and tuned: {large} times as many records per second with large
batches, {small} times with batches of 16 KiB, {records} times record by record (one turn each). The median time until a
record is visible is {seen} ms; with MirrorMaker 2 it is {seen_of_connect} ms.

Topic to topic compared with Kafka Streams, both exactly once: {one} times as many records per second with one task and
{all} times with all cores, using {one_cpu} and {all_cpu} of the CPU time. Spark Structured Streaming is at least once;
compared with it, Fencepost moves {spark} times as many records per second.
"""  # noqa: E501

_CPU = "processor time of the worker and all below it for a million records"
_ALL_CPU = "processor time of all its processes for a million records"
_SMALL, _LARGE = "exactly-once, a transaction each poll, batch.size 2000", "exactly-once, batch.size 20000, tuned"
_FOUR, _LONG = "4 connectors with one task each, tuned", "exactly-once, a transaction each 5 s, tuned"
_SINKS = ("topic of 1 partition to a file", "topic of 4 partitions to a file")
_DEBEZIUM = ("Debezium's snapshot of a table of Postgres", "Debezium's stream of inserted rows")
_LINE = "a line appended at a random moment → visible"
_KILL = "kill -9 of the only worker and all below it, restarted at once → next committed record"
_START = "worker start → its task RUNNING"
_SEEN = "1000 records/s: produced → visible, p50 of a turn"
_ONE, _ALL = "1 task or thread, defaults", "2 tasks, 4 threads, all cores; tuned"
_RECORDS = "4 tasks, tuned, ours by records"


def write(results: Sequence[Mapping[str, Any]], readme: Path = README) -> None:
    """Write the figures between their marks. ValueError where a mark, or a row that is needed, is not there."""
    before, _, behind = readme.read_text().partition(BEGIN)
    _, end, after = behind.partition(END)
    if not end:
        raise ValueError(f"{readme} has no place for figures: put {BEGIN.strip()} and {END.strip()} around it")
    readme.write_text(f"{before}{BEGIN}{render(results)}{END}{after}")


def render(results: Sequence[Mapping[str, Any]]) -> str:
    """The figures of these results."""
    found = _Rows(results)
    return _TEXT.format(
        rates=" · ".join(found.ratio("throughput", name) for name in (_SMALL, _LARGE, _FOUR, _LONG)),
        sink=" · ".join(found.ratio("sink", name) for name in _SINKS),
        sink_cpu=" and ".join(dict.fromkeys(found.ratio("sink", f"{name}: {_CPU}") for name in _SINKS)),
        debezium=" · ".join(found.ratio("java_debezium", name) for name in _DEBEZIUM),
        debezium_cpu=" and ".join(dict.fromkeys(found.ratio("java_debezium", f"{name}: {_CPU}") for name in _DEBEZIUM)),
        cpu=" · ".join(found.ratio("throughput", f"{name}: {_CPU}") for name in (_SMALL, _LARGE)),
        line=_short(found.of("latency", _LINE, "fencepost", "p50")),
        line_of_connect=_short(found.of("latency", _LINE, "connect", "p50")),
        kills=len(found.samples("recovery", _KILL, "fencepost")),
        kills_of_connect=len(found.samples("recovery", _KILL, "connect")),
        kill=_one_place(found.of("recovery", _KILL, "fencepost", "max")),
        kill_of_connect=_one_place(found.of("recovery", _KILL, "connect", "max")),
        start=_one_place(found.of("start", _START, "fencepost")),
        start_of_connect=_one_place(found.of("start", _START, "connect")),
        large=found.ratio("mirror", "4 tasks, tuned, batches of 256 KiB"),
        small=found.ratio("mirror", "4 tasks, tuned, batches of 16 KiB"),
        records=found.ratio("mirror", _RECORDS),
        seen=_one_place(found.of("mirror", _SEEN, "fencepost")),
        seen_of_connect=_one_place(found.of("mirror", _SEEN, "connect")),
        one=found.ratio("stream", _ONE, "streams"),
        all=found.ratio("stream", _ALL, "streams"),
        one_cpu=found.ratio("stream", f"{_ONE}: {_ALL_CPU}", "streams"),
        all_cpu=found.ratio("stream", f"{_ALL}: {_ALL_CPU}", "streams"),
        spark=found.ratio("stream", _ALL, "spark"),
    )


class _Rows:
    """The samples of all results, by part and name of the row."""

    def __init__(self, results: Sequence[Mapping[str, Any]]) -> None:
        self._rows = {(result["part"], row["name"]): row for result in results for row in result["rows"]}

    def samples(self, part: str, name: str, side: str) -> Sequence[float]:
        found: Sequence[float] = self._rows.get((part, name), {}).get("samples", {}).get(side, ())
        if not found:
            raise ValueError(f"there is no {name!r} of {side} in {part}.json, which the README needs")
        return found

    def of(self, part: str, name: str, side: str, statistic_name: str = "median") -> float:
        return statistic(statistic_name, self.samples(part, name, side))

    def ratio(self, part: str, name: str, other: str = "connect") -> str:
        """Ours by theirs."""
        return _one_place(self.of(part, name, "fencepost") / self.of(part, name, other))


def _one_place(value: float) -> str:
    return f"{value:.1f}"


def _short(value: float) -> str:
    """Two digits that say something."""
    return f"{float(f'{value:.2g}'):g}"
