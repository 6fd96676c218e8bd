"""Topics of Avro with a real registry, through DataFrames, on a running worker: files, SQL, dead letters."""

import glob
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from confluent_kafka import Consumer, TopicPartition
from file_connector import ensure_exact, files_sink, offsets, settings_of_tests

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.avro_topic import AVRO, AvroTopic, registered
from support.avro_values import read
from support.schema_registry import shared_registry
from support.worker import Worker

PARTITIONS = 3
FIRST = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "int"}]}
SECOND = {
    "type": "record", "name": "N", "fields": [
        {"name": "n", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1_700_000_000_000},
        {"name": "country", "type": ["null", "string"], "default": None},
    ],
}  # fmt: skip


@pytest.fixture
def partitions() -> int:
    return PARTITIONS


@pytest.fixture(scope="module")
def registry() -> str:
    return shared_registry()


@pytest.fixture
def avro(kafka: EmbeddedKafka, registry: str, topic: str) -> AvroTopic:
    return AvroTopic(kafka, registry, topic)


@pytest.fixture
def converter(registry: str) -> dict[str, str]:
    return {"value.converter": AVRO, "value.converter.schema.registry.url": registry}


def numbers(first: int, last: int, **more: Any) -> dict[int, list[dict[str, Any]]]:
    """Return rows with numbers, n in partition n modulo PARTITIONS."""
    return {p: [{"n": n, **more} for n in range(first, last + 1) if n % PARTITIONS == p] for p in range(PARTITIONS)}


