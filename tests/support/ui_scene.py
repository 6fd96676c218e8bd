"""A worker with roles and some connectors, for the browser to look at."""

from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from fencepost.kafka.admin.client import Admin
from fencepost.testing import RAISE, TestingSource
from support.worker import Worker

NASTY = '"><img src=x onerror=alert(1)>/ü%2F {{7*7}}'
TRACE = "<script>alert('trace')</script></pre><svg onload=alert(2)>"
USERS = ("ada", "vera", "otto", "sam")
ROLES = """
user:ada  admin   *
user:vera view    orders*
user:otto operate orders*
user:sam  edit    orders*
user:sam  edit    payments
user:sam  edit    customers*
"""


@dataclass(frozen=True)
class Scene:
    """The worker, and the directory of its files."""

    worker: Worker
    directory: Path


def fill(worker: Worker, bootstrap: str, directory: Path) -> None:
    rows = {"connector.class": "DatagenConnector", "topic": "orders", "rows.per.second": "40", "tasks.max": "2"}
    sink = {
        "connector.class": "FileStreamSink",
        "topics": "orders",
        "file": str(directory / "orders.txt"),
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "orders-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "consumer.override.auto.offset.reset": "earliest",
        "ssl.keystore.password": "never to be shown",
    }
    picky = {
        **sink,
        "topics": "orders-picky",
        "file": str(directory / "picky.txt"),
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.deadletterqueue.topic.name": "orders-picky-dead",
        "errors.deadletterqueue.context.headers.enable": "true",
        "errors.deadletterqueue.resend.topic.name": "orders-picky-again",
    }
    _write_no_json("orders-picky", bootstrap)
    bad = TestingSource(["one", RAISE(TRACE, times=1000)], topic="clicks", bootstrap=bootstrap)
    made = [
        worker.create("orders-source", rows),
        worker.create("orders-to-file", sink),
        worker.create("clicks", bad.properties(name="clicks")),
        worker.create(NASTY, {**rows, "topic": "nasty", "rows.per.second": "1", "tasks.max": "1"}),
        worker.create("payments", {**rows, "topic": "payments", "tasks.max": "1"}, initial_state="STOPPED"),
        worker.create("orders-picky", picky),
        worker.create("customers-to-file", {**sink, "topics": "nasty", "file": str(directory / "c.txt")}),
    ]
    assert [answer.status_code for answer in made] == [201] * len(made), [answer.text for answer in made]


def _write_no_json(topic: str, bootstrap: str) -> None:
    """Write values that a sink refuses: text that would be markup, text that is cut off, and bytes."""
    Admin({"bootstrap.servers": bootstrap}).topics.create(topic, partitions=1, replication=1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in ((NASTY, NASTY.encode()), ("16", b"\xff\x00"), ("17", b'{"order": 17, "total":')):
        producer.produce(topic, value, key, headers=[(key, key.encode())])
    assert producer.flush(30) == 0
