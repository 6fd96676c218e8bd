"""Records of topics over REST and the command line, read by a worker from a real Kafka."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from fencepost.cli.main import app
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.worker import Worker


def printed(worker: Worker, *words: str) -> str:
    done = CliRunner().invoke(app, ["topic", *words, "--url", f"http://127.0.0.1:{worker.port}"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def values(worker: Worker, *words: str) -> list[str]:
    return [json.loads(line)["value"]["text"] for line in printed(worker, "read", *words, "--json").splitlines()]


def test_a_worker_shows_the_records_of_a_topic_from_any_place(worker: Worker, name: str, tmp_path: Path) -> None:
    lines = tmp_path / "records.txt"
    lines.write_text("".join(f"line {n}\n" for n in range(30)))
    config: dict[str, Any] = {
        "connector.class": "FileStreamSource",
        "file": str(lines),
        "topic": name,
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    assert worker.create(name, config).status_code == 201
    every = [f"line {n}" for n in range(30)]
    eventually(lambda: worker.rest.get(f"/topics/{name}/records").status_code == 200, within_s=60)
    eventually(lambda: values(worker, name, "--from", "earliest", "-n", "40") == every, within_s=60)
    assert values(worker, name) == every[-10:]
    assert values(worker, name, "--from", "earliest", "-n", "2") == every[:2]
    assert values(worker, name, "--from", "27", "--connector", name) == every[27:]
    assert values(worker, name, "--from", "2020-01-01", "-n", "1") == every[:1]
    assert values(worker, name, "--from", "2100-01-01") == []
    assert "  value  line 29" in printed(worker, "read", name, "-n", "1").splitlines()
    assert any(line.startswith(name) for line in printed(worker, "list").splitlines())


@pytest.mark.parametrize("path", ["/topics/{config}/records", "/topics/__consumer_offsets/records"])
def test_topics_of_the_workers_are_refused(worker: Worker, path: str) -> None:
    config = worker.properties["config.storage.topic"]
    answer = worker.rest.get(path.format(config=config))
    assert (answer.status_code, "may not read or write it" in answer.json()["message"]) == (400, True)
    assert config not in printed(worker, "list")
    assert worker.rest.get("/topics/no-such-topic/records").status_code == 404


def test_a_plan_shows_a_sinks_records_and_writes_nothing(worker: Worker, name: str, tmp_path: Path) -> None:
    admin = Admin({"bootstrap.servers": worker.properties["bootstrap.servers"]})
    admin.topics.create(name, partitions=1, replication=1)
    producer = Producer({"bootstrap.servers": worker.properties["bootstrap.servers"]})
    producer.produce(name, b'{"a":1,"b":2}', key=b"k")
    producer.flush(30)
    sink = {
        "connector.class": "FileStreamSink",
        "topics": name,
        "file": str(tmp_path / "planned.txt"),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "only",
        "transforms.only.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
        "transforms.only.field": "b",
    }
    file = tmp_path / "planned.json"
    file.write_text(json.dumps({"name": name, "config": sink}))
    done = CliRunner().invoke(app, ["plan", str(file), "--properties", str(worker.file)])
    assert done.exception is None, done.output
    assert done.output.splitlines() == [
        f"1  {name}-0@0",
        f'  before   topic {name}  key "k"  value {{"a":1,"b":2}}',
        f'  after    topic {name}  key "k"  value 2',
        "1 record: 0 would be filtered, 0 would fail",
        "What is after is what the task would be given.",
        "No right on these topics is missing. `fencepost acls` lists all rights.",
    ]
    assert not (tmp_path / "planned.txt").exists()
    assert admin.groups.listed(f"connect-{name}") is None
