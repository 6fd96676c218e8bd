"""What of the preparation of a start fails the task, and what passes."""

import threading
from typing import Any

import pytest

from fencepost.config.worker import WorkerConfig
from fencepost.kafka.admin.client import ClusterIds
from fencepost.kafka.errors import KafkaUnavailableError, ReadTimeoutError
from fencepost.storage import records
from fencepost.storage.change import Assignment, TaskId, WorkerAssignment
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.task.handle import StartIdentity, TaskHandle
from fencepost.worker.supervision.task.specs import AwayError, Preparation
from support.memory_topic import MemoryTopic
from support.settings import SETTINGS


def test_start_is_retried_with_the_reason_when_reading_the_config_topic_is_slow() -> None:
    """A transaction that hangs stays until somebody ends it: nobody would know of it from a line of a log."""

    def late(timeout_s: float) -> ClusterSnapshot:
        raise ReadTimeoutError("a transaction stays open")

    settings = WorkerSettings(WorkerConfig(SETTINGS), "http://w:1", "me")
    handle = TaskHandle(StartIdentity(TaskId("out", 0), 1, "i", is_sink=True), "STARTED")
    never: Any = None
    with pytest.raises(AwayError, match="a transaction stays open"):
        Preparation(settings, never, late, threading.Event(), never).prepare(handle)


def test_start_is_retried_with_the_reason_when_its_connectors_kafka_is_away() -> None:
    task = TaskId("c", 0)
    config = {"name": "c", "connector.class": "FileStreamSink", "file": "f", "topics": "t"}
    snapshot = MemoryTopic().write(
        records.connector_config("c", {**config, "consumer.override.bootstrap.servers": "away:9"}),
        records.task_config(task, {}),
        records.tasks_commit("c", 1),
        records.assignment(Assignment(1, (WorkerAssignment("me", "http://w:1", ("c",), (task,)),))),
    )

    def ask(conf: Any) -> str:
        raise KafkaUnavailableError("no broker of away:9 answers")

    settings = WorkerSettings(WorkerConfig(SETTINGS), "http://w:1", "me", ClusterIds(ask))
    handle = TaskHandle(StartIdentity(task, snapshot.commit_offsets["c"], "i", is_sink=True), "STARTED")
    never: Any = None
    with pytest.raises(AwayError, match="no broker of away:9 answers"):
        Preparation(settings, never, lambda _: snapshot, threading.Event(), never).prepare(handle)
