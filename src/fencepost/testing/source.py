"""A source that follows a script, with crashes at chosen points: `TestingSource([r1, r2, CRASH(), r3])`.

The script travels in the connector's config, because tasks run in other processes. What a command has done must outlive
the process that it kills, in a transaction that never commits: so it is remembered in a topic of its own (`Marks`).
"""

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from fencepost.api import ExactlyOnceSupport, RetriableError, SourceConnector, SourceRecord, SourceTask, Type, setting
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.read.log import LogReader
from fencepost.record.schema import STRING
from fencepost.testing.verdict import Observation, Sighting

_TIMEOUT_S = 20.0


class Marks:
    """A topic of one partition: a record is a mark. Nothing connects before the first call."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._conf = {"bootstrap.servers": bootstrap}
        self._topic = topic

    def set(self, mark: str) -> None:
        """Set `mark` once more; it is in the log when this returns."""
        client = LibrdkafkaProducer({**self._conf, "acks": "all"})
        client.produce(self._topic, mark.encode())
        client.flush(_TIMEOUT_S)
        client.drop()

    def count(self, mark: str) -> int:
        """Return how often `mark` was set."""
        Admin(self._conf).topics.ensure(self._topic, partitions=1, replication=1)
        found: list[bytes | None] = []
        with closing(LogReader(self._conf, self._topic)) as reader:
            reader.read_to_end(_TIMEOUT_S, lambda record: found.append(record.value))
        return found.count(mark.encode())


CONNECTOR_CLASS = "fencepost_testing.TestingSourceConnector"
"""Its name, in a worker whose `plugin.path` holds `PLUGIN_PATH`."""

PLUGIN_PATH = str(files("fencepost.testing") / "plugin")

POLL, UPDATE_OFFSETS, COMMIT = "poll", "update_offsets", "commit"


@dataclass(frozen=True)
class Command:
    """An item of a script that is not a record. It is carried out the first `times` times it is reached.

    `at` says in which of the task's methods. In `update_offsets` the records before it are sent and their transaction
    is open; in `commit` it is committed. There the command needs a record right before it.
    """

    kind: str
    at: str = POLL
    times: int = 1
    text: str = ""


@dataclass(frozen=True)
class ScriptedRecord:
    """A record for `topic` (the connector's, if None). A list of these is a script without faults.

    >>> from fencepost.testing import ScriptedRecord
    >>> ScriptedRecord("paid", key="order-1").key
    'order-1'
    """

    value: str
    key: str | None = None
    topic: str | None = None
    partition: int | None = None


Item = ScriptedRecord | Command | str


def CRASH(at: str = POLL, times: int = 1) -> Command:  # noqa: N802 - a stage direction
    """Kill the process with SIGKILL.

    >>> from fencepost.testing import COMMIT, CRASH
    >>> CRASH(at=COMMIT)  # after the records before it are committed, and before the task knows it
    Command(kind='crash', at='commit', times=1, text='')
    """
    return Command("crash", at, times)


def RAISE(text: str = "told to", at: str = POLL, times: int = 1) -> Command:  # noqa: N802
    """Raise an error that fails the task.

    >>> from fencepost.testing import RAISE
    >>> RAISE("the feed is broken").text
    'the feed is broken'
    """
    return Command("raise", at, times, text)


def RETRY(times: int = 1) -> Command:  # noqa: N802
    """Raise a `RetriableError` from `poll`.

    >>> from fencepost.testing import RETRY
    >>> RETRY(times=3).times
    3
    """
    return Command("retry", POLL, times)


def HANG(at: str = POLL, times: int = 1) -> Command:  # noqa: N802
    """Block until the task is stopped, as a task does that waits for its source.

    >>> from fencepost.testing import HANG
    >>> HANG().at
    'poll'
    """
    return Command("hang", at, times)


def DEAF(at: str = POLL, times: int = 1) -> Command:  # noqa: N802
    """Block for ever, even if the task is stopped.

    >>> from fencepost.testing import DEAF
    >>> DEAF().kind
    'deaf'
    """
    return Command("deaf", at, times)


class TestingSource:
    """Scripts, one for each task, and the records that must result. A text in a script is a record with that value.

    `bootstrap` is a Kafka for the marks of what was carried out; a `Pipeline` has one.

    >>> from fencepost.testing import CRASH, Pipeline, TestingSource, judge
    >>> with Pipeline.of_script(["one", "two", CRASH(), "three"]) as pipeline:
    ...     seen = pipeline.wait_for(3)
    >>> print(judge(pipeline.script.expected, seen, sighting=TestingSource.sighting))
    3 records expected, 3 observed: clean
    """

    __test__ = False

    def __init__(self, *scripts: Sequence[Item], topic: str = "testing", bootstrap: str = "") -> None:
        self.topic = topic
        self._bootstrap = bootstrap
        self._scripts = [[ScriptedRecord(i) if isinstance(i, str) else i for i in script] for script in scripts]

    def properties(self, **more: str) -> dict[str, str]:
        """Return a connector's config; `more` overrides, underscores in its names stand for dots."""
        own = {
            "name": "testing",
            "connector.class": CONNECTOR_CLASS,
            "tasks.max": str(len(self._scripts)),
            "topic": self.topic,
            "scripts": json.dumps([[asdict(item) for item in script] for script in self._scripts]),
            "mark.bootstrap.servers": self._bootstrap,
            "mark.topic": f"{self.topic}-marks",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        }
        return own | {key.replace("_", "."): value for key, value in more.items()}

    @property
    def expected(self) -> dict[int, list[int]]:
        """Return, for `judge`, the places of the records in each script."""
        return {
            number: [place for place, item in enumerate(script) if isinstance(item, ScriptedRecord)]
            for number, script in enumerate(self._scripts)
        }

    @staticmethod
    def sighting(observation: Observation) -> Sighting:
        """Return, for `judge`, the script and the place of a record."""
        payload = json.loads(observation.value or b"")
        return Sighting(payload["script"], payload["place"])

    @staticmethod
    def is_at_home(observation: Observation) -> bool:
        """Return, for `judge`, whether topic and key are those in the payload."""
        payload = json.loads(observation.value or b"")
        key = None if observation.key is None else observation.key.decode()
        return (payload["topic"], payload["key"]) == (observation.topic, key)


class TestingSourceTask(SourceTask):
    """Returns the records up to the next command, then carries it out. Waits at the end of the script."""

    __test__ = False

    config: "TestingSourceConnector"

    def start(self) -> None:
        self.script = [_item(data) for data in json.loads(self.config.scripts)[self.config.number]]
        self.partition = {"script": self.config.number}
        self.place = int(self.context.offset(self.partition).get("place", 0))
        self.marks = Marks(self.config.mark_bootstrap_servers, self.config.mark_topic)
        self.armed: Command | None = None

    def poll(self) -> list[SourceRecord] | None:
        if self.armed is not None or self.place >= len(self.script):
            self.context.wait(0.05)
            return None
        item = self.script[self.place]
        if isinstance(item, Command):
            if item.at == POLL:
                self._carry_out(item)
            self.place += 1
            return None
        return self._records()

    def _records(self) -> list[SourceRecord]:
        records: list[SourceRecord] = []
        while self.place < len(self.script) and isinstance(item := self.script[self.place], ScriptedRecord):
            records.append(self._record(item))
            self.place += 1
        if self.place < len(self.script):
            following = self.script[self.place]
            if isinstance(following, Command) and following.at != POLL:
                self.armed = following
        return records

    def _record(self, item: ScriptedRecord) -> SourceRecord:
        topic = item.topic or self.config.topic
        payload = {"script": self.config.number, "place": self.place, "topic": topic, "key": item.key}
        return SourceRecord(
            self.partition,
            {"place": self.place + 1},
            topic,
            json.dumps(payload | {"value": item.value}),
            STRING,
            item.key,
            None if item.key is None else STRING,
            kafka_partition=item.partition,
        )

    def update_offsets(self, offsets: Mapping[Any, Any]) -> None:
        self._maybe_carry_out(UPDATE_OFFSETS)

    def commit(self) -> None:
        self._maybe_carry_out(COMMIT)

    def _maybe_carry_out(self, at: str) -> None:
        if self.armed is not None and self.armed.at == at:
            command, self.armed = self.armed, None
            self._carry_out(command)
            self.place += 1

    def _carry_out(self, command: Command) -> None:
        mark = f"{self.config.number}/{self.place}"
        if self.marks.count(mark) >= command.times:
            return
        self.marks.set(mark)
        if command.kind == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        elif command.kind == "raise":
            raise ScriptedError(command.text)
        elif command.kind == "retry":
            raise RetriableError("told to be called again")
        elif command.kind == "hang":
            while not self.context.is_stopping:
                self.context.wait(1.0)
        else:
            while True:
                time.sleep(3600)


class ScriptedError(Exception):
    """The error that RAISE raises."""


def _item(data: Mapping[str, Any]) -> ScriptedRecord | Command:
    return Command(**data) if "kind" in data else ScriptedRecord(**data)


class TestingSourceConnector(SourceConnector):
    """Follows scripts; see `TestingSource`, which makes its config."""

    __test__ = False
    task = TestingSourceTask

    topic: str = setting("topic", doc="Where records go that name no topic.")
    scripts: str = setting("scripts", doc="A JSON list of scripts, one for each task.")
    number: int = setting(
        "script.number", type=Type.INT, default=0, doc="Which script a task follows. Set by the connector."
    )
    mark_bootstrap_servers: str = setting("mark.bootstrap.servers", doc="Where the topic of marks is.")
    mark_topic: str = setting("mark.topic", doc="Remembers which commands were carried out.")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        own = super().task_configs(1)[0]
        return [{**own, "script.number": str(n)} for n in range(min(max_tasks, len(json.loads(self.scripts))))]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED
