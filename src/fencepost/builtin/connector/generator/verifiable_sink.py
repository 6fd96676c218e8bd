"""VerifiableSink: prints its records, and which are flushed, as lines of JSON, like Kafka's connector of that name."""

import sys
import time
from collections.abc import Mapping
from typing import Any

import orjson

from fencepost.api import LOW, ExactlyOnceSupport, SinkBatch, SinkConnector, SinkTask, TopicPartition, Type, setting

ID = "id"


class VerifiableSinkTask(SinkTask):
    """Prints each record when it arrives, and again once it is flushed."""

    config: "VerifiableSinkConnector"

    def start(self) -> None:
        self.unflushed: list[dict[str, Any]] = []

    def put(self, batch: SinkBatch) -> None:
        now_ms = time.time_ns() // 1_000_000
        lines = [
            {
                "name": self.config.name,
                "task": record.key,
                "sinkTask": self.config.id,
                "topic": record.topic,
                "time_ms": now_ms,
                "seqno": record.value,
                "flushed": False,
            }
            for record in batch
        ]
        _print(lines)
        self.unflushed += lines

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        now_ms = time.time_ns() // 1_000_000
        _print([{**line, "time_ms": now_ms, "flushed": True} for line in self.unflushed])
        self.unflushed = []


def _print(lines: list[dict[str, Any]]) -> None:
    """Write all lines in one call: tasks of a slot share the output."""
    sys.stdout.write("".join(f"{orjson.dumps(line, default=str).decode()}\n" for line in lines))
    sys.stdout.flush()


class VerifiableSinkConnector(SinkConnector):
    """Prints the records of topics on the standard output of its tasks' processes, for tests."""

    task = VerifiableSinkTask

    name: str = setting("name", default="", importance=LOW, doc="The connector's name; part of what is printed.")
    id: int = setting("id", type=Type.INT, default=0, importance=LOW, doc="The task's number. Set by the connector.")

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        return [{**own, ID: str(i)} for i, own in enumerate(super().task_configs(max_tasks))]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Accept any change: only the group has positions."""
        return True
