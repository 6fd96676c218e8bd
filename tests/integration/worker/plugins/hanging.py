"""Plug-ins one call of which never returns: `hang.in` says which, `hang.how` in which way, `hang.once` is a file.

The file is made when the call begins to hang, and then the next start does not; without one, each start does.
Functions have telling names, as they are looked for in stacks.
"""

import asyncio
import fcntl
import json
import os
import queue
import re
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from fencepost.api import (
    ConfigData,
    ConfigProvider,
    ConnectRecord,
    Converter,
    DataFrameConnector,
    DataFrameSink,
    Epoch,
    ExactlyOnceSupport,
    HeaderConverter,
    Predicate,
    Record,
    SinkBatch,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    Split,
    StreamConnector,
    StreamTask,
    Transform,
    setting,
)
from fencepost.config import Config
from fencepost.record.schema import STRING

COUNT, AT, BATCH = 200, 100, 10
"""How many records there are, in front of which the call hangs, and how many a poll gives."""


# ways


def sleeps() -> None:
    time.sleep(3_600)


def waits_for_a_lock() -> None:
    lock = threading.Lock()
    with lock, lock:
        pass


def waits_for_a_condition() -> None:
    condition = threading.Condition()
    with condition:
        condition.wait()


def reads_from_a_socket() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.recv(1)


def matches_a_regular_expression() -> None:
    """Hold Python's interpreter lock."""
    re.match(r"(a+)+$", "a" * 99 + "b")


def waits_for_a_process() -> None:
    with subprocess.Popen(["sleep", "3600"]) as process:
        try:
            process.wait()
        finally:
            process.kill()


def joins_a_thread() -> None:
    thread = threading.Thread(target=sleeps, daemon=True)
    thread.start()
    thread.join()


def takes_from_a_queue() -> None:
    queue.Queue[int]().get()


def follows_a_generator() -> None:
    """Stay busy."""
    next(value for value in iter(int, 1) if value)


def waits_for_a_future() -> None:
    Future[None]().result()


def selects() -> None:
    reading, _ = os.pipe()
    select.select([reading], [], [])


def opens_a_pipe() -> None:
    path = f"/tmp/hanging-{os.getpid()}-{threading.get_ident()}"
    os.mkfifo(path)
    try:
        with open(path):
            pass
    finally:
        os.unlink(path)


def locks_a_file() -> None:
    with open("/proc/self/exe", "rb") as held, open("/proc/self/exe", "rb") as wanted:
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.flock(wanted, fcntl.LOCK_EX)


def runs_a_coroutine() -> None:
    asyncio.run(asyncio.sleep(3_600))


def begins(once: str) -> bool:
    """Say once that a hang begins; always without a file."""
    if not once:
        return True
    try:
        with open(once, "x"):
            return True
    except FileExistsError:
        return False


class Hanging(Config):
    """What the plug-ins here have in common."""

    hang_in: str = setting("hang.in", default="", doc="The call that hangs.")
    hang_how: str = setting("hang.how", default="sleeps", doc="The function in which it does.")
    hang_once: str = setting("hang.once", default="", doc="A file; once it is there, nothing hangs. Without: always.")

    def maybe_hang(self, call: str) -> None:
        if self.hang_in == call and begins(self.hang_once):
            way: Callable[[], None] = globals()[self.hang_how]
            way()

    def will_hang(self, call: str) -> bool:
        return self.hang_in == call and not Path(self.hang_once).exists()


# a source


class HangingTask(SourceTask):
    config: "HangingSource"

    def start(self) -> None:
        self.config.maybe_hang("start")
        self.next = self.context.offset({"count": 0}).get("next", 0)

    def poll(self) -> list[SourceRecord] | None:
        if self.next >= self.config.last:
            self.context.wait(0.05)
            return None
        if self.config.pause_ms:
            self.context.wait(self.config.pause_ms / 1_000)
        if self.next == AT:
            self.config.maybe_hang("poll")
            if self.config.will_hang("stop"):
                raise ValueError("it has to stop")
        records = [self._record(number) for number in range(self.next, self.next + BATCH)]
        self.next += BATCH
        return records

    def _record(self, number: int) -> SourceRecord:
        return SourceRecord({"count": 0}, {"next": number + 1}, self.config.topic, f"{number}", STRING)

    def commit(self) -> None:
        if self.next > AT:
            self.config.maybe_hang("commit")

    def commit_record(self, record: SourceRecord, metadata: Any) -> None:
        if record.value == f"{AT}":
            self.config.maybe_hang("commit_record")

    def stop(self) -> None:
        self.config.maybe_hang("stop")


class HangingSource(Hanging, SourceConnector):
    """Sends 0, 1, 2 and so on."""

    task = HangingTask
    topic: str = setting("topic", doc="Where records go.")
    last: int = setting("last", default=COUNT, doc="How many there are.")
    pause_ms: int = setting("pause.ms", default=0, doc="How long each poll takes.")

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED


