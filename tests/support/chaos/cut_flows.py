"""What flows while a broker is cut off: each kind of connector, what it has shown, and what it should have."""

import functools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, TopicPartition

from support.chaos import cut_program
from support.chaos.processes import below
from support.quick import spark_properties

PARTITIONS = 3
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_STRING = "org.apache.kafka.connect.storage.StringConverter"
_PLAIN = {f"{kind}.converter": _BYTES for kind in ("key", "value", "header")}
_JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "value.schema": "n INT",
    "epoch.interval.ms": "300",
}
Shown = Callable[[str], Sequence[int]]
_MEMBER = {"consumer.override.session.timeout.ms": "6000", "consumer.override.heartbeat.interval.ms": "500"}


class Watch:
    """Follows topics as an application would, by librdkafka, in a thread. A context manager."""

    def __init__(self, bootstrap: str, topics: Mapping[str, int]) -> None:
        """`topics` have so many partitions."""
        self._found: dict[str, list[list[int]]] = {topic: [[] for _ in range(count)] for topic, count in topics.items()}
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "watch",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                # It does not wait for the broker that is cut off.
                "topic.metadata.refresh.interval.ms": 1000,
                "socket.timeout.ms": 4000,
                "reconnect.backoff.max.ms": 1000,
            }
        )
        self._consumer.assign([TopicPartition(name, p, 0) for name, count in topics.items() for p in range(count)])
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def numbers(self, topic: str) -> list[int]:
        """Return what was seen in a topic, partition by partition. Raises what the thread has failed with."""
        if self._error is not None:
            raise AssertionError(f"the watch has failed: {self._error!r}") from self._error
        return [n for found in self._found[topic] for n in list(found)]

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                for message in self._consumer.consume(500, 0.1):
                    error = message.error()
                    if error is None:
                        self._found[message.topic()][message.partition()].append(number_of(message.value()))
                    elif error.fatal() or error.name() in ("OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"):
                        raise AssertionError(str(error))
        except Exception as error:
            self._error = error


def number_of(value: bytes | str) -> int:
    """Return the number of a record, `{"n": 5}` or `0:5`."""
    text = value.decode() if isinstance(value, bytes) else value
    return int(json.loads(text)["n"]) if text.startswith("{") else int(text.rpartition(":")[2])


HERE, SPARK, THERE, PROGRAM = "here", "spark", "there", "program"
"""Workers: without Spark, with Spark, and one of another cluster, without Spark; and a program of a user's."""


class Flow:
    """A connector. `is_exact` where a kill doubles nothing; `reads` what it is fed by, and `writes` a topic, if any.

    `at` names the worker that has it.
    """

    def __init__(
        self,
        name: str,
        config: Mapping[str, str],
        shown: Callable[[], Sequence[int]],
        *,
        reads: str = "topic",
        writes: str = "",
        is_exact: bool = True,
        at: str = HERE,
    ) -> None:
        self.name = name
        self.at = at
        self.config = dict(config)
        self.shown = shown
        self.reads = reads
        self.writes = writes
        self.is_exact = is_exact


def flows(directory: Path, topic: str, watch: Shown) -> list[Flow]:
    """Return the connectors of a worker without Spark; `watch` returns what a topic has."""
    lines = directory / "plain.txt"
    return [
        Flow(
            "plain",
            {
                "connector.class": "FileStreamSink",
                "topics": topic,
                "file": str(lines),
                "value.converter": _STRING,
                **_MEMBER,
            },
            functools.partial(_in_lines, lines),
            is_exact=False,
        ),
        _into_topic(
            "copy",
            {
                "connector.class": "FileStreamSource",
                "file": str(directory / FED_LINES),
                "topic": f"{topic}-copy",
                "value.converter": _STRING,
            },
            watch,
            to=f"{topic}-copy",
            reads="lines",
        ),
        _into_topic(
            "stream",
            {
                "connector.class": "scripted_stream.ScriptedStream",
                "topics": topic,
                "target": f"{topic}-stream",
                **_PLAIN,
                **_MEMBER,
            },
            watch,
            to=f"{topic}-stream",
        ),
    ]


def spark_flows(directory: Path, topic: str, watch: Shown) -> list[Flow]:
    """Return the connectors of a worker with Spark."""
    out = directory / "files"
    shared = {"topics": topic, **_JSON, **_MEMBER}
    files = {"connector.class": "fencepost.connector.files_sink.FilesSink", "path": str(out), "format": "json"}
    sql = {
        "connector.class": "fencepost.connector.topic_sql.TopicSql",
        "output.topic": f"{topic}-sql",
        "transforms.sql": "SELECT value.n FROM records",
    }
    return [
        Flow("files", {**files, **shared}, functools.partial(_in_files, out), at=SPARK),
        _into_topic("sql", {**sql, **shared}, watch, to=f"{topic}-sql", at=SPARK),
    ]


def mirror_flows(topic: str, here: str, there: str, watch: Shown, watch_there: Shown) -> list[Flow]:
    """Return mirrors of both types, from the other cluster and to it."""
    sink = {"transaction.producer": "true", **_MEMBER}
    return [
        _mirror("west", "Source", topic, there, here, watch, reads="there", at=HERE),
        _mirror("south", "Sink", topic, there, here, watch, reads="there", at=HERE, **sink),
        _mirror("east", "Source", topic, here, there, watch_there, at=THERE),
        _mirror("north", "Sink", topic, here, there, watch_there, at=THERE, **sink),
    ]


