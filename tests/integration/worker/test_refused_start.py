"""A worker that cannot start says why, all of it at once, and ends; one that only has to wait, waits."""

import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.cluster import LightWorker
from support.quick import quick_kafka
from support.worker import Worker, free_port


@pytest.fixture
def fresh(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Worker]:
    """A worker of a new group, not started."""
    own = Worker(kafka.bootstrap_servers, tmp_path, {"spark.master": "local[2]"}, group=f"g-{uuid.uuid4().hex[:6]}")
    yield own
    _end(own)


@pytest.fixture
def light(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Worker]:
    """The same without Spark, and without the command's own words around what it says."""
    own = LightWorker(kafka.bootstrap_servers, tmp_path, group=f"g-{uuid.uuid4().hex[:6]}")
    yield own
    _end(own)


def _end(worker: Worker) -> None:
    if worker.process is not None and worker.process.poll() is None:
        worker.kill()


def refusal(worker: Worker, within_s: float = 60) -> str:
    """Return what a worker printed that ended by itself, as it should: with 1."""
    worker.launch()
    assert worker.process is not None
    assert worker.process.wait(within_s) == 1, worker.log_text()
    return worker.log_text()


def test_all_errors_of_a_worker_file_are_reported_at_once(fresh: Worker) -> None:
    fresh.properties |= {
        "session.timeout.ms": "soon",
        "exactly.once.source.support": "maybe",
        "offset.flush.interval.ms": "-1",
        "listeners": "gopher://x:1",
    }
    del fresh.properties["status.storage.topic"]
    text = refusal(fresh)
    for key in (
        "session.timeout.ms",
        "exactly.once.source.support",
        "offset.flush.interval.ms",
        "listeners",
        "status.storage.topic",
    ):
        assert any(key in line for line in text.splitlines() if line.startswith("  - ")), key
    assert "Traceback" not in text


def test_a_missing_worker_file_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fencepost.cli.main", "worker", str(tmp_path / "no.properties")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode != 0
    assert "no.properties" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_converter_is_refused(light: Worker) -> None:
    """Health said that all is well, and every connector without converters of its own failed."""
    light.properties["value.converter"] = "io.apicurio.registry.utils.converter.AvroConverter"
    text = refusal(light)
    assert "Invalid value io.apicurio.registry.utils.converter.AvroConverter for configuration value.converter" in text


def test_all_classes_and_listeners_of_a_worker_file_are_checked_at_once(light: Worker) -> None:
    light.properties |= {
        "key.converter": "org.apache.kafka.connect.json.JsonConvertor",
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvidr",
        "listeners": f"http://0.0.0.0:{light.port}",
    }
    light.properties.pop("rest.unprotected", None)
    text = refusal(light)
    for key in ("configuration key.converter", "config.providers.file.class", "listeners: other machines"):
        assert any(key in line for line in text.splitlines()), text


def test_a_rest_port_in_use_is_refused(light: Worker) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", light.port))
        taken.listen()
        text = refusal(light)
    assert str(light.port) in text
    assert "choose another port" in text


def test_a_config_topic_with_two_partitions_is_refused(fresh: Worker, kafka: EmbeddedKafka) -> None:
    topic = fresh.properties["config.storage.topic"]
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(topic, partitions=2, replication=1, configs={"cleanup.policy": "compact"})
    text = refusal(fresh)
    assert topic in text
    assert "The worker cannot start" in text
    assert admin.topics.partitions(topic) == 2


def test_an_internal_topic_that_is_not_compacted_is_refused(light: Worker, kafka: EmbeddedKafka) -> None:
    topic = light.properties["offset.storage.topic"]
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(topic, partitions=1, replication=1, configs={"cleanup.policy": "delete"})
    text = refusal(light)
    assert topic in text
    assert "cleanup.policy" in text
    assert "Traceback" not in text


def test_worker_waits_for_enough_brokers_for_the_replicas_of_a_topic(light: Worker, kafka: EmbeddedKafka) -> None:
    light.properties |= {f"{which}.storage.replication.factor": "3" for which in ("config", "offset", "status")}
    light.launch()
    eventually(lambda: "Brokers may still be starting: waiting 30 s for them; retrying" in light.log_text())
    assert light.rest.get("/health").json()["status"] == "starting"
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    for which in ("config", "offset", "status"):
        topic = light.properties[f"{which}.storage.topic"]
        admin.topics.create(topic, partitions=1, replication=1, configs={"cleanup.policy": "compact"})
    eventually(lambda: light.rest.get("/health").status_code == 200, within_s=60)
    assert light.stop() == 0


def test_worker_waits_for_a_broker_and_warns_of_an_unknown_key(light: Worker) -> None:
    port = free_port()
    light.properties["bootstrap.servers"] = f"127.0.0.1:{port}"
    light.properties["ofset.flush.interval.ms"] = "1000"
    light.launch()
    eventually(lambda: _answers(light), within_s=60)
    assert light.rest.get("/health").json()["status"] == "starting"
    eventually(lambda: "retrying" in light.log_text(), within_s=60)
    assert "did you mean 'offset.flush.interval.ms'" in light.log_text()
    with quick_kafka(port=port):
        eventually(lambda: light.rest.get("/health").status_code == 200, within_s=60)
        assert light.stop() == 0


def test_a_worker_that_waits_for_kafka_stops_on_sigterm(fresh: Worker) -> None:
    fresh.properties["bootstrap.servers"] = "127.0.0.1:1"
    fresh.launch()
    eventually(lambda: _answers(fresh), within_s=60)
    assert fresh.stop(within_s=60) == 0


def _answers(worker: Worker) -> bool:
    try:
        return worker.rest.get("/health").status_code == 503
    except httpx.TransportError:
        return False
