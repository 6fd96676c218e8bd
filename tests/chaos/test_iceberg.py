"""Iceberg's sink while its processes are killed: its table has each record once.

It commits the offsets of our members' group itself, in transactions of its own, together with what it writes. The task
with the group's first partition coordinates what all of them have written.
"""

import contextlib
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import fastavro
import psutil
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.embedded.home import pyspark_jars
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.transactions import TransactionAdmin
from fencepost.testing import eventually
from support.chaos.evidence import Evidence
from support.chaos.java_faults import JavaFault, struck
from support.cluster import LightWorker
from support.host_processes import hosts
from support.long_form import IS_LONG
from support.maven_plugin import plugin
from support.worker import Worker

ICEBERG = "1.12.0"
SETTINGS = {"offset.flush.interval.ms": "500"}
"""Of the worker. Iceberg's sink looks at its control topic when records are put, or it is time to put none."""
_DELETED = 2  # the status of an entry of a manifest


def iceberg(plugin_path: Path) -> None:
    """Put Iceberg's sink into a directory of `plugin.path`, with the Hadoop classes that come with PySpark."""
    hadoop = [jar for kind in ("api", "runtime") for jar in pyspark_jars().glob(f"hadoop-client-{kind}-*.jar")]
    assert len(hadoop) == 2, hadoop
    plugin("org.apache.iceberg", ("iceberg-kafka-connect", "iceberg-parquet"), ICEBERG, plugin_path, *hadoop)


def sink_config(topic: str, bootstrap: str, warehouse: Path, table: str) -> dict[str, str]:
    """Return the config of a sink that writes a topic of JSON into a table, which it makes.

    `earliest` is for the control topic: with its default, Iceberg's coordinator passes over what was written before it
    began, unless it has committed once.
    """
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": "1",
        "topics": topic,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "iceberg.catalog.type": "hadoop",
        "iceberg.catalog.warehouse": warehouse.as_uri(),
        "iceberg.tables": table,
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.control.topic": f"control-{topic}",
        "iceberg.control.commit.interval-ms": "1000",
        "iceberg.kafka.bootstrap.servers": bootstrap,
        "iceberg.kafka.auto.offset.reset": "earliest",
    }


def rows(warehouse: Path, table: str) -> list[Mapping[str, Any]]:
    """Return the rows of a table's current snapshot; none if there is no table or no snapshot yet."""
    return [
        row for file in _data_files(warehouse.joinpath(*table.split("."))) for row in pq.read_table(file).to_pylist()
    ]


def _data_files(table: Path) -> Iterator[Path]:
    newest = max(table.glob("metadata/v*.metadata.json"), key=_version, default=None)
    if newest is None:
        return
    metadata = json.loads(newest.read_text())
    current = metadata.get("current-snapshot-id")
    for snapshot in metadata.get("snapshots", ()):
        if snapshot["snapshot-id"] == current:
            for manifest in _avro(snapshot["manifest-list"]):
                entries = _avro(manifest["manifest_path"])
                yield from (_path(each["data_file"]["file_path"]) for each in entries if each["status"] != _DELETED)


def _version(metadata: Path) -> int:
    return int(metadata.name.split(".")[0].removeprefix("v"))


def _avro(url: str) -> list[Any]:
    with _path(url).open("rb") as file:
        return list(fastavro.reader(file))


def _path(url: str) -> Path:
    return Path(os.path.abspath(urlparse(url).path))


