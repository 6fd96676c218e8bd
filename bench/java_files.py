"""Java connectors, here and on Kafka Connect: Kafka's file source and sink, their memory, and a start with plug-ins."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from bench import peer, sink
from bench.family import family
from bench.java_plugins import SINK, SOURCE, file_plugin, plugin_of
from bench.lines import number_of, write_lines
from bench.moving import Run, Runs, made_topic, moved, rows
from bench.options import Options, say
from bench.postgres import debezium
from bench.result import Result, Row
from bench.side import SIDES, Side
from bench.sink import filled
from bench.start import ROWS as STARTS
from bench.start import starts
from bench.watch import Watcher, last_value
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually

WIDTH = 100
_FILES = {"source": "Java's FileStreamSource, exactly-once", "sink": "Java's FileStreamSink"}
_CASES = (*_FILES, "memory", "start")
_TASKS = 10
_WITHIN_S = 240.0
_REST_S = 12.0  # what is free is given back each ten
_ROUNDS = 6
_MB = 1e6
_WITHOUT = "without plugins"


def run(options: Options) -> Result:
    """Run the cases, alternating between the sides."""
    cases = [case for case in _CASES if not options.cases or case in options.cases]
    lines = options.size(4_000_000, 1_000_000)
    result = Result("java_files", "Java connectors for files", _method(lines), _settings())
    runs: Runs = {}
    memory: dict[int, list[Mapping[str, float]]] = {1: [], _TASKS: []}
    samples: Mapping[str, Mapping[str, Sequence[float]]] = {}
    with options.directory() as directory, EmbeddedKafka() as kafka:
        plugins = directory / "plugins"
        file_plugin(plugins)
        for turn in options.turns_of(3):
            for name in options.sides(turn) if {*cases} & {*_FILES} else ():
                settings = {"plugin.path": str(plugins), **(options.ours if name == "fencepost" else {})}
                with SIDES[name](kafka.bootstrap_servers, directory, settings) as side:
                    for case in [each for each in _FILES if each in cases]:
                        move = _source if case == "source" else _sink
                        for label in ("warm", "run"):
                            done = move(side, kafka, directory, lines, f"{name}-{turn}-{label}")
                        runs.setdefault((case, name), []).append(done)
                        say(f"{case:7} {name:10} {done.rate:11,.0f} records/s  {dict(done.detail)}")
        if "memory" in cases:
            for tasks, found in memory.items():
                found.append(
                    _memory(kafka, directory, {"plugin.path": str(plugins), **options.ours}, lines // 10, tasks)
                )
                say(f"memory {tasks:3} tasks {dict(found[-1])}")
        if "start" in cases:
            samples = _starts(kafka, directory, options.size(_ROUNDS, 2))
    result.rows = rows(_FILES, runs, rate="1 × or more", processor="1.2 × or less")
    result.rows += [row for tasks, found in memory.items() for row in _memory_rows(tasks, found)]
    result.rows += [_start_row(what, samples) for what in ("rest", "running") if samples]
    return result


def _source(side: Side, kafka: EmbeddedKafka, directory: Path, lines: int, what: str) -> Run:
    """1. Topic. 2. POST, and wait until all is committed. 3. See that the last record is the last line."""
    topic = made_topic(kafka, f"{side.group}-{what}")  # 1
    file = _file(directory, lines)
    done = moved(side, kafka, topic, lines, lambda: side.create(topic, _source_config(file, topic)))  # 2
    last = last_value(kafka.bootstrap_servers, topic)  # 3
    if last is None or number_of(last) != lines - 1:
        raise ValueError(f"{topic} ends with {last!r}, not with line {lines - 1}")
    side.delete(topic)
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.delete([topic])
    return done


def _sink(side: Side, kafka: EmbeddedKafka, directory: Path, lines: int, what: str) -> Run:
    topic = filled(kafka.bootstrap_servers, 1, lines)
    return sink.move(side, kafka, topic, lines, directory / f"sink-{what}", SINK)


def _file(directory: Path, lines: int) -> Path:
    file = directory / f"lines-{lines}.txt"
    if not file.exists():
        write_lines(file, lines, WIDTH)
    return file


def _source_config(file: Path, topic: str) -> dict[str, str]:
    return {"connector.class": SOURCE, "tasks.max": "1", "file": str(file), "topic": topic}


def _memory(
    kafka: EmbeddedKafka, directory: Path, settings: Mapping[str, str], lines: int, tasks: int
) -> Mapping[str, float]:
    """Return the megabytes of a slot and its host once its tasks have read their lines and rested."""
    with SIDES["fencepost"](kafka.bootstrap_servers, directory, {"slots.max": "1", **settings}) as side:
        topics = [made_topic(kafka, f"{side.group}-{number}") for number in range(tasks)]
        for topic in topics:
            side.create(topic, _source_config(_file(directory, lines), topic))
        with Watcher(kafka.bootstrap_servers, topics) as watcher:
            watcher.until_quiet(tasks * lines, _REST_S, _WITHIN_S)
        host = eventually(lambda: _hosts_of_slots(side), within_s=_WITHIN_S)[0]
        slot = host.parent()
        assert slot is not None
        sizes = {"slot": slot.memory_info().rss / _MB, "host": host.memory_info().rss / _MB}
        private = {"private": (slot.memory_full_info().uss + host.memory_full_info().uss) / _MB}
        return {"both": sum(sizes.values()), **sizes, **private}


def _hosts_of_slots(side: Side) -> list[psutil.Process]:
    """Return the hosts that are children of slots, not of the worker."""
    return [each for each in family(side.pid) if _is_host(each) and each.ppid() != side.pid]


def _is_host(process: psutil.Process) -> bool:
    try:
        return "fencepost.host.Host" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def _memory_rows(tasks: int, found: Sequence[Mapping[str, float]]) -> list[Row]:
    reach = "170 or less" if tasks == 1 else "230 or less"
    noun = "a Java file source" if tasks == 1 else f"{tasks} Java file sources"
    detail = {"fencepost": [{key: round(value, 1) for key, value in each.items()} for each in found]}
    both, private = ({"fencepost": [each[what] for each in found]} for what in ("both", "private"))
    return [
        Row(f"resident size of a slot with {noun}, and of its host", "MB", both, reach=reach, detail=detail),
        Row(f"what no other process has mapped of a slot with {noun}, and of its host", "MB", private),
    ]


def _starts(kafka: EmbeddedKafka, directory: Path, rounds: int) -> Mapping[str, Mapping[str, Sequence[float]]]:
    """Start a worker with five plug-ins, and one without any, in turn."""
    five = directory / "five"
    file_plugin(five)
    debezium(five)
    for module in ("connect-test-plugins", "connect-transforms", "connect-mirror"):
        plugin_of(five, module, [peer.jar(module)])
    ours = SIDES["fencepost"]
    sides = {
        "fencepost": ours(kafka.bootstrap_servers, directory, {"plugin.path": str(five)}),
        _WITHOUT: ours(kafka.bootstrap_servers, directory),
    }
    return starts(kafka.bootstrap_servers, directory, sides, rounds)


def _start_row(what: str, samples: Mapping[str, Mapping[str, Sequence[float]]]) -> Row:
    reach = "0.5 s more or less"
    return Row(f"{STARTS[what][0]}, with five Java plug-ins", "s", samples[what], reach=reach)


def _settings() -> dict[str, dict[str, str]]:
    return {
        "source, sink": dict.fromkeys(SIDES, "tasks.max=1, all else at its default"),
        "memory": {"fencepost": "slots.max=1"},
    }


def _method(lines: int) -> list[str]:
    return [
        f"Kafka's own FileStreamSource reads a file of {lines:,} lines of {WIDTH} bytes, and FileStreamSink writes a "
        "topic of as many records to a file. Both sides run the same classes, under other names, since Fencepost has "
        "connectors in Python under theirs. A worker is started, does each case once as a warm-up, and then again. "
        "The rates are taken as for the connectors in Python.",
        f"The memory is the resident size of a slot's process and of its host, a JVM, {_REST_S:.0f} s after its file "
        f"sources have read {lines // 10:,} lines each. The start is that of a worker with one FileStreamSource in "
        "Python, with and without five Java plug-ins in plugin.path (Debezium's for Postgres among them).",
    ]
