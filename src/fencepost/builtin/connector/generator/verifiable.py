"""VerifiableSource and VerifiableSink: numbered records for tests, and a sink that prints its records as lines of JSON.

Both are like Kafka's connectors of these names.
"""

import sys
import time
from collections.abc import Mapping
from typing import Any

import orjson

from fencepost.api import (
    HIGH,
    LOW,
    Batch,
    ExactlyOnceSupport,
    Schema,
    SinkBatch,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    TopicPartition,
    Type,
    non_empty,
    setting,
)
from fencepost.builtin.connector.generator.pace import Pace
from fencepost.record import PositionColumn, Repeated
from fencepost.record.schema import INT32, INT64, STRING

ID = "id"
SEQNO = "seqno"
BATCH_SIZE = 1000

COMPLETE_VALUE = Schema.struct({"name": STRING, "task": INT32, "topic": STRING, "time_ms": INT64, "seqno": INT64})


class VerifiableSourceTask(SourceTask):
    """Counts up from the committed number."""

    config: "VerifiableSourceConnector"

    def start(self) -> None:
        self.id = self.config.id
        self.partition = {ID: self.id}
        self.seqno = self.context.offset(self.partition).get(SEQNO, -1) + 1
        self.pace = Pace(self.config.throughput)

    def poll(self) -> Batch | None:
        count = self.pace.take(BATCH_SIZE)
        if not count:
            self.context.wait(self.pace.wait_s())
            return None
        numbers = range(self.seqno, self.seqno + count)
        self.seqno += count
        return Batch(
            Repeated(self.config.topic, count),
            self._values(numbers),
            Repeated(self.partition, count),
            PositionColumn(SEQNO, numbers),
            value_schema=COMPLETE_VALUE if self.config.complete_record_data else INT64,
            keys=Repeated(self.id, count),
            key_schema=INT32,
        )

    def _values(self, numbers: range) -> list[Any] | range:
        if not self.config.complete_record_data:
            return numbers
        common = {"name": self.config.name, "task": self.id, "topic": self.config.topic}
        common["time_ms"] = time.time_ns() // 1_000_000
        return [{**common, "seqno": number} for number in numbers]


class VerifiableSourceConnector(SourceConnector):
    """Sends the numbers 0, 1, 2 and so on from each task; the key is the task's number.

    The source partition is `{"id": task}`, the source offset `{"seqno": the last number sent}`.
    """

    task = VerifiableSourceTask

    name: str = setting("name", default="", importance=LOW, doc="The connector's name; part of complete records.")
    topic: str = setting("topic", check=non_empty(), importance=HIGH, doc="The topic to publish to.")
    throughput: int = setting(
        "throughput", default=-1, type=Type.LONG, doc="Records per second and task; -1 for no limit."
    )
    id: int = setting("id", type=Type.INT, default=0, importance=LOW, doc="The task's number. Set by the connector.")
    complete_record_data: bool = setting(
        "complete.record.data",
        default=False,
        importance=LOW,
        doc="Whether values are structs of name, task, topic, time and number instead of the number alone.",
    )

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        own = super().task_configs(1)[0]
        return [{**own, ID: str(i)} for i in range(max_tasks)]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED


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