pytestmark = [pytest.mark.chaos, pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long")]
WITHIN_S = 240
TABLE = "shop.orders"
PASSES = int(os.environ.get("FENCEPOST_CHAOS_PASSES", "4"))
RECORDS = 200
SOON = {
    "iceberg.kafka.session.timeout.ms": "6000",  # when it notices its own dead
    "iceberg.kafka.heartbeat.interval.ms": "2000",
    "iceberg.kafka.transaction.timeout.ms": "10000",  # when the broker ends what its dead have begun
    "iceberg.control.commit.timeout-ms": "5000",  # how long it waits for tasks that had no record since they started
}
FAULTS = (
    JavaFault.KILL_HOST,
    JavaFault.KILL_SLOT,
    JavaFault.KILL_WORKER,
    JavaFault.STOP_BOTH,
    JavaFault.STOP_SLOT,
)


@pytest.fixture
def worker(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Worker]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    iceberg(plugins)
    settings = {
        "plugin.path": str(plugins),
        "spark.master": "local[4]",
        "slots.max": "2",
        "slot.lease.ms": "2000",
        **SETTINGS,
    }
    with LightWorker(kafka.bootstrap_servers, tmp_path, settings, group=f"iceberg-{os.getpid()}") as running:
        yield running


def produce(kafka: EmbeddedKafka, topic: str, partitions: int, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
    for number in range(first, first + count):
        producer.produce(topic, b'{"id": %d, "name": "order %d"}' % (number, number), partition=number % partitions)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.timeout(300 * len(FAULTS) * PASSES)
def test_iceberg_table_has_each_record_once(
    tasks: int,
    worker: Worker,
    kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    seed: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    warehouse = tmp_path / "warehouse"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=tasks, replication=1)
    produce(kafka, topic_name, tasks, 0, RECORDS)
    config = sink_config(topic_name, kafka.bootstrap_servers, warehouse, TABLE) | SOON
    config["tasks.max"] = str(tasks)
    answer = worker.create(topic_name, config)
    assert answer.status_code == 201, answer.text

    def ids() -> Counter[int]:
        return Counter(row["id"] for row in rows(warehouse, TABLE))

    eventually(lambda: len(ids()) == RECORDS, within_s=WITHIN_S)
    total = RECORDS
    drawn = random.Random(seed)
    with capfd.disabled(), contextlib.closing(Evidence(f"iceberg-{tasks}", seed)) as evidence:
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        for number, fault in enumerate((f for _ in range(PASSES) for f in drawn.sample(FAULTS, len(FAULTS))), 1):
            produce(kafka, topic_name, tasks, total, RECORDS // 2)
            began = time.monotonic()
            with struck(worker, fault, drawn.randrange(tasks)):
                produce(kafka, topic_name, tasks, total + RECORDS // 2, RECORDS // 2)
                total += RECORDS
                eventually(lambda: len(ids()) >= total, within_s=WITHIN_S)  # noqa: B023
                took_s = time.monotonic() - began
            evidence.fault(fault.value, "any moment", None, took_s, task_kind="Java")
            print(f"fault {number}: {fault.value}: {took_s:.1f} s to the records after it", flush=True)
            assert ids() == Counter(range(total)), f"after fault {number}"
        eventually(lambda: sum(worker.sink_offsets(topic_name).values()) == total, within_s=WITHIN_S)
        assert ids() == Counter(range(total))
        print(f"{total} records, each once", flush=True)
        evidence.records, evidence.verdict = total, "clean"


@pytest.mark.timeout(600)
def test_a_kill_within_a_transaction_of_its_own_costs_no_record(
    worker: Worker, kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The next start has other transactional ids: until the broker ends the transaction, nobody reads past it."""
    warehouse = tmp_path / "warehouse"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=1, replication=1)
    produce(kafka, topic_name, 1, 0, RECORDS)
    answer = worker.create(topic_name, sink_config(topic_name, kafka.bootstrap_servers, warehouse, TABLE) | SOON)
    assert answer.status_code == 201, answer.text

    def ids() -> Counter[int]:
        return Counter(row["id"] for row in rows(warehouse, TABLE))

    eventually(lambda: len(ids()) == RECORDS, within_s=WITHIN_S)
    with contextlib.closing(TransactionAdmin({"bootstrap.servers": kafka.bootstrap_servers})) as transactions:
        (host,) = hosts(worker)
        produce(kafka, topic_name, 1, RECORDS, RECORDS)
        left = eventually(lambda: _stopped_within(host, transactions), within_s=WITHIN_S, every_s=0)
        worker.kill()
        began = time.monotonic()
        worker.start()
        produce(kafka, topic_name, 1, 2 * RECORDS, RECORDS)
        eventually(lambda: len(ids()) >= 3 * RECORDS, within_s=WITHIN_S)
        took_s = time.monotonic() - began
        with capfd.disabled():
            print(f"\n{took_s:.1f} s to the records after a kill within {left}", flush=True)
    eventually(lambda: sum(worker.sink_offsets(topic_name).values()) == 3 * RECORDS, within_s=WITHIN_S)
    assert ids() == Counter(range(3 * RECORDS))


def _stopped_within(host: psutil.Process, transactions: TransactionAdmin) -> str | None:
    """Stop a host if a transaction of Iceberg's is open; return its id if it has stayed so."""
    if not _open(transactions):
        return None
    host.suspend()
    left: list[str] = []
    for _ in range(50):  # what it has sent by now has an effect meanwhile
        left = _open(transactions)
    if not left:
        host.resume()
    return next(iter(left), None)


def _open(transactions: TransactionAdmin) -> list[str]:
    listed = transactions.list(["Ongoing"])
    return [each.transactional_id for each in listed if each.state == "Ongoing" and "-txn-" in each.transactional_id]
