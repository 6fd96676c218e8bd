"""Topics into topics by SQL, on a running worker with Spark: what the query makes of each record is there once."""

import json
from collections.abc import Callable

import psutil
import pytest
from file_connector import Produce, offsets

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.memberless import memberless
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.value.position import GroupOffset
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation, judge
from fencepost.transaction import CommitUnknownError, TransactionalWriter, WriterFencedError
from support.worker import Worker

CLASS = "fencepost.connector.topic_sql.TopicSql"
JSON = "org.apache.kafka.connect.json.JsonConverter"
PARTITIONS = 3


@pytest.fixture
def partitions() -> int:
    return PARTITIONS


@pytest.fixture
def value_of() -> Callable[[int], bytes]:
    return lambda n: json.dumps({"n": n, "country": ["DE", "FR"][n % 2]}).encode()


@pytest.fixture
def target(kafka: EmbeddedKafka, topic_name: str) -> str:
    made = f"{topic_name}-out"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(made, partitions=1, replication=1)
    return made


def topic_sql(topic: str, target: str, **settings: str) -> dict[str, str]:
    return {
        "connector.class": CLASS,
        "topics": topic,
        "output.topic": target,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "value.schema": "n INT, country STRING",
        "epoch.interval.ms": "200",
        "consumer.override.session.timeout.ms": "6000",
        "consumer.override.heartbeat.interval.ms": "500",
        **{key.replace("__", "."): value for key, value in settings.items()},
    }


def numbers(seen: list[Observation]) -> list[int]:
    return [json.loads(each.value or b"")["n"] for each in seen]


def test_a_query_over_topics_is_written_to_the_topics_that_its_rows_name(
    worker: Worker, name: str, topic: str, target: str, produce: Produce, kafka: EmbeddedKafka
) -> None:
    produce(1, 300)
    other = f"{target}-de"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(other, partitions=1, replication=1)
    query = (
        f"SELECT value.n, value.n * 2 AS twice, key, IF(value.country = 'DE', '{other}', NULL) AS place "
        "FROM records WHERE value.n > 100"
    )
    config = topic_sql(topic, target, transforms__sql=query, output__topic__field="place", output__key__field="n")
    created = worker.create(name, config)
    assert (created.status_code, created.json().get("type")) == (201, "sink"), created.text
    with CommittedReader(kafka.bootstrap_servers, [target, other]) as reader:
        eventually(lambda: len(reader.seen()) >= 200, within_s=100)
        produce(301, 330)
        eventually(lambda: len(reader.seen()) >= 230, within_s=100)
        eventually(lambda: offsets(worker, name) == dict.fromkeys(range(PARTITIONS), 110), within_s=100)
        french, german = reader.seen_of(target), reader.seen_of(other)
    assert sorted(numbers(french)) == list(range(101, 331, 2))
    assert sorted(numbers(german)) == list(range(102, 331, 2))
    first = min(french, key=lambda each: json.loads(each.value or b"")["n"])
    assert (first.key, json.loads(first.value or b"")) == (b"101", {"n": 101, "twice": 202, "key": None})
    assert worker.task_states(name) == ["RUNNING"]
    assert worker.rest.get(f"/connectors/{name}/topics").json() == {name: {"topics": [topic]}}


