"""A streaming query as a connector, on a running worker with Spark: each of its results is in the topic once."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyspark
import pytest
from confluent_kafka import Producer
from file_connector import created, settings_of_tests
from page import ROOT, blocks

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.memberless import read_stable
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.cluster import Cluster, identity, pause, resume
from support.worker import Worker

pytestmark = [
    pytest.mark.skipif(pyspark.__version__ < "4.2", reason="SqlStream needs Spark 4.2, as the page says"),
]

STRINGS, JSON = "org.apache.kafka.connect.storage.StringConverter", "org.apache.kafka.connect.json.JsonConverter"
PARTITIONS, KEYS = 3, ("a", "b", "c")
MINUTE_MS = 60_000
BEGIN_MS = (int(time.time()) // 60 - 60) * MINUTE_MS  # brokers delete what is a week old
BY_MINUTE = (
    "SELECT unix_seconds(window.start) AS minute, key, count(*) AS n FROM `{topic}` WATERMARK timestamp DELAY OF "
    "INTERVAL 90 SECONDS GROUP BY window(timestamp, '1 minute'), key"
)
WITHIN_S = 240


@pytest.fixture
def partitions() -> int:
    return PARTITIONS


@pytest.fixture
def target(kafka: EmbeddedKafka, topic_name: str) -> str:
    made = f"{topic_name}-out"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(made, partitions=2, replication=1)
    return made


@pytest.fixture
def feed(kafka: EmbeddedKafka, topic: str) -> Callable[..., None]:
    """Writes records of one minute, each key the same number of times, to all partitions."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})

    def write(minute: int, each: int) -> None:
        for n in range(each * len(KEYS)):
            at_ms = BEGIN_MS + minute * MINUTE_MS + n
            producer.produce(topic, b"v", KEYS[n % len(KEYS)].encode(), partition=n % PARTITIONS, timestamp=at_ms)
        assert producer.flush(60) == 0

    return write


def sql_stream(topic: str, target: str, checkpoint: Path, sql: str, **settings: str) -> dict[str, Any]:
    return {
        "connector.class": "SqlStream",
        "topics": topic,
        "sql": sql.format(topic=topic),
        "output.topic": target,
        "checkpoint.location": str(checkpoint),
        "key.converter": STRINGS,
        "value.converter": STRINGS,
        "output.value.converter": JSON,
        "output.value.converter.schemas.enable": "false",
        **{key.replace("__", "."): value for key, value in settings.items()},
    }


