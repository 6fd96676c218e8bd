"""Direct writes that are killed, run again, or run twice at the same time: each is there once, as a whole."""

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

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.read.log import LogReader
from fencepost.spark.session.session import SparkRuntime
from fencepost.testing import eventually
from support.chaos.wire import names
from support.proxy import Action, ApiKey, KafkaProxy, Request, Rule
from support.quick import spark_properties

_ROWS = 400
_PROGRAM = Path(__file__).with_name("write_program.py")
_WITHIN_S = 240


@pytest.fixture
def topic(kafka: EmbeddedKafka, topic_name: str) -> str:
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=2, replication=1)
    return topic_name


@pytest.fixture
def proxy(kafka: EmbeddedKafka) -> Iterator[KafkaProxy]:
    with KafkaProxy(kafka.bootstrap_servers) as between:
        yield between


@pytest.fixture
def frame(runtime: SparkRuntime) -> Any:
    return runtime.session.range(0, _ROWS, 1, 2).selectExpr("cast(id as string) as value")


@pytest.fixture
def logged(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Return everything that Spark's processes have written so far: the runtime prints it."""
    found: list[str] = []

    def text() -> str:
        found.append(capsys.readouterr().err)
        return "".join(found)

    return text


def _rows_held(topic: str, proxy: KafkaProxy) -> Rule:
    return proxy.on(ApiKey.PRODUCE, Action.HOLD, 1, lambda request: names(request, topic))


def _decision_held(topic: str, proxy: KafkaProxy) -> Rule:
    return proxy.on(ApiKey.PRODUCE, Action.HOLD, 1, lambda request: names(request, f"{topic}-writes"))


def _end_held(topic: str, proxy: KafkaProxy) -> Rule:
    return proxy.on(ApiKey.END_TXN, Action.HOLD, 1, lambda request: topic.encode() in request.frame)


def _answer_held(topic: str, proxy: KafkaProxy) -> Rule:
    return proxy.on(ApiKey.END_TXN, Action.HOLD_ANSWER, 1, lambda request: topic.encode() in request.frame)


_POINTS = {"rows": _rows_held, "decision": _decision_held, "end": _end_held, "answer": _answer_held}


@pytest.mark.parametrize("point", _POINTS)
def test_write_killed_at_any_point_of_its_commit_is_there_once_after_a_rerun(
    kafka: EmbeddedKafka, runtime: SparkRuntime, topic: str, proxy: KafkaProxy, frame: Any, point: str
) -> None:
    """The process that commits is killed: the broker sees what it sees when a driver is killed."""
    held = _POINTS[point](topic, proxy)
    with _pool(runtime) as pool:
        writing = pool.submit(_write, proxy.bootstrap_servers, frame, topic)
        _await_held(held, writing)
        expected = _numbers() if point == "answer" else []
        eventually(lambda: _committed(kafka, topic) == expected, within_s=_WITHIN_S)
        _kill_sender(runtime, held.requests[0])
        held.discard()
        with pytest.raises(Exception, match="Python"):
            writing.result(_WITHIN_S)
    _write(kafka.bootstrap_servers, frame, topic)
    assert _written(kafka, topic) == _numbers()
    assert _open(kafka, topic) == set()


def test_killed_program_leaves_nothing_visible_and_its_rerun_writes_all(
    kafka: EmbeddedKafka, topic: str, proxy: KafkaProxy, frame: Any
) -> None:
    """Driver, JVM and Python workers are killed at once, before the end of the transaction."""
    held = _end_held(topic, proxy)
    with _program(proxy.bootstrap_servers, topic) as program:
        eventually(lambda: held.is_holding or program.poll() is not None, within_s=_WITHIN_S)
        assert program.poll() is None, program.communicate()[0][-4000:]
    held.discard()
    assert _committed(kafka, topic) == []
    _write(kafka.bootstrap_servers, frame, topic)
    assert _written(kafka, topic) == _numbers()


def test_rerun_of_a_committed_write_is_skipped_even_with_other_rows(
    kafka: EmbeddedKafka, topic: str, frame: Any, logged: Callable[[], str]
) -> None:
    _write(kafka.bootstrap_servers, frame, topic)
    others = frame.union(frame).repartition(5).selectExpr("value as key", "value")
    for rerun in (frame, frame.coalesce(1), others):
        _write(kafka.bootstrap_servers, rerun, topic)
        assert _written(kafka, topic) == _numbers()
    eventually(lambda: f"write.id {topic} was committed at 20" in logged(), within_s=30)
    assert f"UTC with {_ROWS} records: nothing is written" in logged()


def test_write_of_no_rows_is_decided_too(kafka: EmbeddedKafka, topic: str, frame: Any) -> None:
    _write(kafka.bootstrap_servers, frame.where("value < 0"), topic)
    _write(kafka.bootstrap_servers, frame, topic)
    assert _committed(kafka, topic) == []


def test_anonymous_write_is_written_again_by_each_run(kafka: EmbeddedKafka, topic: str, frame: Any) -> None:
    for runs in (1, 2):
        _write(kafka.bootstrap_servers, frame, topic, write_id=None)
        assert _written(kafka, topic) == sorted(_numbers() * runs)
    assert _records(kafka, f"{topic}-writes") == {}


@pytest.mark.parametrize("point", ["rows", "end"])
def test_of_two_runs_at_once_the_newer_commits_and_the_older_is_fenced(
    kafka: EmbeddedKafka, runtime: SparkRuntime, topic: str, proxy: KafkaProxy, frame: Any, point: str
) -> None:
    held = _POINTS[point](topic, proxy)
    with _pool(runtime) as pool:
        older = pool.submit(_write, proxy.bootstrap_servers, frame, topic)
        _await_held(held, older)
        newer = frame.selectExpr("cast(value + 1000 as string) as value")
        _write(kafka.bootstrap_servers, newer, topic)
        held.release()
        with pytest.raises(Exception, match=f"another run of write.id {topic} has"):
            older.result(_WITHIN_S)
    assert _written(kafka, topic) == [n + 1000 for n in _numbers()]


def test_nothing_is_visible_when_a_task_fails(kafka: EmbeddedKafka, topic: str, frame: Any) -> None:
    failing = frame.selectExpr(f"if(value = '{_ROWS - 1}', raise_error('no more rows'), value) as value")
    with pytest.raises(Exception, match="no more rows"):
        _write(kafka.bootstrap_servers, failing, topic)
    assert _committed(kafka, topic) == []
    assert _open(kafka, topic) == set()
    _write(kafka.bootstrap_servers, frame, topic)
    assert _written(kafka, topic) == _numbers()


def _marker(partition: int, *, rows: int = _ROWS // 2, done: bool = True) -> tuple[Any, Any]:
    value = {"rows": rows, "done": done, "digest": "d", "partitions": 2, "topic": "t", "columns": "c", "run": "r"}
    return {"partition": partition}, value


def _run(*, over: bool) -> tuple[Any, Any]:
    return {}, {"run": "r", "partitions": 2, "over": over}


_FORMER = {
    "one of two partitions": [_run(over=True), _marker(0)],
    "a part of a partition": [_run(over=True), _marker(0), _marker(1, rows=7, done=False)],
    "a run that has not ended": [_run(over=False)],
    "other rows": [_run(over=True), _marker(0), _marker(1, rows=7)],
}


@pytest.mark.parametrize("records", _FORMER.values(), ids=_FORMER)
def test_write_half_committed_by_an_older_version_is_refused(
    kafka: EmbeddedKafka, topic: str, frame: Any, records: list[tuple[Any, Any]]
) -> None:
    _put_former(kafka, topic, records)
    with pytest.raises(Exception, match=f"write.id {topic} was begun by an older Fencepost"):
        _write(kafka.bootstrap_servers, frame, topic)
    assert _committed(kafka, topic) == []


def test_write_committed_by_an_older_version_is_skipped(
    kafka: EmbeddedKafka, topic: str, frame: Any, logged: Callable[[], str]
) -> None:
    _put_former(kafka, topic, [_run(over=True), _marker(0), _marker(1)])
    _write(kafka.bootstrap_servers, frame, topic)
    assert _committed(kafka, topic) == []
    eventually(lambda: f"write.id {topic} was committed" in logged(), within_s=30)


def test_write_that_failed_before_any_commit_of_an_older_version_is_written(
    kafka: EmbeddedKafka, topic: str, frame: Any
) -> None:
    _put_former(kafka, topic, [_run(over=True), ({"partition": 0}, None), ({"pulse": 0}, None)])
    _write(kafka.bootstrap_servers, frame, topic)
    assert _written(kafka, topic) == _numbers()


def _put_former(kafka: EmbeddedKafka, write_id: str, records: list[tuple[Any, Any]]) -> None:
    """Write what version 0.1.0 left in the topic of markers for a write with this id."""
    servers, markers = {"bootstrap.servers": kafka.bootstrap_servers}, f"{write_id}-writes"
    Admin(servers).topics.create(markers, partitions=1, replication=1, configs={"cleanup.policy": "compact"})
    producer = LibrdkafkaProducer(servers)
    for name, value in records:
        key = orjson.dumps(["fencepost-write", {"id": write_id, **name}])
        producer.produce(markers, None if value is None else orjson.dumps(value), key=key)
    producer.flush(30)
    producer.drop()


def _write(bootstrap: str, frame: Any, topic: str, **options: str | None) -> None:
    """Write under an id, and with decisions in a topic, that are named after the topic."""
    given = {"topic": topic, "write_id": topic, "offsets_topic": f"{topic}-writes"} | options
    writer = frame.write.format("fencepost").mode("append").option("kafka.bootstrap.servers", bootstrap)
    writer.options(**{key.replace("_", "."): value for key, value in given.items() if value is not None}).save()


def _numbers() -> list[int]:
    return list(range(_ROWS))


def _written(kafka: EmbeddedKafka, topic: str) -> list[int]:
    """Return the numbers of committed transactions, sorted, once each partition has the markers of those that ended."""
    return _committed(kafka, topic, waits=True)


def _committed(kafka: EmbeddedKafka, topic: str, *, waits: bool = False) -> list[int]:
    """Return the numbers before the first open transaction of each partition, sorted."""
    values: list[int] = []
    reader = LogReader({"bootstrap.servers": kafka.bootstrap_servers}, topic)
    reader.read_to_end(30, lambda record: values.append(int(record.value or b"")), waits=waits)
    reader.close()
    return sorted(values)


def _records(kafka: EmbeddedKafka, topic: str) -> dict[bytes | None, bytes]:
    found: dict[bytes | None, bytes | None] = {}
    reader = LogReader({"bootstrap.servers": kafka.bootstrap_servers}, topic)
    reader.read_to_end(30, lambda record: found.update({record.key: record.value}))
    reader.close()
    return {key: value for key, value in found.items() if value is not None}


def _open(kafka: EmbeddedKafka, topic: str) -> set[str]:
    """Return the ids of open transactions of writes to a topic."""
    found = Admin({"bootstrap.servers": kafka.bootstrap_servers}).transactions.list(["Ongoing"])
    return {each.transactional_id for each in found if topic in each.transactional_id}


def _await_held(held: Rule, writing: "Future[None]") -> None:
    """Wait until a request of the write is held, or raise what the write ended with."""
    eventually(lambda: held.is_holding or writing.done(), within_s=_WITHIN_S)
    if writing.done():
        writing.result()


def _kill_sender(runtime: SparkRuntime, request: Request) -> None:
    """Kill the Python process that has sent a request."""
    for process in psutil.Process(runtime.jvm_pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(each.laddr.port == request.client_port for each in process.net_connections()):
                process.send_signal(signal.SIGKILL)
                return
    raise AssertionError(f"no process has port {request.client_port}")


def _pool(runtime: SparkRuntime) -> ThreadPoolExecutor:
    """Return a thread for a write that goes on next to the test: Spark finds data sources by the thread's session."""
    return ThreadPoolExecutor(1, initializer=runtime.adopt_thread, initargs=("write",))


@contextlib.contextmanager
def _program(bootstrap: str, topic: str) -> "Iterator[subprocess.Popen[str]]":
    """Run a program that writes what `frame` has; in the end, kill it with its JVM and the Python workers."""
    given = {"bootstrap": bootstrap, "topic": topic, "rows": _ROWS, "conf": spark_properties()}
    program = subprocess.Popen(
        [sys.executable, str(_PROGRAM), json.dumps(given)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    try:
        yield program
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            driver = psutil.Process(program.pid)
            processes = [driver, *driver.children(recursive=True)]
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for process in processes:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.send_signal(number)
        program.communicate(timeout=_WITHIN_S)
