"""What a worker answers from its memory."""

from types import SimpleNamespace
from typing import Any

from fencepost.cluster.info import KafkaInfo
from fencepost.config.worker import WorkerConfig
from fencepost.worker.operation.connector.connectors import LocalAnswers

NEEDED = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
GIVEN = {"key.converter": "JsonConverter", "value.converter": "JsonConverter", "sasl.mechanism": "PLAIN"}


def test_worker_shows_its_brokers_and_no_credentials() -> None:
    secret = {"sasl.jaas.config": "a.PlainLoginModule required username='me' password='geheim';"}
    settings = {**dict.fromkeys(NEEDED, "x"), **GIVEN, **secret, "bootstrap.servers": "a:9092, b:9093"}
    topics: Any = SimpleNamespace(cluster_id="cluster")
    assert LocalAnswers(WorkerConfig(settings), topics).kafka() == KafkaInfo("cluster", "a:9092,b:9093")