def rows(out: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return the partition and the row of all that a reader of Parquet files finds."""
    found = []
    for path in sorted(map(Path, glob.glob(f"{out}/*.parquet"))):
        found += [(int(path.name.split("+")[1]), row) for row in pq.ParquetFile(path).read().to_pylist()]
    return found


def messages(kafka: EmbeddedKafka, topic: str, count: int) -> list[Any]:
    """Return the first messages of a topic of one partition."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, 60)
    consumer.close()
    return found


def test_two_schemas_of_a_topic_become_parquet_once_when_the_worker_is_killed(
    kafka: EmbeddedKafka, topic: str, topic_name: str, avro: AvroTopic, converter: dict[str, str], tmp_path: Path
) -> None:
    """What was written by the older schema has the columns of the newer one, too, from the first epoch with it on."""
    out, group, last = tmp_path / "out", f"avro-{topic_name}", 0

    def more(id_: int, schema: Any, count: int, **fields: Any) -> None:
        nonlocal last
        avro.write(id_, schema, numbers(last + 1, last + count, **fields))
        last += count

    first = avro.register(FIRST)
    more(first, FIRST, 600)
    config = files_sink(out, topic, epoch__rows__max="600", epoch__interval__ms="100") | converter
    config.pop("value.converter.schemas.enable")
    with Worker(kafka.bootstrap_servers, tmp_path, settings_of_tests(), group=group) as worker:
        assert worker.create("avro", config).status_code == 201
        eventually(lambda: offsets(worker, "avro") == dict.fromkeys(range(PARTITIONS), 200), within_s=200)
        second = avro.register(SECOND)
        more(second, SECOND, 300, at=1_700_000_000_001, country="DE")
        more(first, FIRST, 600)  # by a producer that was not restarted
        eventually(lambda: len(rows(out)) > 700, within_s=100)
        worker.kill()
    with Worker(kafka.bootstrap_servers, tmp_path, settings_of_tests(), group=group) as worker:
        more(second, SECOND, 300, at=1_700_000_000_002, country=None)
        eventually(
            lambda: offsets(worker, "avro") == dict.fromkeys(range(PARTITIONS), last // PARTITIONS), within_s=200
        )
        assert worker.task_states("avro") == ["RUNNING"]
    found = rows(out)
    ensure_exact([(partition, row["n"]) for partition, row in found], last)
    by_number = {row["n"]: row for _, row in found}
    assert by_number[1] == {"n": 1}
    assert by_number[601]["country"] == "DE"
    assert by_number[601]["at"].timestamp() == 1_700_000_000.001
    assert by_number[1_000].keys() == {"n", "at", "country"}
    assert by_number[1_000]["at"].timestamp() == 1_700_000_000


def test_an_unreadable_value_is_a_dead_letter_and_other_values_are_written(
    worker: Worker, kafka: EmbeddedKafka, name: str, topic: str, avro: AvroTopic, converter: dict[str, str],
    tmp_path: Path,
) -> None:  # fmt: skip
    out, dead = tmp_path / "out", f"{name}-dead"
    id_ = avro.register(FIRST)
    avro.write(id_, FIRST, numbers(1, 300))
    bad = [b"{}", b"\0" + id_.to_bytes(4, "big"), b"\0\x7f\xff\xff\xff\2"]
    avro.write_bytes({0: [*bad, None]})
    avro.write(id_, FIRST, numbers(301, 600))
    avro.write_with_header(id_, FIRST, numbers(601, 630))
    config = files_sink(out, topic) | converter | {
        "errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }  # fmt: skip
    assert worker.create(name, config).status_code == 201
    eventually(lambda: offsets(worker, name) == {0: 214, 1: 210, 2: 210}, within_s=200)
    found = rows(out)
    ensure_exact([(partition, row["n"]) for partition, row in found if row["n"] is not None], 630)
    assert [row for _, row in found if row["n"] is None] == [{"n": None}]  # the tombstone
    letters = messages(kafka, dead, len(bad))
    assert [each.value() for each in letters] == bad
    texts = [dict(each.headers() or ())["__connect.errors.exception.message"].decode() for each in letters]
    assert ["it begins with 0x7b7d" in texts[0], "n: the value ends too early" in texts[1]] == [True, True], texts
    assert "2147483647" in texts[2], texts


def test_a_value_that_cannot_be_read_fails_the_task_if_no_error_is_tolerated(
    worker: Worker, name: str, topic: str, avro: AvroTopic, converter: dict[str, str], tmp_path: Path
) -> None:
    id_ = avro.register(FIRST)
    avro.write(id_, FIRST, {0: [{"n": 1}]})
    avro.write_bytes({0: [b"{}"]})
    assert worker.create(name, files_sink(tmp_path / "out", topic) | converter).status_code == 201
    (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=200)
    trace = failed["trace"]
    assert f"{topic}-0 at offset 1: the value cannot be read by its schema in the registry" in trace
    assert "it begins with 0x7b7d" in trace


_SELECTED = "SELECT value.n, upper(value.country) AS country FROM {0} WHERE value.n % 2 = 0"


@pytest.mark.parametrize("mode", [None, "append", "update"], ids=["TopicSql", "SqlStream append", "SqlStream update"])
def test_sql_reads_and_writes_values_with_a_schema_of_the_registry(
    worker: Worker, kafka: EmbeddedKafka, name: str, topic: str, avro: AvroTopic, registry: str,
    converter: dict[str, str], tmp_path: Path, mode: str | None,
) -> None:  # fmt: skip
    if mode is not None and pyspark.__version__ < "4.2":
        pytest.skip("SqlStream needs Spark 4.2, as the page says")
    target = f"{name}-out"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(target, partitions=1, replication=1)
    first = avro.register(FIRST)
    avro.write(first, FIRST, numbers(1, 150))
    second = avro.register(SECOND)
    avro.write(second, SECOND, numbers(151, 300, at=1_700_000_000_001, country="FR"))
    config = {
        "topics": topic, "output.topic": target, **converter,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "output.value.converter": AVRO, "output.value.converter.schema.registry.url": registry,
    }  # fmt: skip
    if mode is None:
        own = {"epoch.interval.ms": "200", "transforms.sql": _SELECTED.format("records")}
        config |= {"connector.class": "fencepost.connector.topic_sql.TopicSql", **own}
    else:
        own = {"checkpoint.location": str(tmp_path), "output.mode": mode, "trigger.ms": "0"}
        config |= {"connector.class": "SqlStream", "sql": _SELECTED.format(f"`{topic}`"), **own}
    created = worker.create(name, config)
    assert created.status_code == 201, created.text
    with CommittedReader(kafka.bootstrap_servers, [target]) as reader:
        eventually(lambda: len(reader.seen()) >= 150, within_s=200)
        written = [each.value or b"" for each in reader.seen()]
    assert len({value[:5] for value in written}) == 1
    schema = registered(registry, written[0])
    assert [field["name"] for field in schema["fields"]] == ["n", "country"]
    found = [read(schema, value[5:]) for value in written]
    assert sorted(found, key=lambda row: row["n"]) == [
        {"n": n, "country": "FR" if n > 150 else None} for n in range(2, 301, 2)
    ]


def test_a_sink_waits_for_an_unreachable_registry(
    worker: Worker, name: str, topic: str, avro: AvroTopic, registry: str, converter: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    avro.write(avro.register(FIRST), FIRST, numbers(1, 30))
    away = {"value.converter.schema.registry.url": "http://127.0.0.1:1"}
    assert worker.create(name, files_sink(out, topic) | converter | away).status_code == 201
    eventually(lambda: "cannot be reached" in str(worker.status(name)["tasks"][0].get("trace", "")), within_s=200)
    assert worker.task_states(name) == ["RUNNING"]
    worker.rest.put(f"/connectors/{name}/config", json=files_sink(out, topic) | converter)
    eventually(lambda: offsets(worker, name) == dict.fromkeys(range(PARTITIONS), 10), within_s=200)
    ensure_exact([(partition, row["n"]) for partition, row in rows(out)], 30)
