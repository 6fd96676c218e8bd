"""Sinks on a running worker: what is in a topic is in the file, whatever happens to the tasks."""

import os
import signal
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from file_connector import Produce

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.worker import Worker


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.txt"


def file_sink(out: Path, topic: str, **settings: str) -> dict[str, str]:
    return {
        "connector.class": "FileStreamSink",
        "file": str(out),
        "topics": topic,
        "consumer.override.session.timeout.ms": "6000",
        "consumer.override.heartbeat.interval.ms": "500",
        **{key.replace("__", "."): value for key, value in settings.items()},
    }


def numbers(out: Path) -> list[int]:
    return [int(line) for line in out.read_text().splitlines()] if out.exists() else []


def has(out: Path, last: int, first: int = 1) -> Callable[[], bool]:
    return lambda: set(range(first, last + 1)) <= set(numbers(out))


def members(worker: Worker, name: str) -> int:
    servers = worker.properties["bootstrap.servers"]
    return len(Admin({"bootstrap.servers": servers}).groups.describe(f"connect-{name}").members)


def stop(worker: Worker, name: str) -> None:
    assert worker.rest.put(f"/connectors/{name}/stop").status_code == 204
    eventually(lambda: worker.status(name)["tasks"] == [], within_s=60)
    eventually(lambda: members(worker, name) == 0, within_s=60)  # they have committed and left


def resume(worker: Worker, name: str) -> None:
    assert worker.rest.put(f"/connectors/{name}/resume").status_code == 202


def test_every_record_of_the_topic_is_in_the_file_once_and_in_order(
    worker: Worker, kafka: EmbeddedKafka, name: str, topic: str, produce: Produce, out: Path
) -> None:
    produce(1, 1000)
    created = worker.create(name, file_sink(out, topic))
    assert created.status_code == 201
    assert created.json()["type"] == "sink"
    worker.wait_for_tasks(name, "RUNNING")
    assert worker.status(name)["type"] == "sink"
    eventually(has(out, 1000), within_s=60)
    produce(1001, 1200)
    eventually(has(out, 1200), within_s=60)
    found = numbers(out)
    assert len(found) == 1200
    for partition in range(4):
        own = [n for n in found if n % 4 == partition]
        assert own == sorted(own)
    eventually(lambda: worker.rest.get(f"/connectors/{name}/topics").json() == {name: {"topics": [topic]}})
    stop(worker, name)
    assert worker.sink_offsets(name) == {(topic, partition): 300 for partition in range(4)}


def test_a_stopped_sink_resumes_at_altered_offsets(
    worker: Worker, name: str, topic: str, produce: Produce, out: Path
) -> None:
    produce(1, 40)
    assert worker.create(name, file_sink(out, topic)).status_code == 201
    eventually(has(out, 40), within_s=60)
    place = {"partition": {"kafka_topic": topic, "kafka_partition": 1}}
    url = f"/connectors/{name}/offsets"
    refused = worker.rest.patch(url, json={"offsets": [{**place, "offset": {"kafka_offset": 4}}]})
    assert refused.status_code == 400
    assert "STOPPED" in refused.json()["message"]
    stop(worker, name)
    for beyond in (11, -1):
        answer = worker.rest.patch(url, json={"offsets": [{**place, "offset": {"kafka_offset": beyond}}]})
        assert (answer.status_code, "begins at 0 and ends at 10" in answer.json()["message"]) == (400, True), (
            answer.text
        )
    altered = worker.rest.patch(url, json={"offsets": [{**place, "offset": {"kafka_offset": "4"}}]})
    assert altered.status_code == 200
    assert altered.json()["message"] == "The offsets for this connector have been altered successfully"
    assert worker.sink_offsets(name)[topic, 1] == 4
    resume(worker, name)
    eventually(lambda: len(numbers(out)) >= 46, within_s=60)
    assert sorted(set(numbers(out)[40:])) == [17, 21, 25, 29, 33, 37]
    stop(worker, name)
    reset = worker.rest.delete(url)
    assert reset.json()["message"] == "The offsets for this connector have been reset successfully"
    assert worker.sink_offsets(name) == {}
    resume(worker, name)
    eventually(lambda: set(numbers(out)[46:]) == set(range(1, 41)), within_s=60)