class Program:
    """The program `cut_program` in a process of its own, to be killed and started as a worker is."""

    def __init__(self, bootstrap: str, directory: Path, topic: str) -> None:
        self.properties = {"bootstrap.servers": bootstrap}
        self._directory = directory
        self._topic = topic
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Program":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, within_s: float = 0) -> None:
        """Start it and return at once."""
        given = {
            "conf": spark_properties(),
            "bootstrap": self.properties["bootstrap.servers"],
            "directory": str(self._directory),
            "topic": self._topic,
            "target": f"{self._topic}-direct",
        }
        with (self._directory / "program.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, cut_program.__file__, json.dumps(given)],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},  # Spark's workers need Fencepost, too
            )

    def check(self) -> None:
        """Raise AssertionError where it has ended."""
        assert self._process is not None
        assert self._process.poll() is None, self.newest_log_text()[-4000:]

    def kill(self) -> None:
        assert self._process is not None
        for each in (psutil.Process(self._process.pid), *below(self._process.pid)):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._process.wait()

    def newest_log_text(self) -> str:
        return (self._directory / "program.log").read_text(errors="replace")


def program_flows(directory: Path, topic: str, watch: Shown) -> list[Flow]:
    """Return the streams and the direct writes of the program. They have no configs, as they are no connectors."""
    streams = [Flow(out, {}, functools.partial(_in_stream, directory / out), at=PROGRAM) for out in cut_program.OUTS]
    return [*streams, _into_topic("direct", {}, watch, to=f"{topic}-direct", reads="nothing", at=PROGRAM)]


def _in_stream(directory: Path) -> list[int]:
    """Return the numbers in the files that Spark has committed, in their order."""
    files: list[str] = []
    logs = sorted((directory / "_spark_metadata").glob("[0-9]*"), key=lambda path: int(path.name.partition(".")[0]))
    for log in logs:
        found = [json.loads(line)["path"] for line in log.read_text().splitlines()[1:]]
        files = found if log.name.endswith(".compact") else files + found
    return [n for file in files for n in _in_stream_file(file.removeprefix("file://"))]


@functools.cache
def _in_stream_file(path: str) -> list[int]:
    return [number_of(json.loads(line)["value"]) for line in Path(path).read_text().splitlines()]


def _into_topic(name: str, config: Mapping[str, str], watch: Shown, *, to: str, **how: Any) -> Flow:
    return Flow(name, config, functools.partial(watch, to), writes=to, **how)


FED_LINES = "fed.txt"
"""The file that sources read."""


def java_flows(directory: Path, topic: str, watch: Shown) -> list[Flow]:
    """Return connectors in Java: a sink, and a source that counts by itself."""
    lines = directory / "java.txt"
    return [
        Flow(
            "jsink",
            {
                "connector.class": "tests.LinesSinkConnector",
                "topics": topic,
                "file": str(lines),
                "value.converter": _STRING,
                **_MEMBER,
            },
            functools.partial(_in_lines, lines),
            is_exact=False,
        ),
        Flow(
            "jsource",
            {
                "connector.class": "tests.NumberSourceConnector",
                "topic": f"{topic}-jsource",
                "tasks.max": "1",
                "count": str(10**9),
                "pause.ms": "100",
                "value.converter": _STRING,
            },
            functools.partial(watch, f"{topic}-jsource"),
            reads="nothing",
            writes=f"{topic}-jsource",
        ),
    ]


def _mirror(
    alias: str,
    kind: str,
    topic: str,
    source: str,
    target: str,
    watch: Shown,
    *,
    at: str,
    reads: str = "topic",
    **more: str,
) -> Flow:
    factors = ("checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.", "")
    replicas = "1" if at == THERE else "3"
    config = {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": alias,
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": source,
        "target.cluster.bootstrap.servers": target,
        "topics": topic,
        **{f"{prefix}replication.factor": replicas for prefix in factors},
        "offset-syncs.topic.location": "target",
        **more,
    }
    return _into_topic(alias, config, watch, to=f"{alias}.{topic}", reads=reads, at=at)


def _in_lines(path: Path) -> list[int]:
    text = path.read_text() if path.exists() else ""
    return [number_of(line.partition("@")[2].partition(" ")[2] or line) for line in _whole(text)]


def _whole(text: str) -> Iterable[str]:
    return text[: text.rfind("\n") + 1].splitlines()


def _in_files(directory: Path) -> list[int]:
    return [n for path in sorted(directory.glob("*.json")) for n in _in_file(str(path), _identity(path))]


def _identity(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@functools.cache
def _in_file(path: str, identity: tuple[int, ...]) -> list[int]:
    """Return the numbers of a file; one that has not changed is not read again."""
    return [json.loads(line)["n"] for line in Path(path).read_text().splitlines()]


def topics_of(flows: Iterable[Flow], topic: str, *, there: bool = False) -> dict[str, int]:
    """Return the topics of these flows in a cluster, with how many partitions each has."""
    written = [flow.writes for flow in flows if flow.writes and (flow.at == THERE) is there]
    return {topic: PARTITIONS, **{name: PARTITIONS if name.endswith(f".{topic}") else 1 for name in written}}
