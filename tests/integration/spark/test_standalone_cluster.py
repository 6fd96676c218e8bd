"""Tasks in slots and DataFrame splits on a real Spark cluster whose executors are killed."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import orjson
import psutil
import pytest
import slot_entry
from pyspark.sql.functions import udf
from secret_values import CHANNEL_SECRET, SECRET
from split_worker import SplitWorker, serving

from fencepost.api import ConfigError, Epoch, OffsetRange
from fencepost.builtin.connector.files.sink import FilesSink
from fencepost.builtin.connector.spool.source import SpoolDirectorySource
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.log import LogReader
from fencepost.spark.session.session import SparkRuntime
from fencepost.spark.slot.job import SlotJobs
from fencepost.task.channel.client import SECRET_VARIABLE
from fencepost.testing import eventually
from support.log_writer import LogWriter
from support.quick import spark_properties
from support.standalone import StandaloneCluster, standalone

ROWS = 60_000
_EXECUTORS_S = 200.0  # until a JVM is started and asked; seconds where nothing else runs


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone(tmp_path_factory.mktemp("standalone"), workers=1, cores=8) as started:  # of two executors
        yield started


@pytest.fixture(scope="module")
def on_cluster(no_shared_runtime: None, cluster: StandaloneCluster) -> Iterator[SparkRuntime]:
    properties = {
        "spark.master": cluster.url,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "4",
        **spark_properties(),
    }
    secrets = {"TEST_SECRET": SECRET, SECRET_VARIABLE: CHANNEL_SECRET}
    started = SparkRuntime(properties, secrets=secrets, py_files=[slot_entry.__file__])
    started.start()
    yield started
    started.stop()


def test_runtime_has_the_cores_of_the_executors(on_cluster: SparkRuntime) -> None:
    eventually(lambda: on_cluster.cores == 8, within_s=_EXECUTORS_S)


def test_topics_are_read_by_the_executors(on_cluster: SparkRuntime, kafka: EmbeddedKafka, topic_name: str) -> None:
    """Nothing goes from the driver to them but the plan."""
    writer = LogWriter(kafka.bootstrap_servers)
    writer.topic(topic_name, 4)
    for partition in range(4):
        writer.write(topic_name, [str(n) for n in range(1_000)], partition)
    writer.settle([topic_name])
    writer.close()
    reader = on_cluster.session.read.format("fencepost").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    rows = (
        reader.option("subscribe", topic_name).load().selectExpr("partition", "cast(cast(value AS string) AS int) AS n")
    )
    found = {row.partition: row["sum(n)"] for row in rows.groupBy("partition").sum("n").collect()}
    assert found == dict.fromkeys(range(4), sum(range(1_000)))


def test_a_files_sink_notices_that_executors_write_to_other_directories(
    on_cluster: SparkRuntime, topic_name: str, tmp_path: Path
) -> None:
    """Each process has a directory of its own under this path, as each machine has a local disk."""
    session, epoch = on_cluster.session, Epoch(1, tuple(OffsetRange("t", n, 0, 50) for n in range(2)))
    eventually(lambda: on_cluster.cores == 8, within_s=_EXECUTORS_S)
    apart = FilesSink({"name": "c", "path": f"/proc/self/cwd/{topic_name}", "format": "json"})
    try:
        with pytest.raises(ConfigError, match=r"^path=/proc/.* is another directory on .*: executors do not write"):
            apart.started(session, 0, ())
        with pytest.raises(
            ConfigError, match=r"^path=/proc/.*: 2 of Spark's tasks have written rows, and none of their"
        ):
            apart.write(session, session.range(0, 100, 1, 2), epoch)
        apart.publish(session, epoch, apart.write(session, session.range(0, 100, 1, 2).where("id < 0"), epoch))
    finally:
        shutil.rmtree(topic_name, ignore_errors=True)
    shared = FilesSink({"name": "c", "path": str(tmp_path / "out"), "format": "json"})
    shared.started(session, 0, ())
    for rows in (session.range(0, 100, 1, 2), session.range(100, 200, 1, 2).where("id < 150").repartition(1)):
        shared.publish(session, epoch, shared.write(session, rows, epoch))
        epoch = Epoch(2, tuple(OffsetRange("t", n, 50, 100) for n in range(2)))
    lines = [line for path in sorted((tmp_path / "out").glob("*.json")) for line in path.read_text().splitlines()]
    assert sorted(json.loads(line)["id"] for line in lines) == list(range(150))


def test_slot_runs_again_elsewhere_with_its_secret_when_its_executor_is_killed(
    cluster: StandaloneCluster, on_cluster: SparkRuntime, tmp_path: Path
) -> None:
    ends: list[tuple[str, Exception | None]] = []
    jobs = SlotJobs(on_cluster, slot_entry.run, lambda slot_id, error: ends.append((slot_id, error)))
    file = tmp_path / "slot"
    jobs.launch("a", json.dumps({"file": str(file)}))
    first = eventually(lambda: json.loads(file.read_text()), within_s=_EXECUTORS_S)
    executor = cluster.executor_of(first["pid"])
    for process in (*cluster.executors(), psutil.Process(on_cluster.jvm_pid)):
        with contextlib.suppress(psutil.NoSuchProcess):
            assert SECRET not in " ".join(process.cmdline())
    executor.kill()
    second = json.loads(eventually(lambda: file.read_text().splitlines()[1:], within_s=_EXECUTORS_S)[0])
    assert (first["attempt"], second["attempt"], second["secret"]) == (0, 1, SECRET)
    eventually(lambda: not psutil.pid_exists(first["pid"]))
    jobs.cancel("a")
    eventually(lambda: ends == [("a", None)], within_s=60)


def test_e11_secret_is_in_neither_the_conf_nor_a_plan_of_a_cluster(on_cluster: SparkRuntime) -> None:
    eventually(lambda: on_cluster.cores == 8, within_s=_EXECUTORS_S)
    secret = udf(lambda _: os.environ["TEST_SECRET"], useArrow=False)
    rows = on_cluster.session.range(1).select(secret("id").alias("secret"))
    assert [row.secret for row in rows.collect()] == [SECRET]
    execution = rows._jdf.queryExecution()
    plans = [execution.toString(), execution.logical().toJSON(), execution.executedPlan().toJSON()]
    assert SECRET not in f"{plans} {on_cluster.context.getConf().getAll()}"


def test_split_is_written_once_when_its_executor_is_killed_in_the_middle(
    cluster: StandaloneCluster, on_cluster: SparkRuntime, kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(topic_name, partitions=1, replication=1)
    admin.topics.create(f"{topic_name}-offsets", partitions=1, replication=1, configs={"cleanup.policy": "compact"})
    (tmp_path / "a.csv").write_text("".join(f"{n}\n" for n in range(ROWS)))
    connector = SpoolDirectorySource({"input.path": str(tmp_path), "input.schema": "id INT", "topic": topic_name})
    (split,) = connector.splits(on_cluster.session)
    with serving(KillingWorker(on_cluster, kafka.bootstrap_servers, topic_name, cluster), CHANNEL_SECRET) as worker:
        assert worker.run(connector, split)["rows"] == [ROWS]
        assert worker.admissions == 2
        assert worker.run(connector, split)["skipped"]
    ids: list[int] = []
    reader = LogReader({"bootstrap.servers": kafka.bootstrap_servers}, topic_name)
    reader.read_to_end(60, lambda record: ids.append(orjson.loads(record.value or b"")["id"]))
    reader.close()
    assert ids == list(range(ROWS))


class KillingWorker(SplitWorker):
    """Kills the executor that asks, once, whether the first attempt may commit: all its rows are sent by then."""

    def __init__(self, runtime: SparkRuntime, bootstrap: str, topic: str, cluster: StandaloneCluster) -> None:
        super().__init__(runtime, bootstrap, topic)
        self.cluster = cluster
        self.unchanged = self._answers()

    def _answers(self) -> Iterator[bool]:
        busy = [e for e in self.cluster.executors() if _is_writing(e)]
        assert busy
        for executor in busy:
            executor.kill()
        while True:
            yield True


def _is_writing(executor: psutil.Process) -> bool:
    """Say whether a Python process below the executor is connected to a broker, as one that writes is."""
    leaves = [child for child in executor.children(recursive=True) if not child.children()]
    return any(leaf.net_connections(kind="tcp") for leaf in leaves)