def test_a_killed_python_worker_doubles_and_loses_nothing(
    worker: Worker, name: str, topic: str, target: str, produce: Produce, kafka: EmbeddedKafka
) -> None:
    """Some ranges of the epoch may be committed then, and others not."""
    last = 0

    def more(count: int) -> None:
        nonlocal last
        produce(last + 1, last + count)
        last += count

    more(1_200)
    config = topic_sql(topic, target, epoch__rows__max="600", transforms__sql="SELECT value.n FROM records")
    assert worker.create(name, config).status_code == 201
    with CommittedReader(kafka.bootstrap_servers, [target]) as reader:
        eventually(lambda: len(reader.seen()) >= 600, within_s=100)
        _kill_python_workers(worker)
        more(300)
        eventually(lambda: offsets(worker, name) == dict.fromkeys(range(PARTITIONS), last // PARTITIONS), within_s=100)
        expected = {p: [n for n in range(1, last + 1) if n % PARTITIONS == p] for p in range(PARTITIONS)}
        seen = [(n % PARTITIONS, n) for n in numbers(reader.catch_up())]
        verdict = judge(expected, seen)
    assert verdict.is_clean, str(verdict)


def test_a_zombie_with_input_in_a_transaction_is_fenced_before_the_query_runs(
    worker: Worker, name: str, topic: str, target: str, produce: Produce, kafka: EmbeddedKafka
) -> None:
    """E20: it was read up to there in a transaction that did not count, so it is read again."""
    produce(1, 30)
    patient = {"bootstrap.servers": kafka.bootstrap_servers, "transaction.timeout.ms": "600000"}  # no broker ends it
    settings = transactional_conf(patient, f"zombie-{name}").conf
    zombie = TransactionalWriter(settings, f"zombie-{name}")
    zombie.open()
    zombie.send(target, b"{}")
    zombie.send_group_offsets([GroupOffset(topic, 0, 10)], memberless(f"connect-{name}"))
    assert (
        worker.create(name, topic_sql(topic, target, transforms__sql="SELECT value.n FROM records")).status_code == 201
    )
    with CommittedReader(kafka.bootstrap_servers, [target]) as reader:
        eventually(lambda: len(reader.seen()) >= 30, within_s=100)
        with pytest.raises((WriterFencedError, CommitUnknownError)):
            zombie.commit()
        assert sorted(numbers(reader.catch_up())) == list(range(1, 31))
    zombie.close()
    assert f"fenced zombie-{name} (producer" in worker.log_text()


def test_unsupported_settings_of_a_dataframe_stream_are_refused(
    worker: Worker, name: str, topic: str, target: str
) -> None:
    letters = topic_sql(
        topic, target, errors__tolerance="all", errors__deadletterqueue__topic__name="letters",
        errors__deadletterqueue__topic__replication__factor="1",
    )  # fmt: skip
    answer = worker.create(name, letters)
    assert answer.status_code == 400
    assert "writes no dead letters" in answer.text
    answer = worker.create(
        name, {key: value for key, value in topic_sql(topic, target).items() if key != "output.topic"}
    )
    assert answer.status_code == 400
    assert 'Missing required configuration "output.topic"' in answer.json()["message"]


def test_a_row_for_an_input_topic_fails_the_stream_before_it_is_written(
    worker: Worker, name: str, topic: str, target: str, produce: Produce, kafka: EmbeddedKafka
) -> None:
    """Written there it would be read again, for ever."""
    produce(1, 30)
    query = f"SELECT value.n, IF(value.n = 20, '{topic}', NULL) AS place FROM records"
    config = topic_sql(topic, target, transforms__sql=query, output__topic__field="place")
    assert worker.create(name, config).status_code == 201
    (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=240)
    trace = failed["trace"]
    assert f"a record would go to topic {topic}, which this stream reads (its topics)" in trace
    admin, places = Admin({"bootstrap.servers": kafka.bootstrap_servers}), [(topic, p) for p in range(PARTITIONS)]
    assert sum(admin.offsets.ends(places, read_committed=True).values()) == 30


def test_a_query_that_never_returns_rows_is_refused_before_any_commit(
    worker: Worker, name: str, topic: str, target: str, produce: Produce
) -> None:
    """Spark does not read its input then, and one task without rows would commit the first range."""
    produce(1, 30)
    query = "SELECT value.n FROM records WHERE value.n > 5 AND 1 = 2"
    assert worker.create(name, topic_sql(topic, target, transforms__sql=query)).status_code == 201
    (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=240)
    trace = failed["trace"]
    assert "transforms.sql never returns rows" in trace
    assert not any(offsets(worker, name).values())


def _kill_python_workers(worker: Worker) -> None:
    """SIGKILL what runs Python for Spark, but for slots."""
    assert worker.process is not None
    slots = set(worker.slots().values())
    for process in psutil.Process(worker.process.pid).children(recursive=True):
        try:
            if process.pid not in slots and "pyspark" in " ".join(process.cmdline()) and process.name() != "java":
                process.kill()
        except psutil.NoSuchProcess:
            continue
