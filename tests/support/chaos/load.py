"""Loads: a connector each, the generator that feeds it, and the list of what the generator wrote."""

import itertools
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path

from fencepost.kafka.setting.table import BATCH, LIBRDKAFKA
from fencepost.testing.verdict import Observation
from support.chaos.plugin import numbered_source
from support.chaos.plugin.numbered_source import TRANSACTION, is_given_up, key_of

PLUGIN_PATH = str(Path(numbered_source.__file__).parent)
_PADDING = "x" * 60


def clients(seed: int) -> Iterator[str]:
    """Yield the clients that transactions are written with, in turns: which is the first is the seed's choice."""
    return itertools.cycle((LIBRDKAFKA, BATCH) if seed % 2 else (BATCH, LIBRDKAFKA))


class Load(ABC):
    """The data that one connector moves. The generator's methods are called by one thread."""

    partitions = 1

    def __init__(self, name: str, directory: Path, topic: str) -> None:
        self.name = name
        self.topic = topic
        self.directory = directory

    @abstractmethod
    def config(self) -> dict[str, str]:
        """Return the connector's config."""

    @abstractmethod
    def feed(self, count: int) -> None:
        """Make about so many records more."""

    def finish(self) -> None:
        """Make what is still needed for everything to become visible."""

    @property
    @abstractmethod
    def front(self) -> dict[Hashable, int]:
        """For each line of progress, the place of the record that would be made next."""

    @abstractmethod
    def place(self, observation: Observation) -> tuple[Hashable, int]:
        """Return the line of progress of a record and its place there."""

    @abstractmethod
    def expected(self) -> Mapping[Hashable, Sequence[Hashable]]:
        """Return the generator's own list, for `judge`."""

    @abstractmethod
    def sighting(self, observation: Observation) -> tuple[Hashable, Hashable]:
        """For `judge`: the source partition of a record, and its number."""

    @abstractmethod
    def is_at_home(self, observation: Observation) -> bool:
        """For `judge`: whether topic and key are those that the payload names."""


class LineLoad(Load):
    """Lines appended to the file of a FileStreamSource."""

    def __init__(self, name: str, directory: Path, topic: str, **settings: str) -> None:
        super().__init__(name, directory, topic)
        self._settings = _dotted(settings)
        self._count = 0
        self._out = (directory / f"{name}.txt").open("a")

    def config(self) -> dict[str, str]:
        own = {"connector.class": "FileStreamSource", "file": self._out.name, "topic": self.topic, "tasks.max": "1"}
        return {**own, "batch.size": "300", **self._settings}

    def feed(self, count: int) -> None:
        numbers = range(self._count, self._count + count)
        self._out.write("".join(f"{self.topic} {n} {_PADDING}\n" for n in numbers))
        self._out.flush()
        self._count += count

    def finish(self) -> None:
        self._out.close()

    @property
    def front(self) -> dict[Hashable, int]:
        return {self.name: self._count}

    def place(self, observation: Observation) -> tuple[Hashable, int]:
        return self.name, int((observation.value or b"").split()[1])

    def expected(self) -> Mapping[Hashable, Sequence[Hashable]]:
        return {self.name: list(range(self._count))}

    def sighting(self, observation: Observation) -> tuple[Hashable, Hashable]:
        return self.place(observation)

    def is_at_home(self, observation: Observation) -> bool:
        topic, _, rest = (observation.value or b"").split()
        return (topic.decode(), rest.decode()) == (observation.topic, _PADDING) and observation.key is None