# a sink


class HangingSinkTask(SinkTask):
    config: "HangingSink"

    def start(self) -> None:
        self.config.maybe_hang("start")

    def open(self, partitions: Sequence[Any]) -> None:
        self.config.maybe_hang("open")

    def put(self, batch: SinkBatch) -> None:
        has_middle = any(record.value == f"{AT}" for record in batch)
        if has_middle:
            self.config.maybe_hang("put")
            if self.config.will_hang("close") or self.config.will_hang("stop"):
                raise ValueError("it has to release its partitions")
        with open(self.config.file, "a") as out:
            out.write("".join(f"{record.value}\n" for record in batch))

    def flush(self, offsets: Mapping[Any, int]) -> None:
        self.config.maybe_hang("flush")

    def pre_commit(self, offsets: Mapping[Any, int]) -> Mapping[Any, int]:
        self.config.maybe_hang("pre_commit")
        return super().pre_commit(offsets)

    def close(self, partitions: Sequence[Any]) -> None:
        self.config.maybe_hang("close")

    def stop(self) -> None:
        self.config.maybe_hang("stop")


class HangingSink(Hanging, SinkConnector):
    """Writes values to a file."""

    task = HangingSinkTask
    file: str = setting("file", doc="Where to.")


# a stream


class HangingStreamTask(StreamTask):
    config: "HangingStream"

    def process(self, batch: SinkBatch) -> SinkBatch:
        self.config.maybe_hang("process")
        return batch.to(self.config.target)


class HangingStream(Hanging, StreamConnector):
    """Copies records to another topic."""

    task = HangingStreamTask
    target: str = setting("target", doc="Where to.")


# between


class HangingTransform(Hanging, Transform):
    def apply(self, record: Record) -> Record | None:
        if record.value == f"{AT}":
            self.maybe_hang("apply")
        return record


class HangingPredicate(Hanging, Predicate):
    def test(self, record: ConnectRecord) -> bool:
        if record.value == f"{AT}":
            self.maybe_hang("test")
        return False


class HangingConverter(Hanging, Converter):
    """Text as bytes."""

    def from_connect_data(self, topic: str, schema: Any, value: Any) -> bytes | None:
        if value == f"{AT}":
            self.maybe_hang("from_connect_data")
        return None if value is None else str(value).encode()

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        if data == f"{AT}".encode():
            self.maybe_hang("to_connect_data")
        return None, None if data is None else data.decode()


class HangingHeaderConverter(Hanging, HeaderConverter):
    def from_connect_header(self, topic: str, key: str, schema: Any, value: Any) -> bytes | None:
        self.maybe_hang("from_connect_header")
        return None if value is None else str(value).encode()

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Any, Any]:
        self.maybe_hang("to_connect_header")
        return None, data


class HangingProvider(ConfigProvider):
    """Answers with the path; the first time in a slot, it does not."""

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        if any(thread.name == "slot-reporter" for thread in threading.enumerate()) and begins(path):
            sleeps()
        return ConfigData(dict.fromkeys(keys, path))


# DataFrames


class HangingFrames(Hanging, DataFrameConnector):
    """Sends the numbers in ten splits."""

    topic: str = setting("topic", doc="Where rows go.")
    poll_interval_ms: int = setting("poll.interval.ms", default=200, doc="How long it waits.")

    def splits(self, session: Any) -> Iterable[Split]:
        self.maybe_hang("splits")
        return [Split({"from": start}, order=(start,), is_single_file=True) for start in range(0, COUNT, COUNT // 10)]

    def read(self, session: Any, split: Split) -> Any:
        start = split.partition["from"]
        if start == AT:
            self.maybe_hang("read")
        return _rows(session, start)

    def finished(self, session: Any, split: Split, rows: int) -> bool:
        self.maybe_hang("finished")
        return False


def _rows(session: Any, start: int) -> Any:
    return session.range(start, start + COUNT // 10, numPartitions=1).selectExpr("cast(id as string) as value")


class HangingEpochs(Hanging, DataFrameSink):
    """Writes each range to a file of its own, which a second write of it replaces."""

    directory: str = setting("directory", doc="Where to.")

    def started(self, session: Any, number: int, tokens: Any) -> int | None:
        self.maybe_hang("started")
        return None

    def write(self, session: Any, frame: Any, epoch: Epoch) -> str:
        self.maybe_hang("write")
        values = [row["value"] for row in frame.select("value").collect()]
        return json.dumps([values[0], len(values)]) if values else "[]"

    def publish(self, session: Any, epoch: Epoch, token: str) -> None:
        self.maybe_hang("publish")
        for each in epoch.ranges:
            name = f"{each.topic}-{each.partition}-{each.start}-{each.end}"
            (Path(self.directory) / name).write_text(token)

    def published(self, session: Any, epoch: Epoch, token: str) -> None:
        self.maybe_hang("published")
