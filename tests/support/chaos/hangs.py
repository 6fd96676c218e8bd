"""Calls that never return, planted in connectors of each kind: what their statuses have to say, and what is delivered.

The plug-ins are `hanging.py` of the worker's tests, and those in Java. Each hangs once, and has made a file by then.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually, judge
from fencepost.testing.reader import CommittedReader
from support.worker import Worker

COUNT, AT = 200, 100
SLOW_S = 300.0
NEIGHBOUR = {"connector.class": "hanging.HangingSource", "last": str(10**9), "pause.ms": "50"}
_FAILS = {
    "progress.timeout.action": "fail",
    "errors.restart.enabled": "true",
    "errors.restart.backoff.initial.ms": "5000",
}


@dataclass(frozen=True)
class Hang:
    """One of them. `says`: what its status has to contain. `once`: the name of the setting for the file.

    `has_input`: whether it reads a topic. `output`: whether its records are in a topic, a file or a directory.
    """

    name: str
    says: tuple[str, ...]
    config: Mapping[str, str]
    once: str = "hang.once"
    has_input: bool = False
    output: str = "topic"
    is_java: bool = False
    holds_lock: bool = False

    def __str__(self) -> str:
        return self.name


def _python(kind: str, call: str, how: str = "sleeps", **more: Any) -> Hang:
    config = {"connector.class": f"hanging.{kind}", "hang.in": call, "hang.how": how}
    config |= {key.replace("_", "."): str(value) for key, value in more.pop("config", {}).items()}
    return Hang(f"{kind}-{call}-{how}", (f"in {call}", f"in {how}"), config, **more)


def _source(call: str, how: str = "sleeps", **more: Any) -> Hang:
    return _python("HangingSource", call, how, **more)


def _sink(call: str) -> Hang:
    return _python("HangingSink", call, has_input=True, output="file")


def _epochs(call: str) -> Hang:
    return _python("HangingEpochs", call, has_input=True, output="directory")


def _part(prefix: str, of: str, call: str, own: Mapping[str, str], **more: Any) -> Hang:
    """Return a transform, a predicate or a converter that hangs."""
    settings = {f"{prefix}.hang.in": call, "connector.class": of, **own}
    return Hang(f"{prefix}-{call}", (f"in {call}", "in sleeps"), settings, f"{prefix}.hang.once", **more)


def _java(act: str, call: str, says: str) -> Hang:
    config = {
        "connector.class": "tests.NumberSourceConnector",
        "act": act,
        "act.in": call,
        "act.at": "1" if call == "start" else str(AT + 1),
        "count": str(COUNT),
    }
    return Hang(f"java-{act}-{call}", (says,), config, "act.once", is_java=True)


_TRANSFORM = {"transforms": "h", "transforms.h.type": "hanging.HangingTransform"}
_PREDICATE = {
    "transforms": "f",
    "transforms.f.type": "Filter",
    "transforms.f.predicate": "h",
    "predicates": "h",
    "predicates.h.type": "hanging.HangingPredicate",
}
_HEADER = {
    "transforms": "i",
    "transforms.i.type": "InsertHeader",
    "transforms.i.header": "h",
    "transforms.i.value.literal": "1",
    "header.converter": "hanging.HangingHeaderConverter",
}
_VALUES = {"value.converter": "hanging.HangingConverter"}
_SOURCE, _SINK = "hanging.HangingSource", "hanging.HangingSink"
_WAYS = (
    "sleeps", "waits_for_a_lock", "waits_for_a_condition", "reads_from_a_socket", "waits_for_a_process",
    "joins_a_thread", "takes_from_a_queue", "follows_a_generator", "waits_for_a_future", "selects", "opens_a_pipe",
    "locks_a_file", "runs_a_coroutine",
)  # fmt: skip

PYTHON = (
    *(_source("poll", how) for how in _WAYS),
    *(_source(call) for call in ("start", "commit", "commit_record", "stop")),
    _part("transforms.h", _SOURCE, "apply", _TRANSFORM),
    _part("predicates.h", _SOURCE, "test", _PREDICATE),
    _part("value.converter", _SOURCE, "from_connect_data", _VALUES),
    _part("header.converter", _SOURCE, "from_connect_header", _HEADER),
    Hang("provider", ("in get", "in sleeps"), {"connector.class": _SOURCE, "note": "${hanging:ONCE:note}"}, ""),
    *(_sink(call) for call in ("start", "open", "put", "flush", "pre_commit", "close", "stop")),
    _part("value.converter", _SINK, "to_connect_data", _VALUES, has_input=True, output="file"),
    _python("HangingStream", "process", has_input=True),
)
FRAMES = (
    *(_python("HangingFrames", call) for call in ("splits", "read", "finished")),
    *(_epochs(call) for call in ("started", "write", "publish", "published")),
)
JAVA = (
    _java("sleep", "poll", "/java.lang.Thread.sleep"),
    _java("socket", "poll", "at tests.Hang.readSocket"),
    _java("loop", "poll", "at tests.Hang.loop"),
    _java("deadlock", "poll", "at tests.Hang.deadlock"),
    _java("sleep", "start", "at tests.NumberSourceTask.start"),
    _java("loop", "commit", "at tests.NumberSourceTask.commit"),
)
LOCK = _source("poll", "matches_a_regular_expression", holds_lock=True)


@dataclass
class Planting:
    """Hangs on a worker. `fails`: their tasks are to fail, and to be started again by themselves."""

    worker: Worker
    bootstrap: str
    directory: Path
    prefix: str
    fails: bool = False
    progress_timeout_ms: int = 5_000  # a slow moment must not be taken for the hang
    started: dict[str, Hang] = field(default_factory=dict)
    named_s: dict[str, float] = field(default_factory=dict)

    def name_of(self, hang: Hang) -> str:
        return f"{self.prefix}-{'fails' if self.fails else 'says'}-{hang.name.replace('_', '-')}"

    def plant(self, hangs: Sequence[Hang]) -> None:
        """Create the connectors, and the topics that they read."""
        for hang in hangs:
            name = self.name_of(hang)
            if hang.has_input:
                self._fill(f"{name}-in")
            answer = self.worker.create(name, self._config(hang, name))
            assert answer.status_code == 201, answer.text
            self.started[name] = hang

    def _config(self, hang: Hang, name: str) -> dict[str, str]:
        config = {
            "progress.timeout.ms": str(self.progress_timeout_ms),
            "offset.flush.interval.ms": "500",
            **(_FAILS if self.fails else {}),
            **({"slot.dedicated": "true"} if hang.holds_lock else {}),
            **hang.config,
        }
        once = str(self.once(name))
        if hang.once:
            config[hang.once] = once
        config = {key: value.replace("ONCE", once) for key, value in config.items()}
        if hang.has_input:
            config |= {"topics": f"{name}-in", "consumer.override.session.timeout.ms": "6000"}
        if hang.output == "directory":
            (self.directory / name).mkdir()
            own = {"value.converter": "org.apache.kafka.connect.storage.StringConverter", "epoch.interval.ms": "500"}
            return config | own | {"directory": str(self.directory / name)}
        if hang.output == "file":
            return config | {"file": str(self.directory / name)}
        return config | {"target" if hang.has_input else "topic": name}

    def _fill(self, topic: str) -> None:
        Admin({"bootstrap.servers": self.bootstrap}).topics.create(topic, partitions=1, replication=1)
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for number in range(COUNT):
            producer.produce(topic, str(number), partition=0)
        assert producer.flush(60) == 0

    def once(self, name: str) -> Path:
        return self.directory / f"{name}.once"

    def await_named(self) -> None:
        """Wait until all hang, and their statuses say where. `named_s` has how long it took; nothing fails by it."""
        eventually(self._are_named, within_s=SLOW_S)

    def _are_named(self) -> bool:
        for name in self.started.keys() - self.named_s.keys():
            once = self.once(name)
            if once.exists() and self._says(name):
                self.named_s[name] = time.time() - once.stat().st_mtime
        left = self.started.keys() - self.named_s.keys()
        if left:
            raise AssertionError({name: (self.once(name).exists(), self._trace(name)[-1500:]) for name in sorted(left)})
        return True

    def _says(self, name: str) -> bool:
        trace = self._trace(name)
        hang = self.started[name]
        begins = "holds Python's interpreter lock" if hang.holds_lock else " since "
        return begins in trace and all(part in trace for part in hang.says)

    def _trace(self, name: str) -> str:
        tasks = self.worker.status(name).get("tasks", [])
        return "" if not tasks else str(tasks[0].get("trace", ""))

    def restart(self) -> None:
        """Restart the tasks, as a user would, unless they start again by themselves."""
        for name in () if self.fails else self.started:
            answer = self.worker.rest.post(f"/connectors/{name}/tasks/0/restart")
            assert answer.status_code == 204, (name, answer.text)

    def ensure_delivered(self) -> None:
        """Wait until all records have arrived, and check that each has done so once; at least once in a file."""
        topics = [name for name, hang in self.started.items() if hang.output == "topic"]
        with CommittedReader(self.bootstrap, topics) as reader:
            for name, hang in self.started.items():
                expected = list(range(1, COUNT + 1) if hang.is_java else range(COUNT))
                if hang.output == "topic":
                    eventually(lambda: self._has(len(reader.seen_of(name, 0)), name), within_s=SLOW_S)  # noqa: B023
                    seen = [int((each.value or b"").decode().split(":")[-1]) for each in reader.seen_of(name, 0)]
                    found = judge({0: expected}, [(0, number) for number in seen])
                    assert found.is_clean, (name, str(found))
                else:
                    eventually(lambda: set(self._stored(name)) == set(expected) or self._has(0, name), within_s=SLOW_S)  # noqa: B023
                    if hang.output == "directory":
                        assert sorted(self._stored(name)) == expected

    def _has(self, count: int, name: str) -> bool:
        if count >= COUNT:
            return True
        raise AssertionError(f"{name}: {count} records; {self.worker.status(name)}")

    def _stored(self, name: str) -> list[int]:
        place = self.directory / name
        if place.is_file():
            return [int(line) for line in place.read_text().split()]
        found = []
        for each in place.iterdir() if place.exists() else ():
            start, end = map(int, each.name.split("-")[-2:])
            found += list(range(start, end))
        return found

    def delete(self) -> None:
        for name in self.started:
            self.worker.rest.delete(f"/connectors/{name}")
