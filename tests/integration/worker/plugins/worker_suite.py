"""Plug-ins of the worker's tests: found in `plugin.path`, as a third party's would be."""

import json
import os
import signal
from collections import Counter
from collections.abc import Set
from pathlib import Path
from typing import Any

from fencepost.api import (
    ConfigData,
    ConfigProvider,
    Converter,
    ExactlyOnceSupport,
    RecordError,
    RetriableError,
    SinkBatch,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    StreamConnector,
    StreamTask,
    setting,
)


class BoundaryTask(SourceTask):
    """Each step of the script is a poll: how many records, and what is asked of their transaction.

    `commit` and `abort` are asked for at the end of the batch, `commit-first` and `abort-first` after its first record,
    `both` asks for a commit and an abort at once, `open` for nothing; `open-slow` takes a tenth of a second.
    """

    config: "BoundaryConnector"

    def start(self) -> None:
        self.script = json.loads(self.config.script)
        offset = self.context.offset({"script": 0})
        self.step, self.number = offset.get("step", 0), offset.get("number", 0)

    def poll(self) -> list[SourceRecord] | None:
        if self.step >= len(self.script):
            self.context.wait(0.05)
            return None
        count, request = self.script[self.step]
        self.step += 1
        if request == "open-slow":
            self.context.wait(0.1)
        records = [self._record() for _ in range(count)]
        transaction = self.context.transaction
        assert transaction is not None
        place = records[0] if request.endswith("-first") else None
        if request.startswith("commit") or request == "both":
            transaction.commit_transaction(place)
        if request.startswith("abort") or request == "both":
            transaction.abort_transaction(place)
        return records

    def _record(self) -> SourceRecord:
        self.number += 1
        return SourceRecord(
            {"script": 0}, {"step": self.step, "number": self.number}, self.config.topic, str(self.number)
        )


class BoundaryConnector(SourceConnector):
    """Defines its own transactions."""

    task = BoundaryTask

    topic: str = setting("topic", doc="Where records go.")
    script: str = setting("script", doc="A JSON list of [count, request].")

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(self) -> bool:
        return True


class TrackingTask(SourceTask):
    """Sends ten records; writes the calls of `commit_record` to a second topic."""

    config: "TrackingConnector"

    def start(self) -> None:
        self.next = self.context.offset({"n": 0}).get("next", 0)
        self.told: list[str] = []

    def poll(self) -> list[SourceRecord] | None:
        if self.told:
            told, self.told = self.told, []
            return [SourceRecord({"told": 0}, None, f"{self.config.topic}-told", text) for text in told]
        if self.next >= 10:
            self.context.wait(0.05)
            return None
        self.next += 1
        return [SourceRecord({"n": 0}, {"next": self.next}, self.config.topic, str(self.next))]

    def commit_record(self, record: SourceRecord, metadata: Any) -> None:
        if record.topic == self.config.topic:
            self.told.append(f"{record.value} at {None if metadata is None else metadata.offset}")


class TrackingConnector(SourceConnector):
    """The connector of `TrackingTask`."""

    task = TrackingTask
    topic: str = setting("topic", doc="Where records go.")


_refused: Counter[str] = Counter()


class PickyConverter(Converter):
    """Text as bytes; never takes `bad`, and what begins with `slow` only the third time."""

    def from_connect_data(self, topic: str, schema: Any, value: Any) -> bytes | None:
        if value == "bad":
            raise RecordError("this converter does not take 'bad'")
        if str(value).startswith("slow") and _refused[value] < 2:
            _refused[value] += 1
            raise RetriableError("not now")
        return None if value is None else str(value).encode()

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        return None, data


class SevensConverter(Converter):
    """Text as bytes; takes no number that seven divides."""

    def from_connect_data(self, topic: str, schema: Any, value: Any) -> bytes | None:
        if int(value) % 7 == 0:
            raise RecordError(f"seven divides {value}")
        return str(value).encode()

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        return None, data


class CountingTask(SourceTask):
    """Counts up for ever, ten a batch; leaves a line in a file when it is started."""

    config: "CountingConnector"

    def start(self) -> None:
        with open(self.config.witness, "a") as out:
            out.write("start\n")
        self.next = self.context.offset({"count": 0}).get("next", 0)

    def poll(self) -> list[SourceRecord] | None:
        if self.next >= self.config.last:
            self.context.wait(0.05)
            return None
        self.context.wait(0.02)
        records = []
        for _ in range(10):
            self.next += 1
            records.append(SourceRecord({"count": 0}, {"next": self.next}, self.config.topic, str(self.next)))
        return records


class CountingConnector(SourceConnector):
    """Sends 1, 2, 3 and so on."""

    task = CountingTask
    topic: str = setting("topic", doc="Where records go.")
    witness: str = setting("witness", doc="A file that gets a line for every start.")
    last: int = setting("last", default=1_000_000, doc="Where to end.")


class OriginTask(SinkTask):
    """Writes down what a record says of itself: its topic, where it was read, the names of its headers, its value."""

    config: "OriginSink"

    def put(self, batch: SinkBatch) -> None:
        with open(self.config.file, "a") as out:
            for record in batch:
                names = ",".join(header.key for header in record.headers)
                out.write(f"{record.topic} {record.at and record.at.topic} {names}={record.value}\n")


class OriginSink(SinkConnector):
    """Tells where records come from."""

    task = OriginTask
    file: str = setting("file", doc="Where to write.")


class DeadlyTask(SourceTask):
    """Kills the process that it runs in, as a native crash or the system's want of memory would."""

    def poll(self) -> list[SourceRecord] | None:
        os.kill(os.getpid(), signal.SIGKILL)
        return None


class DeadlyConnector(SourceConnector):
    """Takes its neighbours with it."""

    task = DeadlyTask


class ExpiringProvider(ConfigProvider):
    """Looks up the name of a file that is valid for a second; of another one, for good, once the file is there."""

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        if "changing" in keys and Path(path).exists():
            return ConfigData({"changing": f"{path}-second"})
        return ConfigData(dict.fromkeys(keys, path), 1_000)


class ShoutingTask(StreamTask):
    config: "ShoutingConnector"

    def process(self, batch: SinkBatch) -> SinkBatch:
        return batch.to(self.config.target, values=[value.upper() for value in batch.values])


class ShoutingConnector(StreamConnector):
    """Writes texts in capital letters to another topic."""

    task = ShoutingTask

    target: str = setting("target", doc="Where to.")
