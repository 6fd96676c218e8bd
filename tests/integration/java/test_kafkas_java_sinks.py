"""Kafka's own sinks, Java's: beside the built-in ones of the same names, which run unless a version is asked for."""

from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from fencepost import __version__
from fencepost.embedded import EmbeddedKafka
from fencepost.embedded.home import KAFKA_VERSION
from fencepost.testing import eventually
from support.worker import Worker

WITHIN_S = 240
JAVAS = {"connector.plugin.version": KAFKA_VERSION}
_JSON = {
    f"{kind}.converter{more}": value
    for kind in ("key", "value")
    for more, value in (("", "org.apache.kafka.connect.json.JsonConverter"), (".schemas.enable", "false"))
}


def produce(kafka: EmbeddedKafka, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, b"%d" % number, key=b"1", partition=0)
    assert producer.flush(60) == 0


def created(worker: Worker, name: str, sink: str, **config: Any) -> None:
    answer = worker.create(name, {"connector.class": sink, "topics": name, **JAVAS, **config})
    assert answer.status_code == 201, answer.text


def test_lines_arrive_in_the_file_of_javas_file_sink(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    produce(kafka, name, 500)
    created(worker, name, "FileStreamSink", file=str(out))
    eventually(lambda: out.exists() and len(out.read_text().splitlines()) >= 500, within_s=WITHIN_S)
    assert out.read_text().splitlines() == [str(number) for number in range(500)]
    (task,) = worker.rest.get(f"/connectors/{name}/tasks").json()
    assert task["config"]["task.class"] == "org.apache.kafka.connect.file.FileStreamSinkTask"
    listed = worker.rest.get("/connector-plugins").json()
    assert {one["version"] for one in listed if one["class"].endswith("FileStreamSinkConnector")} == {
        __version__,
        KAFKA_VERSION,
    }


def test_the_verifiable_sink_prints_each_record(worker: Worker, kafka: EmbeddedKafka, name: str) -> None:
    produce(kafka, name, 20)
    created(worker, name, "VerifiableSink", **_JSON)

    def printed() -> list[str]:
        lines = worker.log.read_text().splitlines()
        return [line for line in lines if name in line and "seqno" in line and "sinkTask" in line]

    eventually(lambda: len(printed()) >= 20, within_s=WITHIN_S)


def test_the_mock_sink_fails_in_a_requested_put_without_records(
    worker: Worker, kafka: EmbeddedKafka, name: str
) -> None:
    produce(kafka, name, 1)
    created(worker, name, "MockSink", mock_mode="task-failure", delay_ms="500")
    (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=WITHIN_S)
    assert "org.apache.kafka.connect.tools.MockSinkTask" in failed["trace"]
