"""Direct writes whose program is killed: what a rerun does, and what the killed one leaves open."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
from pyspark.sql.functions import udf

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.log import LogReader
from fencepost.spark.direct_write.options import DirectWriteOptions
from fencepost.spark.direct_write.plan import end_run, plan_write
from fencepost.spark.session.session import SparkRuntime
from fencepost.testing import eventually
from support.quick import spark_properties

pytestmark = pytest.mark.drawn(3)

_LINES = 6_000
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ALL = [*(f"line {n:06} {'.' * 200}" for n in range(_LINES - 1)), "last"]
_PROGRAM = Path(__file__).with_name("direct_write_program.py")
_WITHIN_S = 240

Program = subprocess.Popen[str]
Start = Callable[..., Program]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """A file of `_ALL`."""
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{line}\n" for line in _ALL))
    return file


@pytest.fixture
def topic(kafka: EmbeddedKafka, topic_name: str) -> str:
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=1, replication=1)
    return topic_name


@pytest.fixture
def start(kafka: EmbeddedKafka, topic: str, lines: Path, tmp_path: Path) -> Iterator[Start]:
    """Start a program that writes with options (`write_id`) on one core, and never hands over the last line."""
    with contextlib.ExitStack() as stack:

        def started(**options: str) -> Program:
            given = {
                "bootstrap": kafka.bootstrap_servers,
                "master": "local[1]",
                "files": str(lines),
                "conf": spark_properties() | _cut(lines) | {_BATCH: "100"},
                "partitions": 2,
                "gate": str(tmp_path / "gate"),
                "options": {"topic": topic} | {k.replace("_", "."): v for k, v in options.items()},
            }
            program = subprocess.Popen(
                [sys.executable, str(_PROGRAM), json.dumps(given)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            )
            stack.callback(_kill, program)
            return program

        yield started


def test_a_rerun_with_other_partitions_is_refused_else_the_rest_is_written(
    kafka: EmbeddedKafka, topic: str, start: Start, runtime: SparkRuntime, lines: Path
) -> None:
    """Spark cuts a scan by the number of its cores: partitions that are left out are not those that were written.

    The batch client wrote them, and librdkafka writes the rest.
    """

    def rerun(cores: int) -> None:
        cut = _cut(lines) | {"spark.sql.files.minPartitionNum": str(cores)}  # by default the number of cores
        with _session_conf(runtime, cut):
            frame = runtime.session.read.text(str(lines)).coalesce(2)
            _write(kafka, frame, **{"topic": topic, "write.id": topic, "write.partitions": "2"})

    killed = start(write_id=topic, write_partitions="2", producer_client="batch")
    first = eventually(lambda: _committed(kafka, topic), within_s=_WITHIN_S)
    _kill(killed)

    with pytest.raises(Exception, match=f"partition 0 had {len(first)} rows"):
        rerun(cores=4)
    assert _committed(kafka, topic) == first

    rerun(cores=1)
    assert sorted(_committed(kafka, topic)) == sorted(_ALL)


def test_a_rerun_of_another_write_is_refused_with_the_differences(
    kafka: EmbeddedKafka, topic: str, runtime: SparkRuntime
) -> None:
    def write(rows: str, **options: str) -> None:
        frame = runtime.session.range(0, 20, 1, 2).selectExpr(f"{rows} as value")
        _write(kafka, frame, **{"topic": topic, "write.id": topic, "write.partitions": "2"} | options)

    write("cast(id as string)")
    with pytest.raises(Exception, match=rf"it was begun with topic={topic}, and now it is topic=other"):
        write("cast(id as string)", topic="other")
    with pytest.raises(Exception, match="its columns were struct<value:string>, and now they are struct<value:binary>"):
        write("cast(cast(id as string) as binary)")
    with pytest.raises(Exception, match="partition 1 has other rows than the 10 that are committed, or in another or"):
        write("cast(if(id < 10, id, 29 - id) as string)")
    write("cast(id as string)")
    assert sorted(map(int, _committed(kafka, topic))) == list(range(20))


def test_a_rerun_resumes_after_committed_parts_only_if_their_rows_are_the_same(
    kafka: EmbeddedKafka, topic: str, runtime: SparkRuntime, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    options = {"topic": topic, "write.id": topic, "write.partitions": "1", "rows.per.commit": "300"}
    rows = runtime.session.range(0, 1000, 1, 1).selectExpr("id", "repeat('.', 2000) as filling")

    def failing(number: int, filling: str) -> str:
        if number == 700:
            eventually(lambda: gate.exists(), within_s=300)
            raise ValueError("no more rows")
        return filling

    with _session_conf(runtime, {_BATCH: "50"}), _pool(runtime) as pool:
        frame = rows.select("id", udf(failing)("id", "filling").alias("filling"))
        writing = pool.submit(_write, kafka, frame, **options)
        eventually(lambda: len(_committed(kafka, topic)) == 600, within_s=_WITHIN_S)
        gate.touch()
        with pytest.raises(Exception, match="no more rows"):
            writing.result(_WITHIN_S)

    with pytest.raises(Exception, match="partition 0 has other rows than the 600 that are committed"):
        _write(kafka, rows.sortWithinPartitions("id", ascending=False), **options)
    assert len(_committed(kafka, topic)) == 600
    _write(kafka, rows, **options)
    assert [orjson.loads(value)["id"] for value in _committed(kafka, topic)] == list(range(1000))


def test_open_transaction_of_a_killed_write_is_ended_by_the_next_write(
    kafka: EmbeddedKafka, topic: str, start: Start, runtime: SparkRuntime
) -> None:
    killed = start()
    first = eventually(lambda: _committed(kafka, topic), within_s=_WITHIN_S)
    eventually(lambda: _open(kafka), within_s=_WITHIN_S)
    _kill(killed)
    assert _open(kafka)

    _write(kafka, runtime.session.range(10).selectExpr("cast(id as string) as value"), topic=topic)
    assert _open(kafka) == set()
    assert len(_committed(kafka, topic)) == len(first) + 10


def test_driver_ends_the_transactions_of_a_failed_write_and_removes_its_markers(
    kafka: EmbeddedKafka, topic: str, runtime: SparkRuntime, held_frame: Any
) -> None:
    own = _own_markers(topic)
    with _pool(runtime) as pool:
        writing = pool.submit(_write, kafka, held_frame, **own)
        _await_open(kafka, writing)
        _signal_python_workers(runtime, signal.SIGKILL)
        with pytest.raises(Exception, match="Python"):
            writing.result(_WITHIN_S)
    assert _open(kafka) == set()
    assert _markers(kafka, own) == {}
    assert _committed(kafka, topic) == []


def test_a_running_write_is_not_ended_by_another_write(
    kafka: EmbeddedKafka, topic: str, runtime: SparkRuntime, held_frame: Any, tmp_path: Path
) -> None:
    own = _own_markers(topic)
    with _pool(runtime) as pool:
        writing = pool.submit(_write, kafka, held_frame, **own)
        living = _await_open(kafka, writing)
        _write(kafka, runtime.session.range(10).selectExpr("cast(id as string) as value"), **own)
        assert _open(kafka) == living
        (tmp_path / "gate").touch()
        writing.result(_WITHIN_S)
    assert len(_committed(kafka, topic)) == _LINES + 10
    assert _markers(kafka, own) == {}


def test_a_suspended_write_ended_by_another_write_commits_nothing_on_resume(
    kafka: EmbeddedKafka, topic: str, runtime: SparkRuntime, held_frame: Any, tmp_path: Path
) -> None:
    own = _own_markers(topic)
    with _pool(runtime) as pool:
        writing = pool.submit(_write, kafka, held_frame, **own)
        _await_open(kafka, writing)
        _signal_python_workers(runtime, signal.SIGSTOP)
        try:
            _plan_another(kafka, own)
            assert _open(kafka) == set()
        finally:
            (tmp_path / "gate").touch()
            _signal_python_workers(runtime, signal.SIGCONT)
        with pytest.raises(Exception, match=r"fenced|FencedError"):
            writing.result(_WITHIN_S)
    assert _open(kafka) == set()
    assert _committed(kafka, topic) == []
    assert _markers(kafka, own) == {}


def _held(gate: str) -> Callable[[str], str]:
    """Return what hands over the last line once the gate is there."""

    def held(line: str) -> str:
        if line == "last":
            eventually(lambda: Path(gate).exists(), within_s=300)
        return line

    return held


@pytest.fixture
def held_frame(runtime: SparkRuntime, lines: Path, tmp_path: Path) -> Iterator[Any]:
    """A frame of one partition, whose last line comes once `tmp_path / "gate"` is there, and the others before."""
    with _session_conf(runtime, {_BATCH: "100"}):
        frame = runtime.session.read.text(str(lines)).coalesce(1)
        yield frame.select(udf(_held(str(tmp_path / "gate")))("value").alias("value"))


def _write(kafka: EmbeddedKafka, frame: Any, **options: str) -> None:
    writer = frame.write.format("fencepost").mode("append").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    writer.options(**options).save()


def _open(kafka: EmbeddedKafka) -> set[str]:
    """Return the transactional ids of direct writes with an open transaction."""
    found = Admin({"bootstrap.servers": kafka.bootstrap_servers}).transactions.list(["Ongoing"])
    return {t.transactional_id for t in found if t.transactional_id.startswith("fencepost-write-")}


def _await_open(kafka: EmbeddedKafka, writing: "Future[None]") -> set[str]:
    """Return the open transactions once there is one, or raise what the write ended with."""
    eventually(lambda: writing.done() or _open(kafka), within_s=_WITHIN_S)
    if writing.done():
        writing.result()
    return _open(kafka)


def _own_markers(topic: str) -> dict[str, str]:
    """Return options of writes that hear nothing of what other tests leave."""
    return {"topic": topic, "offsets.topic": f"{topic}-markers"}


def _markers(kafka: EmbeddedKafka, options: dict[str, str]) -> dict[bytes | None, bytes]:
    """Return the markers in their topic."""
    found: dict[bytes | None, bytes | None] = {}
    reader = LogReader({"bootstrap.servers": kafka.bootstrap_servers}, options["offsets.topic"])
    reader.read_to_end(30, lambda record: found.update({record.key: record.value}))
    reader.close()
    return {key: value for key, value in found.items() if value is not None}


def _plan_another(kafka: EmbeddedKafka, options: dict[str, str]) -> None:
    """Do what a write does before its first task starts, and end it."""
    parsed = DirectWriteOptions.parse({**options, "kafka.bootstrap.servers": kafka.bootstrap_servers})
    end_run(parsed, plan_write(parsed, "struct<value:string>"), 0)


def _signal_python_workers(runtime: SparkRuntime, number: signal.Signals) -> None:
    """Signal the Python processes that run tasks, and not those in which Spark's driver plans, commits and aborts.

    In local mode both are below one JVM. If an idle one of the driver's is killed, Spark may choose it for the abort.
    """
    daemons = [p for p in psutil.Process(runtime.jvm_pid).children() if "pyspark.worker" in p.cmdline()]
    for worker in [w for daemon in daemons for w in daemon.children(recursive=True)]:
        worker.send_signal(number)


def _pool(runtime: SparkRuntime) -> ThreadPoolExecutor:
    """Return a thread for a write beside the test: Spark finds data sources by the session of the thread."""
    return ThreadPoolExecutor(1, initializer=runtime.adopt_thread, initargs=("write",))


def _cut(lines: Path) -> dict[str, str]:
    """Return the settings with which Spark cuts the file in three on one core, in four on four."""
    return {
        "spark.sql.files.maxPartitionBytes": str(int(lines.stat().st_size * 0.4)),
        "spark.sql.files.openCostInBytes": "1",
    }


@contextlib.contextmanager
def _session_conf(runtime: SparkRuntime, conf: dict[str, str]) -> Iterator[None]:
    session = runtime.session.conf
    before = {key: session.get(key, None) for key in conf}
    for key, value in conf.items():
        session.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            session.unset(key) if value is None else session.set(key, value)


def _committed(kafka: EmbeddedKafka, topic: str) -> list[str]:
    """Return the values before the first open transaction."""
    values: list[str] = []
    reader = LogReader({"bootstrap.servers": kafka.bootstrap_servers}, topic)
    reader.read_to_end(30, lambda record: values.append((record.value or b"").decode()), waits=False)
    reader.close()
    return values


def _kill(program: Program) -> None:
    """Kill the program, the JVM and the Python workers below it, none of which sees another one die."""
    with contextlib.suppress(psutil.NoSuchProcess):
        driver = psutil.Process(program.pid)
        processes = [driver, *driver.children(recursive=True)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
    program.communicate(timeout=_WITHIN_S)
