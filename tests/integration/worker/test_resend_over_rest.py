"""Dead letters over REST during a worker's run: seen, sent again, and processed once."""

from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.worker import Worker


def resent(worker: Worker, name: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return how a resend has ended."""
    path = f"/connectors/{name}/dead-letters/resend"
    answer = worker.rest.post(path, json=body or {})
    assert answer.status_code == 202, answer.text

    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = worker.rest.get(path).json()
        return found if found["ended_ms"] is not None else None

    found = eventually(ended, within_s=120)
    assert found is not None
    return found


def test_a_record_is_processed_once_after_its_letter_was_resent(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    out, topic, path = tmp_path / "out.txt", f"{name}-in", f"/connectors/{name}/dead-letters"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic, partitions=1, replication=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for value in (b"1", b"{broken", b"3", b"{too"):
        producer.produce(topic, value, b"k")
    producer.flush(30)
    config = {
        "connector.class": "FileStreamSink",
        "file": str(out),
        "topics": topic,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    assert worker.create(name, config).status_code == 201
    eventually(lambda: len(worker.rest.get(path).json()["letters"]) == 2, within_s=120)
    page = worker.rest.get(path, params={"limit": 1}).json()
    [second], [first] = page["letters"], worker.rest.get(path, params={"before": page["older"]}).json()["letters"]
    origin = first["origin"]
    assert (origin["topic"], origin["partition"], origin["offset"], first["task"]) == (topic, 0, 1, 0)
    assert (first["content"]["key"]["text"], first["content"]["value"]["text"]) == ("k", "{broken")
    assert (first["error"]["stage"], first["is_handled"]) == ("VALUE_CONVERTER", False)
    assert worker.rest.put(f"/connectors/{name}/stop").status_code == 204
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    eventually(lambda: not admin.groups.describe(f"connect-{name}").members, within_s=60)  # the task that refuses
    changed = {**config, "value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    assert worker.rest.put(f"/connectors/{name}/config", json=changed).status_code == 200
    ended = resent(worker, name, {"letters": [second["letter"]]})
    assert (ended["state"], ended["total"], ended["sent"]) == ("done", 1, 1)
    ended = resent(worker, name)
    assert (ended["state"], ended["total"], ended["sent"]) == ("done", 1, 1)
    assert resent(worker, name)["sent"] == 0
    assert [one["is_handled"] for one in worker.rest.get(path).json()["letters"]] == [True, True]
    assert worker.rest.put(f"/connectors/{name}/resume").status_code == 202
    eventually(lambda: out.read_text().splitlines() == ["1", "3", "{too", "{broken"], within_s=120)


def test_an_impossible_resend_is_refused_with_the_next_step(worker: Worker, name: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").touch()
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": name}
    assert worker.create(name, config).status_code == 201
    path = f"/connectors/{name}/dead-letters"
    without = worker.rest.get(path)
    assert (without.status_code, "set errors.deadletterqueue.topic.name" in without.text) == (400, True)
    letters = {**config, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": f"{name}-dead"}
    assert worker.rest.put(f"/connectors/{name}/config", json=letters).status_code == 200
    refused = worker.rest.post(f"{path}/resend", json={})
    assert refused.status_code == 400
    assert "is a source: its dead letters describe records" in refused.json()["message"]
    assert worker.rest.get(path).json()["letters"] == []
    assert worker.rest.get(path, params={"before": "x"}).status_code == 400
    for unknown in (worker.rest.get(f"{path}x"), worker.rest.post(f"/connectors/{name}x/dead-letters/resend")):
        assert unknown.status_code == 404