class NumberedLoad(Load):
    """The connector that defines its own transactions; records of those that it aborts must not be seen."""

    partitions = 3

    def __init__(self, name: str, directory: Path, topic: str, tasks: int, **settings: str) -> None:
        super().__init__(name, directory, topic)
        self._settings = _dotted(settings)
        self._counts = [0] * tasks
        self._file = directory / name

    def config(self) -> dict[str, str]:
        return {
            "connector.class": "numbered_source.NumberedSource",
            "file": str(self._file),
            "topic": self.topic,
            "tasks.max": str(len(self._counts)),
            "transaction.boundary": "connector",
            **self._settings,
        }

    def feed(self, count: int) -> None:
        for task in range(len(self._counts)):
            self._grow(task, self._counts[task] + count // len(self._counts))

    def finish(self) -> None:
        """To the end of a transaction that is committed, else the tail would have to stay invisible."""
        for task, count in enumerate(self._counts):
            end = count + -count % TRANSACTION
            self._grow(task, end + TRANSACTION if is_given_up(end - 1) else end)

    def _grow(self, task: int, count: int) -> None:
        with Path(f"{self._file}.{task}").open("ab") as file:
            os.ftruncate(file.fileno(), count)
        self._counts[task] = count

    @property
    def front(self) -> dict[Hashable, int]:
        return dict(enumerate(self._counts))

    def place(self, observation: Observation) -> tuple[Hashable, int]:
        payload = json.loads(observation.value or b"")
        return payload["task"], payload["number"]

    def expected(self) -> Mapping[Hashable, Sequence[Hashable]]:
        return {task: [n for n in range(count) if not is_given_up(n)] for task, count in enumerate(self._counts)}

    def sighting(self, observation: Observation) -> tuple[Hashable, Hashable]:
        return self.place(observation)

    def is_at_home(self, observation: Observation) -> bool:
        payload = json.loads(observation.value or b"")
        key = key_of(payload["task"], payload["number"])
        return (payload["topic"], payload["key"], key) == (observation.topic, key, (observation.key or b"").decode())


class CountedLoad(NumberedLoad):
    """Lines of numbers that tasks share, in transactions that the runtime makes: `tasks` may be changed."""

    def __init__(self, name: str, directory: Path, topic: str, lines: int, tasks: int, **settings: str) -> None:
        super().__init__(name, directory, topic, lines, **settings)
        self.tasks = tasks

    def config(self) -> dict[str, str]:
        own = super().config()
        return {**own, "lines": str(len(self._counts)), "tasks.max": str(self.tasks)}

    def finish(self) -> None:
        """Nothing is held back."""

    def expected(self) -> Mapping[Hashable, Sequence[Hashable]]:
        return {line: list(range(count)) for line, count in enumerate(self._counts)}


class SpoolLoad(Load):
    """CSV files that appear in a spool directory, one, then two at once, and so on; deleted when they are committed.

    Two that wait together are committed together. Only a few files wait at a time: each is a Spark job, and the
    recovery of a backlog is not what is measured.
    """

    partitions = 2
    most_waiting = 3

    def __init__(self, name: str, directory: Path, topic: str, rows: int, tasks: int = 1, **settings: str) -> None:
        super().__init__(name, directory, topic)
        self._settings = _dotted(settings)
        self._spool = directory / name
        self._spool.mkdir()
        self._rows = rows
        self._tasks = tasks
        self._owed = 0
        self._files = 0
        self._at_once = 1

    def config(self) -> dict[str, str]:
        return {
            "connector.class": "SpoolDirectorySource",
            "input.path": str(self._spool),
            "input.format": "csv",
            "input.schema": "file INT, number INT, topic STRING, id STRING",
            "key.field": "id",
            "topic": self.topic,
            "tasks.max": str(self._tasks),
            "finished.action": "delete",
            "poll.interval.ms": "100",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            **self._settings,
        }

    def feed(self, count: int) -> None:
        self._owed = min(self._owed + count, 2 * self._rows)
        while self._owed >= self._at_once * self._rows and self._waiting < self.most_waiting:
            for _ in range(self._at_once):
                self._owed -= self._rows
                self._write()
            self._at_once = 3 - self._at_once

    @property
    def _waiting(self) -> int:
        return len(list(self._spool.glob("*.csv")))

    def _write(self) -> None:
        lines = [f"{self._files},{n},{self.topic},{_spool_key(self._files, n)}\n" for n in range(self._rows)]
        hidden = self._spool / f".{self._files:06}"
        hidden.write_text("".join(lines))
        hidden.rename(self._spool / f"{self._files:06}.csv")
        self._files += 1

    @property
    def front(self) -> dict[Hashable, int]:
        return {self.name: self._files}

    def place(self, observation: Observation) -> tuple[Hashable, int]:
        return self.name, json.loads(observation.value or b"")["file"]

    def expected(self) -> Mapping[Hashable, Sequence[Hashable]]:
        return {file: list(range(self._rows)) for file in range(self._files)}

    def sighting(self, observation: Observation) -> tuple[Hashable, Hashable]:
        row = json.loads(observation.value or b"")
        return row["file"], row["number"]

    def is_at_home(self, observation: Observation) -> bool:
        row = json.loads(observation.value or b"")
        key = _spool_key(row["file"], row["number"])
        return (row["topic"], row["id"], key) == (observation.topic, key, (observation.key or b"").decode())


def _spool_key(file: int, number: int) -> str:
    return f"{file}-{number % 5}"


def _dotted(settings: Mapping[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in settings.items()}
