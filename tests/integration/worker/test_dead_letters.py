"""`fencepost dead-letters` during a worker's run: for a source and for a sink."""

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from fencepost.cli.main import app
from fencepost.config import ConfigError
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.worker import Worker

LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}


def printed(worker: Worker, name: str, *options: str) -> str:
    """What the command prints; the worker's file tells where Kafka is. Raises what it raises."""
    address = f"http://127.0.0.1:{worker.port}"
    command = ["dead-letters", name, "--url", address, "--properties", str(worker.file), *options]
    done = CliRunner().invoke(app, command)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def shown(worker: Worker, name: str, count: int) -> list[dict[str, Any]]:
    """Return the output of `--json`, once there are so many dead letters."""

    def found() -> list[dict[str, Any]] | None:
        letters = [json.loads(line) for line in printed(worker, name, "--json").splitlines()]
        return letters if len(letters) >= count else None

    letters = eventually(found, within_s=60)
    assert letters is not None
    return letters


@contextlib.contextmanager
def corrected(worker: Worker, name: str, config: dict[str, str]) -> Iterator[None]:
    """Inside, no task runs; those that follow take every value."""
    assert worker.rest.put(f"/connectors/{name}/stop").status_code == 204
    admin = Admin({"bootstrap.servers": worker.properties["bootstrap.servers"]})
    eventually(lambda: not admin.groups.describe(f"connect-{name}").members, within_s=60)
    changed = {**config, "value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    assert worker.rest.put(f"/connectors/{name}/config", json=changed).status_code == 200
    yield
    assert worker.rest.put(f"/connectors/{name}/resume").status_code == 202


def test_bad_records_of_a_source_are_shown_and_good_records_are_delivered(
    worker: Worker, name: str, values: Any, tmp_path: Path
) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("one\nbad\nthree\n")
    config = {
        "connector.class": "FileStreamSource",
        "file": str(lines),
        "topic": name,
        "value.converter": "worker_suite.PickyConverter",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        **LETTERS,
    }
    assert worker.create(name, config).status_code == 201
    assert values(name, 2) == ["one", "three"]
    [letter] = shown(worker, name, 1)
    assert (letter["value"], letter["stage"], letter["connector"]) == ('"bad"', "VALUE_CONVERTER", name)
    assert letter["class"] == "worker_suite.PickyConverter"
    assert letter["origin"]["partition"] == {"filename": str(lines)}
    text = printed(worker, name)
    assert "does not take 'bad'" in text
    assert f"1 dead letter of {name} in {name}-dead" in text
    requests = f'deadletterqueue_produce_requests{{connector="{name}",task="0"}} 1.0'
    eventually(lambda: requests in worker.rest.get("/metrics").text)
    with pytest.raises(ConfigError, match=r"is a source.*set its offsets"):
        printed(worker, name, "--resend", "--yes")


def test_e15_killed_slots_lose_and_repeat_no_dead_letter(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    """Every number is in the topic or in the dead letters, once, though SIGKILL comes at any moment."""
    witness, last = tmp_path / "starts", 2_000
    config = {
        "connector.class": "worker_suite.CountingConnector",
        "topic": name,
        "last": str(last),
        "witness": str(witness),
        "value.converter": "worker_suite.SevensConverter",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        **LETTERS,
    }
    created = worker.create(name, config)
    assert created.status_code == 201, created.text
    with CommittedReader(kafka.bootstrap_servers, [name, f"{name}-dead"]) as reader:

        def kept() -> list[int]:
            return [int((o.value or b"").strip(b'"')) for o in reader.seen()]

        for reached in (400, 1_200):
            eventually(lambda: max(kept(), default=0) >= reached, within_s=60)  # noqa: B023
            for pid in worker.slots().values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        eventually(lambda: max(kept(), default=0) >= last, within_s=60)
        found = kept()
        assert sorted(found) == list(range(1, last + 1))
        dead = [int((o.value or b"").strip(b'"')) for o in reader.seen_of(f"{name}-dead")]
    assert dead == list(range(7, last + 1, 7))
    assert len(witness.read_text().splitlines()) >= 3


def test_dead_letters_of_a_sink_are_shown_and_resent_once_on_request(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    out, topic = tmp_path / "out.txt", f"{name}-in"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic, partitions=1, replication=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for value in (b"1", b"{broken", b"3"):
        producer.produce(topic, value)
    producer.flush(30)
    config = {
        "connector.class": "FileStreamSink",
        "file": str(out),
        "topics": topic,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        **LETTERS,
    }
    assert worker.create(name, config).status_code == 201
    [letter] = shown(worker, name, 1)
    assert letter["origin"].pop("timestamp") <= letter["timestamp"]
    assert letter["origin"] == {"topic": topic, "partition": 0, "offset": 1}
    assert (letter["value"], letter["is_sent_again"]) == ("{broken", False)
    asked = printed(worker, name, "--resend")  # and no answer
    assert "for every consumer there" in asked
    assert f"1 of topic {topic}" in asked
    with corrected(worker, name, config):
        assert "Sent again: 1" in printed(worker, name, "--resend", "--yes")
    eventually(lambda: out.read_text().splitlines() == ["1", "3", "{broken"], within_s=60)
    assert "wait to be sent again" in printed(worker, name, "--resend", "--yes")
    assert [one["is_sent_again"] for one in shown(worker, name, 1)] == [True]


def test_only_the_sink_with_the_retry_topic_gets_its_dead_letters_unchanged(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    """The first time again in vain: the letter of a letter still tells where it came from at first."""
    out, topic = tmp_path / "out.txt", f"{name}-in"
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(topic, partitions=1, replication=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"{broken", headers=[("own", b"h")])
    producer.flush(30)
    config = {
        "connector.class": "worker_suite.OriginSink",
        "file": str(out),
        "topics": topic,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        "errors.deadletterqueue.resend.topic.name": f"{name}-again",
        **LETTERS,
    }
    created = worker.create(name, config)
    assert created.status_code == 201, created.text
    shown(worker, name, 1)
    to = f"To {name}-again, which {name} reads: 1 of topic {topic}"
    assert to in printed(worker, name, "--resend", "--yes")
    first, second = [letter["origin"] for letter in shown(worker, name, 2)]
    assert first == second
    assert (first["topic"], first["partition"], first["offset"]) == (topic, 0, 0)
    with corrected(worker, name, config):
        assert to in printed(worker, name, "--resend", "--yes")
    eventually(lambda: out.read_text() == f"{topic} {name}-again own={{broken\n", within_s=60)
    assert admin.offsets.ends([(topic, 0)], read_committed=True) == {(topic, 0): 1}  # nobody else got it again


def test_command_names_the_reason_when_dead_letters_cannot_be_shown(
    worker: Worker, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="There is no connector"):
        printed(worker, name)
    (tmp_path / "in.txt").touch()
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": name}
    assert worker.create(name, config).status_code == 201
    monkeypatch.setattr("fencepost.cli.connector.dead_letters.ASK_S", 1.0)
    with pytest.raises(ConfigError, match="set the worker's brokers with --bootstrap"):
        printed(worker, name, "--topic", "any", "--bootstrap", "127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"set errors\.deadletterqueue\.topic\.name"):
        printed(worker, name)


def test_values_that_fit_no_column_become_dead_letters_of_the_same_bytes(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    """Key, value and headers of the letters are those bytes; all other records are in the files."""
    out, topic, broken = tmp_path / "out", f"{name}-in", b'{"n": "\xff\x00"}'
    admin, kept = Admin({"bootstrap.servers": kafka.bootstrap_servers}), {"retention.ms": "-1"}  # they are from 2023
    admin.topics.create(topic, partitions=2, replication=1, configs=kept)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for n, value in enumerate((b'{"n": 0}', broken, b'{"n": 2}', b"", None, b"[5]", b'{"n": 6}')):
        at_ms = 1_700_000_000_000 + n
        producer.produce(topic, value, b"\xfe%d" % n, n % 2, headers=[("h", b"\xfd"), ("none", None)], timestamp=at_ms)
    assert producer.flush(30) == 0
    config = {
        "connector.class": "FilesSink",
        "path": str(out),
        "format": "json",
        "topics": topic,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "value.schema": "n INT",
        "transforms.sql": "SELECT value.n FROM records WHERE offset > -1",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        **LETTERS,
    }
    created = worker.create(name, config)
    assert created.status_code == 201, created.text
    eventually(lambda: worker.sink_offsets(name) == {(topic, 0): 4, (topic, 1): 3}, within_s=300)
    with CommittedReader(kafka.bootstrap_servers, [f"{name}-dead"]) as reader:
        found = {o.key: o for o in reader.catch_up()}
    assert {key: o.value for key, o in found.items()} == {b"\xfe1": broken, b"\xfe3": b"", b"\xfe5": b"[5]"}
    rows = [json.loads(line).get("n") for file in out.glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(rows, key=str) == [0, 2, 6, None]
    letters = shown(worker, name, 3)
    assert sorted((each["origin"]["partition"], each["origin"]["offset"]) for each in letters) == [
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    assert {(each["connector"], each["task"], each["stage"]) for each in letters} == {(name, 0, "VALUE_CONVERTER")}
    assert {each["class"] for each in letters} == {config["value.converter"]}
    times = sorted(each["origin"].pop("timestamp") for each in letters)
    assert times == [1_700_000_000_001, 1_700_000_000_003, 1_700_000_000_005]
    assert min(each["timestamp"] for each in letters) > 1_750_000_000_000  # their own: retention counts from there
    assert all(each["headers"] == [["h", {"base64": "/Q=="}], ["none", None]] for each in letters)
    assert all("is not JSON that fits value.schema" in each["message"] for each in letters), letters
    for metric in ("deadletterqueue_produce_requests", "records_skipped_total", "record_errors_total"):
        line = f'{metric}{{connector="{name}",task="0"}} 3.0'
        eventually(lambda line=line: line in worker.rest.get("/metrics").text)
