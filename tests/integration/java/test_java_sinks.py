"""A Java sink, from Kafka to its file: nothing missing, whoever of its processes is killed, and no offset too early."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.read.log import LogReader
from fencepost.testing import eventually, judge
from fencepost.testing.verdict import Verdict
from support.chaos.processes import is_alive
from support.host_processes import hosts
from support.worker import Worker

SINK = "tests.LinesSinkConnector"
WITHIN_S = 240
_JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def letters_to(topic: str) -> dict[str, str]:
    """Return the settings of dead letters with headers in a topic."""
    return {
        "errors.deadletterqueue.topic.name": topic,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }


def produce(kafka: EmbeddedKafka, topic: str, values: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
    for value in values:
        producer.produce(topic, value.encode(), partition=0, headers=[("from", b"test")])
    assert producer.flush(60) == 0


def created(worker: Worker, name: str, out: Path, **more: Any) -> None:
    config = {
        "connector.class": SINK,
        "topics": name,
        "file": str(out),
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    answer = worker.create(name, config | {key.replace("_", "."): str(value) for key, value in more.items()})
    assert answer.status_code == 201, answer.text


def lines(out: Path) -> list[str]:
    """Return what was written: `TOPIC-PARTITION@OFFSET VALUE`."""
    return out.read_text().splitlines() if out.exists() else []


def is_written(out: Path, topic: str, values: Sequence[str]) -> bool:
    return {f"{topic}-0@{n} {value}" for n, value in enumerate(values)} <= set(lines(out))


def verdict(out: Path, values: Sequence[str]) -> Verdict:
    """Compare what was written with the records of the only partition; a line may stand there several times."""
    pairs = [line.rpartition("-")[2].split("@", 1) for line in lines(out)]
    return judge({"0": [f"{n} {value}" for n, value in enumerate(values)]}, pairs)


def dead_letters(kafka: EmbeddedKafka, topic: str) -> dict[bytes | None, dict[str, bytes | None]]:
    """Return the headers of all dead letters by their values: the last, if there are several with one value."""
    found: dict[bytes | None, dict[str, bytes | None]] = {}
    reader = LogReader({"bootstrap.servers": kafka.bootstrap_servers}, topic)
    try:
        reader.read_to_end(60, lambda letter: found.update({letter.value: dict(letter.headers)}))
    finally:
        reader.close()
    return found


def ensure_no_offset_is_early(worker: Worker, name: str, out: Path, values: Sequence[str]) -> None:
    committed = worker.sink_offsets(name).get((name, 0), 0)
    assert is_written(out, name, values[:committed])


def test_no_record_is_lost_when_host_slot_or_worker_is_killed(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    out, values = tmp_path / "out", [f"v{number}" for number in range(800)]
    produce(kafka, name, values[:200])
    created(worker, name, out)
    listed = {one["class"]: one for one in worker.rest.get("/connector-plugins").json()}
    assert listed[SINK] == {"class": SINK, "type": "sink", "version": "2.71"}
    eventually(lambda: is_written(out, name, values[:200]), within_s=WITHIN_S)
    assert worker.rest.get(f"/connectors/{name}/tasks").json()[0]["config"]["topics"] == name

    for round_, kill in enumerate(("host", "slot", "worker"), start=1):
        produce(kafka, name, values[200 * round_ : 200 * round_ + 200])
        if kill == "host":
            for host in hosts(worker):
                host.kill()
        elif kill == "slot":
            for pid in worker.slots().values():
                os.kill(pid, signal.SIGKILL)
        else:
            worker.kill()
            worker.start()
        ensure_no_offset_is_early(worker, name, out, values)
        so_far = values[: 200 * round_ + 200]
        eventually(lambda so_far=so_far: is_written(out, name, so_far), within_s=WITHIN_S)  # type: ignore[misc]
    eventually(lambda: worker.sink_offsets(name) == {(name, 0): 800}, within_s=WITHIN_S)
    found = verdict(out, values)
    assert (found.missing, found.unexpected) == ((), ()), found  # at least once: records may be there twice
    assert found.observed >= found.expected


def test_unconvertible_and_reported_records_become_dead_letters_unchanged(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    out, dead = tmp_path / "out", f"{name}-dead"
    produce(kafka, name, ['"a"', "{no json", '"!report"', '"!retriable"', '"b"'])
    more = _JSON | letters_to(dead) | {"errors.tolerance": "all"}
    created(worker, name, out, **more)
    eventually(lambda: worker.sink_offsets(name) == {(name, 0): 5}, within_s=WITHIN_S)
    assert {line.split()[1] for line in lines(out)} == {"a", "!report", "!retriable", "b"}
    facts = dead_letters(kafka, dead)  # safe before the offsets were committed
    assert facts.keys() == {b"{no json", b'"!report"'}
    unread, reported = facts[b"{no json"], facts[b'"!report"']
    assert unread["from"] == reported["from"] == b"test"
    assert unread["__connect.errors.offset"] == b"1"
    assert unread["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert unread["__connect.errors.class.name"] == b"org.apache.kafka.connect.json.JsonConverter"
    assert unread["__connect.errors.exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert reported["__connect.errors.stage"] == b"TASK_PUT"
    assert reported["__connect.errors.class.name"] == b"tests.LinesSinkTask"
    assert reported["__connect.errors.exception.message"] == b"unwanted"


def test_a_reported_record_is_a_dead_letter_although_its_host_is_killed_at_once(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    """A task that keeps its own offsets does not get it again."""
    out, dead = tmp_path / "out", f"{name}-dead"
    produce(kafka, name, ["a", "!report-and-die", "b"])
    more = letters_to(dead) | {"errors.tolerance": "all"}
    created(worker, name, out, **more)
    eventually(lambda: worker.sink_offsets(name) == {(name, 0): 3}, within_s=WITHIN_S)
    assert (tmp_path / "out.reported").exists()
    assert dead_letters(kafka, dead).keys() == {b"!report-and-die"}


def test_an_untolerated_record_fails_the_task_as_a_dead_letter_with_javas_stack(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    out, dead = tmp_path / "out", f"{name}-dead"
    produce(kafka, name, ['"a"', "{no json", '"b"'])
    more = _JSON | letters_to(dead)
    created(worker, name, out, **more)
    (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=WITHIN_S)
    trace = failed["trace"]
    assert "stage 'VALUE_CONVERTER' failed for the record for topic" in trace
    assert "com.fasterxml.jackson.core.JsonParseException" in trace
    (letter,) = eventually(lambda: list(dead_letters(kafka, dead).items()), within_s=WITHIN_S)
    assert letter[0] == b"{no json"
    stack = letter[1]["__connect.errors.exception.stacktrace"] or b""
    assert stack.startswith(b"org.apache.kafka.connect.errors.DataException")
    assert b"Caused by: " in stack
    assert worker.sink_offsets(name).get((name, 0), 0) <= 1


def test_a_resent_record_is_read_from_the_sinks_own_topic(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    out, again = tmp_path / "out", f"{name}-again"
    more = {
        **letters_to(f"{name}-dead"),
        "errors.tolerance": "all",
        "errors.deadletterqueue.resend.topic.name": again,
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.route.topic.field": "of",
    }
    produce(kafka, name, ['{"n": 1}'])
    created(worker, name, out, **(_JSON | more))
    eventually(lambda: len(lines(out)) == 1, within_s=WITHIN_S)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(again, b'{"n": 2}', partition=0, headers=[("__fencepost.resent.topic", name.encode())])
    assert producer.flush(60) == 0
    eventually(lambda: len(lines(out)) == 2, within_s=WITHIN_S)
    for line, topic, number in zip(lines(out), (name, again), (1, 2), strict=True):
        place, *value = line.strip("}").replace("{", "").replace(",", "").split()
        assert (place, sorted(value)) == (f"{topic}-0@0", [f"n={number}", f"of={name}"])


def test_an_exception_in_put_fails_the_task_without_committing_the_record(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    produce(kafka, name, ["a", "!fail"])
    created(worker, name, out)
    (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=WITHIN_S)
    trace = failed["trace"]
    assert "it was told to fail" in trace
    assert "LinesSinkTask.java" in trace
    assert worker.sink_offsets(name).get((name, 0), 0) <= 1


def test_deleting_the_connector_ends_the_host_of_a_put_that_never_returns(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    produce(kafka, name, ["a"])
    created(worker, name, out)
    eventually(lambda: worker.sink_offsets(name) == {(name, 0): 1}, within_s=WITHIN_S)
    before = hosts(worker)
    assert before
    produce(kafka, name, ["!hang", "b"])
    eventually(lambda: (tmp_path / "out.hangs").exists(), within_s=WITHIN_S)
    worker.rest.delete(f"/connectors/{name}")
    eventually(lambda: not any(map(is_alive, before)), within_s=WITHIN_S)
    assert set(lines(out)) == {f"{name}-0@0 a"}