def test_offsets_of_a_wrong_shape_are_refused_in_kafka_connects_words(
    worker: Worker, name: str, topic: str, out: Path
) -> None:
    assert worker.create(name, file_sink(out, topic), initial_state="STOPPED").status_code == 201
    place = {"kafka_topic": topic, "kafka_partition": 0}
    cases: list[tuple[Any, Any, str]] = [
        (None, {"kafka_offset": 0}, "cannot be null or missing"),
        ({"kafka_topic": topic}, None, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        ({**place, "kafka_partition": "x"}, None, "Partition values for sink connectors need to be integers"),
        (place, {"position": 1}, "should either be null or contain the key 'kafka_offset'"),
        (place, {"kafka_offset": "x"}, "Offset values for sink connectors need to be integers"),
    ]
    for partition, offset, text in cases:
        answer = worker.rest.patch(
            f"/connectors/{name}/offsets", json={"offsets": [{"partition": partition, "offset": offset}]}
        )
        assert (answer.status_code, text in answer.json()["message"]) == (400, True), answer.text


def test_a_new_sink_begins_at_initial_offsets_and_old_offsets_are_gone(
    worker: Worker, name: str, topic: str, produce: Produce, out: Path
) -> None:
    produce(1, 40)
    config = file_sink(out, topic)
    begin = [
        {"partition": {"kafka_topic": topic, "kafka_partition": p}, "offset": {"kafka_offset": o}}
        for p, o in ((1, 4), (2, 10))
    ]
    beyond = [{**begin[0], "offset": {"kafka_offset": 11}}]
    refused = worker.create(name, config, initial_offsets=beyond)
    assert (refused.status_code, "begins at 0 and ends at 10" in refused.json()["message"]) == (400, True), refused.text
    shapeless = worker.create(name, config, initial_offsets=[{"partition": {"kafka_topic": topic}, "offset": None}])
    assert (shapeless.status_code, "must contain the keys" in shapeless.json()["message"]) == (400, True)
    assert name not in worker.rest.get("/connectors").json()
    assert worker.create(name, config, initial_state="STOPPED").status_code == 201
    leftover = {"partition": {"kafka_topic": topic, "kafka_partition": 3}, "offset": {"kafka_offset": 9}}
    assert worker.rest.patch(f"/connectors/{name}/offsets", json={"offsets": [leftover]}).status_code == 200
    assert worker.create(name, config, initial_offsets=begin).status_code == 409
    assert worker.sink_offsets(name) == {(topic, 3): 9}
    assert worker.rest.delete(f"/connectors/{name}").status_code == 204
    created = worker.create(name, config, initial_offsets=begin)
    assert created.status_code == 201, created.text
    assert created.json()["offsets_status"] == "The offsets for this connector have been altered successfully"
    wanted = {n for n in range(1, 41) if n % 4 in (0, 3) or n in (17, 21, 25, 29, 33, 37)}
    eventually(lambda: set(numbers(out)) == wanted, within_s=60)
    stop(worker, name)
    assert set(worker.sink_offsets(name).values()) == {10}


def test_a_group_with_members_is_not_moved_for_a_new_sink(
    worker: Worker, kafka: EmbeddedKafka, name: str, topic: str, produce: Produce, out: Path
) -> None:
    produce(1, 8)
    theirs = f"{name}-theirs"
    somebody = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": theirs, "session.timeout.ms": 6000})
    somebody.subscribe([topic])
    try:
        eventually(lambda: somebody.poll(0.1) is None and somebody.assignment(), within_s=60)
        begin = [{"partition": {"kafka_topic": topic, "kafka_partition": 0}, "offset": {"kafka_offset": 1}}]
        config = file_sink(out, topic, consumer__override__group__id=theirs)
        answer = worker.create(name, config, initial_offsets=begin)
        assert (answer.status_code, "set a different consumer.override.group.id" in answer.text) == (500, True)
        assert name not in worker.rest.get("/connectors").json()
    finally:
        somebody.close()


def test_a_paused_sink_stays_in_its_group_and_writes_nothing(
    worker: Worker, kafka: EmbeddedKafka, name: str, topic: str, produce: Produce, out: Path
) -> None:
    produce(1, 20)
    assert worker.create(name, file_sink(out, topic)).status_code == 201
    eventually(has(out, 20), within_s=60)
    assert worker.rest.put(f"/connectors/{name}/pause").status_code == 202
    worker.wait_for_tasks(name, "PAUSED")
    assert members(worker, name) == 1
    produce(21, 40)
    held = time.monotonic() + 1.0
    eventually(lambda: time.monotonic() > held)
    assert len(numbers(out)) == 20
    resume(worker, name)
    eventually(has(out, 40), within_s=60)
    assert len(numbers(out)) == 40


def test_tasks_divide_the_partitions_and_a_killed_slot_loses_nothing(
    worker: Worker, kafka: EmbeddedKafka, name: str, topic: str, produce: Produce, out: Path
) -> None:
    config = file_sink(out, topic, tasks__max="2", slot__dedicated="true")
    assert worker.create(name, config).status_code == 201
    worker.wait_for_tasks(name, "RUNNING", "RUNNING")
    eventually(lambda: members(worker, name) == 2, within_s=60)
    produce(1, 400)
    eventually(has(out, 400), within_s=60)
    before = worker.slots()
    victim = max(before)  # the newest: one of the two that were made for this connector
    os.kill(before[victim], signal.SIGKILL)
    produce(401, 800)
    eventually(has(out, 800), within_s=120)
    worker.wait_for_tasks(name, "RUNNING", "RUNNING")
    stop(worker, name)
    assert sum(worker.sink_offsets(name).values()) == 800


def test_existing_and_later_topics_that_match_are_read(
    worker: Worker, kafka: EmbeddedKafka, name: str, topic: str, produce: Produce, out: Path
) -> None:
    pattern = rf"\Q{topic}\E(-\d+)?"
    config = file_sink(out, topic, consumer__override__metadata__max__age__ms="1000")
    del config["topics"]
    assert worker.create(name, {**config, "topics.regex": pattern}).status_code == 201
    produce(1, 10)
    eventually(has(out, 10), within_s=60)
    later = f"{topic}-2"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(later, partitions=1, replication=1)
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(f"{topic}-x", partitions=1, replication=1)
    produce(21, 30, partitions=1, to=f"{topic}-x")
    produce(11, 20, partitions=1, to=later)
    eventually(has(out, 20), within_s=60)
    assert not set(numbers(out)) & set(range(21, 31))


def test_a_sink_that_cannot_write_fails_with_the_reason_and_recovers(
    worker: Worker, name: str, topic: str, produce: Produce, tmp_path: Path
) -> None:
    out = tmp_path / "later" / "out.txt"
    produce(1, 10)
    assert worker.create(name, file_sink(out, topic)).status_code == 201
    (failed,) = worker.wait_for_tasks(name, "FAILED")
    assert "cannot be written" in failed["trace"]
    out.parent.mkdir()
    worker.rest.post(f"/connectors/{name}/restart", params={"includeTasks": "true", "onlyFailed": "true"})
    eventually(has(out, 10), within_s=60)


def test_a_failed_task_reports_its_next_automatic_restart_and_recovers(
    worker: Worker, name: str, topic: str, produce: Produce, tmp_path: Path
) -> None:
    out = tmp_path / "later" / "out.txt"
    produce(1, 10)
    backoff = {f"errors.restart.backoff.{which}.ms": "500" for which in ("initial", "max")}
    assert worker.create(name, file_sink(out, topic) | backoff | {"errors.restart.enabled": "true"}).status_code == 201

    def tried() -> dict[str, Any] | None:
        task = worker.status(name)["tasks"][0]
        return task if task["state"] == "FAILED" and task["restart"]["attempts"] >= 1 else None

    failed = eventually(tried, within_s=60, every_s=0.02)
    assert failed is not None
    assert "cannot be written" in failed["trace"]
    assert datetime.fromisoformat(failed["restart"]["next"]).tzinfo is not None
    out.parent.mkdir()
    eventually(has(out, 10), within_s=60)
    worker.wait_for_tasks(name, "RUNNING")
    assert "restart" not in worker.status(name)["tasks"][0]


def letters_of(
    worker: Worker, kafka: EmbeddedKafka, name: str, topic: str, out: Path, **settings: str
) -> tuple[str, Callable[[], list[Any]]]:
    """Create a sink of JSON with a dead letter topic; return that topic and its reader."""
    dead = f"{topic}-dead"
    config = file_sink(out, topic, errors__deadletterqueue__topic__replication__factor="1", **settings) | {
        "errors.deadletterqueue.topic.name": dead,
        "errors.deadletterqueue.context.headers.enable": "true",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    created = worker.create(name, config)
    assert created.status_code == 201, created.text

    def read() -> list[Any]:
        conf = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": f"{name}-dead",
            "auto.offset.reset": "earliest",
        }
        consumer = Consumer({**conf, "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(dead, 0, 0)])
            return list(consumer.consume(100, 2.0))
        finally:
            consumer.close()

    return dead, read


def test_unreadable_records_become_dead_letters_and_other_records_are_written(
    worker: Worker, kafka: EmbeddedKafka, name: str, topic: str, out: Path
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(20):
        value = b"{broken" if number % 5 == 3 else b"%d" % number
        producer.produce(topic, value, key=b"k%d" % number, partition=0, headers=[("h", b"1")])
    producer.flush(30)
    _, letters = letters_of(worker, kafka, name, topic, out, errors__tolerance="all")
    eventually(lambda: len(numbers(out)) == 16, within_s=60)
    wanted = {(b"k%d" % n, b"{broken") for n in (3, 8, 13, 18)}

    def all_there() -> list[Any] | None:
        found = letters()
        return found if {(m.key(), m.value()) for m in found} == wanted else None

    found = eventually(all_there, within_s=60)
    assert found is not None
    headers = dict(next(m for m in found if m.key() == b"k8").headers())
    context = {k.removeprefix("__connect.errors."): v.decode() for k, v in headers.items() if "errors" in k}
    assert headers["h"] == b"1"
    facts = {key: context[key] for key in ("topic", "partition", "offset", "connector.name", "task.id", "stage")}
    assert facts == {
        "topic": topic,
        "partition": "0",
        "offset": "8",
        "connector.name": name,
        "task.id": "0",
        "stage": "VALUE_CONVERTER",
    }
    assert context["class.name"].endswith("JsonConverter")
    assert set(context) == {*facts, "class.name", "exception.class.name", "exception.message", "exception.stacktrace"}
    stop(worker, name)
    assert worker.sink_offsets(name)[topic, 0] == 20
    metrics = worker.rest.get("/metrics").text
    assert "deadletterqueue_produce_requests" in metrics


def test_an_untolerated_record_fails_the_task_and_is_a_dead_letter(
    worker: Worker, kafka: EmbeddedKafka, name: str, topic: str, out: Path
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"{broken", partition=0)
    producer.flush(30)
    _, letters = letters_of(worker, kafka, name, topic, out)
    (failed,) = worker.wait_for_tasks(name, "FAILED")
    assert "Tolerance exceeded" in failed["trace"]
    eventually(lambda: [m.value() for m in letters()] == [b"{broken"], within_s=60)
    assert numbers(out) == []
    eventually(lambda: set(worker.sink_offsets(name).values()) == {0})  # where it began; not past the record


@pytest.mark.parametrize(
    ("changes", "key", "text"),
    [
        ({"topics": ""}, "topics", "Must configure one of topics or topics.regex"),
        ({"topics.regex": "a.*"}, "topics", "mutually exclusive"),
        ({"topics": "", "topics.regex": "("}, "topics.regex", "Invalid"),
        ({"errors.deadletterqueue.topic.name": "t"}, "topics", "'topics=[t]'"),
        ({"topics": "t,a, t"}, "topics", "must not be duplicated"),
        (
            {"topics": "", "topics.regex": "t.*", "errors.deadletterqueue.topic.name": "tx"},
            "topics.regex",
            "'topics.regex=t.*'",
        ),
        ({"consumer.override.isolation.level": "dirty"}, "consumer.override.isolation.level", "read_committed"),
        ({"consumer.override.max.poll.records": "0"}, "consumer.override.max.poll.records", "1 or more"),
    ],
)
def test_unsupported_settings_of_a_sink_are_refused_by_name(
    worker: Worker, tmp_path: Path, changes: dict[str, str], key: str, text: str
) -> None:
    config = {"name": "s", **file_sink(tmp_path / "out", "t"), **changes}
    answer = worker.rest.put("/connector-plugins/FileStreamSink/config/validate", json=config).json()
    errors = {one["value"]["name"]: one["value"]["errors"] for one in answer["configs"]}
    assert any(text in error for error in errors[key]), errors


def test_the_workers_own_group_is_refused_for_a_sink(worker: Worker, tmp_path: Path) -> None:
    group = worker.properties["group.id"]
    config = {"name": "s", **file_sink(tmp_path / "out", "t"), "consumer.override.group.id": group}
    answer = worker.create("s", config)
    assert answer.status_code == 400
    assert f"conflicts with Connect worker group {group}" in answer.json()["message"]


def test_plugins_are_listed_with_their_types(worker: Worker) -> None:
    types = {one["class"]: one["type"] for one in worker.rest.get("/connector-plugins").json()}
    assert types["org.apache.kafka.connect.file.FileStreamSinkConnector"] == "sink"
    assert types["org.apache.kafka.connect.tools.VerifiableSinkConnector"] == "sink"
    assert types["org.apache.kafka.connect.file.FileStreamSourceConnector"] == "source"
    names = {
        one["value"]["name"]
        for one in worker.rest.put(
            "/connector-plugins/FileStreamSink/config/validate",
            json={"connector.class": "FileStreamSink", "topics": "t", "name": "n"},
        ).json()["configs"]
    }
    assert len(names) == 25