def results(reader: CommittedReader) -> list[tuple[int, str, int]]:
    """Return the minute, the key and the count of each result so far."""
    rows = [json.loads(each.value or b"") for each in reader.seen()]
    return [((row["minute"] * 1000 - BEGIN_MS) // MINUTE_MS, row["key"], row["n"]) for row in rows]


@pytest.fixture
def mortal(kafka: EmbeddedKafka, tmp_path: Path, topic_name: str) -> Iterator[Worker]:
    """A worker of its own, which is killed and starts again."""
    with Worker(kafka.bootstrap_servers, tmp_path, settings_of_tests(), group=topic_name) as running:
        yield running


def test_counts_by_window_are_written_once_when_the_worker_is_killed_twice(
    mortal: Worker, topic: str, target: str, feed: Callable[..., None], kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """Once just after a batch was committed, and once while records are read."""
    each, last = 40, 7
    config = sql_stream(topic, target, tmp_path / "checkpoint", BY_MINUTE, output__key__field="key")
    created(mortal, "counts", {**config, "batch.offsets.max": "30"})
    with CommittedReader(kafka.bootstrap_servers, [target]) as reader:
        for minute in range(last + 1):
            feed(minute, each)
            if minute == 3:
                eventually(reader.seen, within_s=WITHIN_S)
                mortal.kill()
                mortal.start()
            elif minute == 5:
                before = sum(mortal.sink_offsets("counts").values())
                eventually(lambda b=before: sum(mortal.sink_offsets("counts").values()) > b, within_s=WITHIN_S)
                mortal.kill()
                mortal.start()
        feed(last + 60, 1)  # later than each window
        expected = Counter((minute, key, each) for minute in range(last + 1) for key in KEYS)
        eventually(lambda: len(results(reader)) >= len(expected), within_s=WITHIN_S)
        eventually(
            lambda: sum(mortal.sink_offsets("counts").values()) == (each * (last + 1) + 1) * 3, within_s=WITHIN_S
        )
        reader.catch_up()
        assert Counter(results(reader)) == expected
    assert mortal.task_states("counts") == ["RUNNING"]


def test_worker_that_wakes_after_a_take_over_writes_no_result_twice(
    kafka: EmbeddedKafka, topic: str, target: str, feed: Callable[..., None], tmp_path: Path, topic_name: str
) -> None:
    """Both run the query on one checkpoint then, until the woken worker learns that the query is no longer its own."""
    each, last = 20, 7
    with Cluster(kafka.bootstrap_servers, tmp_path, topic_name, 2, kind=Worker) as cluster:
        cluster.start()
        config = sql_stream(topic, target, tmp_path / "checkpoint", BY_MINUTE, output__key__field="key")
        created(cluster.workers[0], "counts", {**config, "batch.offsets.max": "30"})
        with CommittedReader(kafka.bootstrap_servers, [target]) as reader:
            for minute in range(4):  # the first window is closed then
                feed(minute, each)
            eventually(reader.seen, within_s=WITHIN_S)
            (owner,) = cluster.await_owners("counts", 1, cluster.workers, cluster.workers[0], even=False).values()
            stalled = next(worker for worker in cluster.workers if identity(worker) == owner)
            successor = next(worker for worker in cluster.workers if worker is not stalled)
            pause(stalled)
            before = len(reader.seen())
            for minute in range(4, last + 1):
                feed(minute, each)
            cluster.await_owners("counts", 1, [successor], successor)
            eventually(lambda: len(reader.seen()) > before, within_s=WITHIN_S)
            resume(stalled)
            feed(last + 60, 1)  # later than each window
            expected = Counter((minute, key, each) for minute in range(last + 1) for key in KEYS)
            eventually(lambda: len(results(reader)) >= len(expected), within_s=WITHIN_S)
            total = (each * (last + 1) + 1) * 3
            eventually(lambda: sum(successor.sink_offsets("counts").values()) == total, within_s=WITHIN_S)
            reader.catch_up()
            assert Counter(results(reader)) == expected


def test_query_is_watched_and_paused_and_fails_if_its_checkpoint_misfits(
    worker: Worker, name: str, topic: str, target: str, feed: Callable[..., None], kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    checkpoint, sql = tmp_path / "checkpoint", "SELECT key, count(*) AS n FROM `{topic}` GROUP BY key"
    config = sql_stream(topic, target, checkpoint, sql, output__mode="update", output__key__field="key")
    created(worker, name, config)
    newest: dict[str, int] = {}

    def counts(reader: CommittedReader) -> dict[str, int]:
        newest.update((row["key"], row["n"]) for row in (json.loads(each.value or b"") for each in reader.seen()))
        return newest

    with CommittedReader(kafka.bootstrap_servers, [target]) as reader:
        feed(0, 4)
        eventually(lambda: counts(reader) == dict.fromkeys(KEYS, 4), within_s=WITHIN_S)
        _ensure_watched(worker, name, topic)

        assert worker.rest.put(f"/connectors/{name}/pause").status_code == 202
        worker.wait_for_tasks(name, "PAUSED", within_s=WITHIN_S)
        feed(0, 3)
        assert worker.rest.put(f"/connectors/{name}/resume").status_code == 202
        eventually(lambda: counts(reader) == dict.fromkeys(KEYS, 7), within_s=WITHIN_S)

        other = sql_stream(topic, target, checkpoint, "SELECT key, max(value) AS n FROM `{topic}` GROUP BY key")
        changed = {**config, "sql": other["sql"]}
        assert worker.rest.put(f"/connectors/{name}/config", json=changed).status_code == 200
        feed(0, 1)
        (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=WITHIN_S)
        assert "the query does not fit its checkpoint" in failed["trace"]
        assert "set another checkpoint.location" in failed["trace"]

        assert worker.rest.put(f"/connectors/{name}/config", json=config).status_code == 200
        eventually(lambda: counts(reader) == dict.fromkeys(KEYS, 8), within_s=WITHIN_S)


def test_second_connector_on_a_checkpoint_fails_and_the_first_goes_on(
    worker: Worker, name: str, topic: str, target: str, feed: Callable[..., None], kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """Otherwise each would stop the other's query, and a batch would reach the output of only one of them."""
    config = sql_stream(topic, target, tmp_path / "checkpoint", "SELECT key FROM `{topic}`")
    created(worker, name, config)
    with CommittedReader(kafka.bootstrap_servers, [target]) as reader:
        feed(0, 1)
        eventually(lambda: len(reader.seen()) == len(KEYS), within_s=WITHIN_S)
        created(worker, f"{name}-2", config)
        (failed,) = worker.wait_for_tasks(f"{name}-2", "FAILED", within_s=WITHIN_S)
        assert f"is the checkpoint of connector {name} of" in failed["trace"]
        feed(0, 1)
        eventually(lambda: len(reader.seen()) == 2 * len(KEYS), within_s=WITHIN_S)
    assert worker.task_states(name) == ["RUNNING"]


def _ensure_watched(worker: Worker, name: str, topic: str) -> None:
    """Check figures, metrics and offsets of a query that has read 12 records, and has three keys."""

    def query() -> dict[str, Any]:
        (task,) = worker.rest.get(f"/connectors/{name}/figures").json()["tasks"]
        return dict(task["query"] or {})

    eventually(lambda: query().get("state_rows") == 3 and query()["lag"] == {topic: 0}, within_s=WITHIN_S)
    assert query()["batch"] >= 0
    text = worker.rest.get("/metrics").text
    assert f'fencepost_query_task_state_rows{{connector="{name}",task="0"}} 3.0' in text
    assert f'fencepost_query_task_topic_lag{{connector="{name}",task="0",topic="{topic}"}} 0.0' in text
    eventually(lambda: worker.sink_offsets(name) == {(topic, p): 4 for p in range(PARTITIONS)}, within_s=WITHIN_S)
    assert worker.rest.get(f"/connectors/{name}/topics").json() == {name: {"topics": [topic]}}


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM nowhere", "`nowhere` cannot be found"),
        ("SELECT key, count(*) AS n FROM `{topic}` GROUP BY key", "Add a watermark to the table"),
        ("SELECT reflect('java.lang.System', 'exit', 1) FROM `{topic}`", "Cannot resolve routine `reflect`"),
        ("SELECT TRANSFORM(key) USING 'cat' AS (key) FROM `{topic}`", "ScriptTransformation is not possible"),
        ("SELECT * FROM text.`/etc/passwd`", "cannot be found"),
        ("DROP TABLE t", "Syntax error"),
        ("SELECT 1 AS one", "it reads none of the topics"),
    ],
    ids=lambda text: text.split("FROM")[0][:30],
)
def test_query_that_cannot_run_is_refused_with_the_text_of_spark(
    worker: Worker, name: str, topic: str, target: str, tmp_path: Path, sql: str, said: str
) -> None:
    config = {"name": name, **sql_stream(topic, target, tmp_path, sql)}
    answer = worker.rest.put("/connector-plugins/SqlStream/config/validate", json=config).json()
    errors = {one["value"]["name"]: one["value"]["errors"] for one in answer["configs"] if one["value"]["errors"]}
    assert list(errors) == ["sql"], errors
    assert said in errors["sql"][0]


def test_emptied_checkpoint_fails_the_query_until_it_is_back_or_reset(
    worker: Worker, name: str, topic: str, target: str, feed: Callable[..., None], kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """As where its file system is not mounted: the directory is there, and nothing is in it."""
    checkpoint, aside, offsets = tmp_path / "checkpoint", tmp_path / "aside", f"/connectors/{name}/offsets"

    def stop() -> None:
        assert worker.rest.put(f"/connectors/{name}/stop").status_code == 204
        worker.wait_for_tasks(name, within_s=WITHIN_S)

    def resume_query() -> None:
        assert worker.rest.put(f"/connectors/{name}/resume").status_code == 202

    config = sql_stream(topic, target, checkpoint, "SELECT key FROM `{topic}`", commit__group=f"{name}-lag")
    created(worker, name, config)
    with CommittedReader(kafka.bootstrap_servers, [target]) as reader:
        feed(0, 1)
        eventually(lambda: len(reader.seen()) == len(KEYS), within_s=WITHIN_S)
        found = read_stable({"bootstrap.servers": kafka.bootstrap_servers}, f"{name}-lag", 30)
        assert {place.partition: each.offset for place, each in found.items()} == dict.fromkeys(range(PARTITIONS), 1)

        stop()
        checkpoint.rename(aside)
        checkpoint.mkdir()
        resume_query()
        (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=WITHIN_S)
        assert f"connector {name} of the workers with group.id" in failed["trace"]
        assert "has written before" in failed["trace"]
        assert "mount it, and start the query again" in failed["trace"]

        stop()
        shutil.rmtree(checkpoint)
        aside.rename(checkpoint)
        answer = worker.rest.delete(offsets)
        assert (answer.status_code, "set another checkpoint.location" in answer.json()["message"]) == (400, True)
        resume_query()
        feed(0, 1)
        eventually(lambda: len(reader.seen()) == 2 * len(KEYS), within_s=WITHIN_S)

        stop()
        shutil.rmtree(checkpoint)
        assert worker.rest.delete(offsets).status_code == 200
        resume_query()
        eventually(lambda: len(reader.seen()) == 4 * len(KEYS), within_s=WITHIN_S)
    assert worker.task_states(name) == ["RUNNING"]


PAGE = ROOT / "docs" / "how-to" / "sql-stream.md"


def test_queries_of_the_page_run_as_they_are_shown(
    worker: Worker, name: str, topic: str, target: str, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """The config counts by minute; the join is analysed."""
    [config] = [json.loads(block.text)["config"] for block in blocks("json") if block.page == PAGE]
    [join] = [block.text for block in blocks("sql") if block.page == PAGE]
    sql = config["sql"].replace("FROM orders ", f"FROM `{topic}` ")
    own = {**config, "topics": topic, "sql": sql, "output.topic": target, "checkpoint.location": str(tmp_path)}
    created(worker, name, own)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for at, product in ((0, "tea"), (0, "tea"), (0, "coffee"), (1, "tea"), (3, "tea")):
        producer.produce(topic, product.encode(), timestamp=BEGIN_MS + at * MINUTE_MS)
    assert producer.flush(60) == 0
    with CommittedReader(kafka.bootstrap_servers, [target]) as reader:
        eventually(lambda: len(reader.seen()) >= 3, within_s=WITHIN_S)
        found = {(each.key, each.value) for each in reader.seen()}
    minute = f"{datetime.fromtimestamp(BEGIN_MS / 1000, UTC):%Y-%m-%dT%H:%M:%S.000Z}"
    assert (b"tea", f'{{"minute":"{minute}","product":"tea","orders":2}}'.encode()) in found
    assert len(found) == 3

    topics = "orders,payments"
    joined = {**config, "name": name, "topics": topics, "sql": join, "output.key.field": "order_id"}
    answer = worker.rest.put("/connector-plugins/SqlStream/config/validate", json=joined).json()
    assert answer["error_count"] == 0, [one["value"] for one in answer["configs"] if one["value"]["errors"]]
