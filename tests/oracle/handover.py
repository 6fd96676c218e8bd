"""A cluster's state, handed over from worker to worker, Kafka Connect's or ours: what each must find and go on with."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from fencepost.storage.offset_topic import OffsetReader, stored
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation, Verdict, judge

FIXTURE = Path(__file__).parents[1] / "fixtures" / "connect-4.3.1" / "handover.json"
GROUP = "handover"
TOPICS = {"config": f"{GROUP}-configs", "offset": f"{GROUP}-offsets", "status": f"{GROUP}-status"}
_STRING = "org.apache.kafka.connect.storage.StringConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"

# What both kinds of worker run with. The numbers of partitions decide where keys go.
SETTINGS = {
    "group.id": GROUP,
    "exactly.once.source.support": "enabled",
    "key.converter": _JSON,
    "value.converter": _JSON,
    "config.storage.topic": TOPICS["config"],
    "offset.storage.topic": TOPICS["offset"],
    "status.storage.topic": TOPICS["status"],
    "offset.storage.partitions": "25",
    "status.storage.partitions": "5",
}
OURS = {"spark.master": "local[8]", "slots.max": "2"}

STATES = {"lines": ("RUNNING", 1), "asleep": ("PAUSED", 1), "at-rest": ("STOPPED", 0), "many": ("RUNNING", 3)}
FILES = ("lines", "asleep", "at-rest")
TASKS = 3
LINES = 1000
_PATIENCE_S = 400.0  # a killed lane keeps Kafka Connect waiting for a minute, and machines are busy


def file_source(name: str) -> dict[str, str]:
    own = {"connector.class": "FileStreamSource", "file": f"{name}.txt", "topic": name, "tasks.max": "1"}
    return own | {"key.converter": _STRING, "value.converter": _STRING}


def many() -> dict[str, str]:
    plain = {f"{side}.converter{more}": v for side in ("key", "value") for more, v in _PLAIN_JSON.items()}
    return {
        "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
        "topic": "many",
        "throughput": "20",
        "tasks.max": str(TASKS),
        **plain,
    }


_PLAIN_JSON = {"": _JSON, ".schemas.enable": "false"}


def numbered(first: int, count: int = LINES) -> list[str]:
    return [f"line {n}" for n in range(first, first + count)]


def append(directory: Path, name: str, first: int) -> None:
    """Add the next lines to the file of a connector."""
    with (directory / f"{name}.txt").open("a") as out:
        out.write("".join(f"{line}\n" for line in numbered(first)))


class Watched:
    """The cluster, seen from outside: REST, the offsets topic, and what is visible in the data topics."""

    def __init__(
        self,
        bootstrap: str,
        url: str,
        topics: dict[str, str] = TOPICS,
        others: Mapping[str, tuple[str, int]] | None = None,
    ) -> None:
        """`others`: the states of connectors that are not those of `set_up`."""
        self.bootstrap = bootstrap
        self._offsets_topic = topics["offset"]
        self._others = others or {}
        self.rest = httpx.Client(base_url=url, timeout=100)

    def create(self, name: str, config: dict[str, str]) -> None:
        """Asked again while the worker is not ready for it."""
        body = {"name": name, "config": config}
        eventually(
            lambda: (r := self.rest.post("/connectors", json=body)).status_code == 201 or _not(r.text),
            within_s=_PATIENCE_S,
        )

    def states(self) -> dict[str, tuple[str, int]]:
        """Return each connector's state and the number of its tasks, which must be in the same state."""
        found: dict[str, tuple[str, int]] = {}
        for name, one in self.rest.get("/connectors?expand=status").json().items():
            state, tasks = one["status"]["connector"]["state"], one["status"]["tasks"]
            mixed = {task["state"] for task in tasks} - {state}
            found[name] = (f"{state} but {mixed}" if mixed else state, len(tasks))
        return found

    def await_states(self, own: dict[str, tuple[str, int]]) -> None:
        wanted = {**own, **self._others}
        eventually(lambda: (s := self.states()) == wanted or _not(s), within_s=_PATIENCE_S, every_s=0.5)

    def offsets(self, name: str) -> dict[Any, Any]:
        """Return the committed offset of each source partition, by its only value."""
        reader = OffsetReader({"bootstrap.servers": self.bootstrap}, self._offsets_topic)
        try:
            found = stored(reader.read_known(name, _PATIENCE_S))
        finally:
            reader.close()
        return {next(iter((p or {}).values())): next(iter(o.values())) for p, o in found}

    def visible(self, topic: str) -> list[Observation]:
        return CommittedReader(self.bootstrap, [topic]).read_all(_PATIENCE_S)

    def lines(self, name: str) -> list[str]:
        """Return what is visible in a file connector's topic."""
        return [(o.value or b"").decode() for o in self.visible(name)]

    def await_lines(self, name: str, count: int) -> None:
        eventually(
            lambda: len(self.lines(name)) >= count or _not(len(self.lines(name))), within_s=_PATIENCE_S, every_s=0.5
        )

    def await_progress(self, name: str, tasks: int) -> None:
        """Wait until each task of a connector whose offsets are numbers has come further."""
        before = self.offsets(name)

        def has_moved() -> bool:
            now = self.offsets(name)
            return len(now) == tasks and all(number > before.get(id_, -1) for id_, number in now.items())

        eventually(has_moved, within_s=_PATIENCE_S, every_s=0.5)

    def judged(self, expected_lines: int) -> Verdict:
        """Return the verdict on everything that was ever delivered; nothing runs any more."""
        expected: dict[Any, Any] = {"lines": numbered(0, expected_lines)}
        expected |= {name: numbered(0) for name in FILES[1:]}
        expected |= {f"many-{task}": range(last + 1) for task, last in self.offsets("many").items()}
        seen: list[tuple[str, Any]] = [(name, line) for name in FILES for line in self.lines(name)]
        for observation in self.visible("many"):
            seen.append((f"many-{int(observation.key or b'-1')}", int(observation.value or b"-1")))
        return judge(expected, seen)


def _not(seen: object) -> bool:
    raise AssertionError(f"it is {seen}")


def set_up(cluster: Watched, directory: Path, others: Sequence[Callable[[Watched], None]] = ()) -> None:
    """What the first worker is asked for: connectors in every state, one that is gone, and `others`."""
    for name in FILES:
        append(directory, name, 0)
        cluster.create(name, file_source(name))
    cluster.create("many", many())
    cluster.create("gone", file_source("lines") | {"topic": "gone"})
    for name in (*FILES, "gone"):
        cluster.await_lines(name, LINES)
    eventually(lambda: sorted(cluster.offsets("many")) == list(range(TASKS)), within_s=_PATIENCE_S)
    assert cluster.rest.delete("/connectors/gone").status_code == 204
    assert cluster.rest.put("/connectors/asleep/pause").status_code == 202
    assert cluster.rest.put("/connectors/at-rest/stop").status_code == 204
    for create in others:
        create(cluster)
    cluster.await_states(STATES)


def turn(number: int) -> Callable[[Watched, Path], None]:
    """What every later worker must do: find all as it was left, and go on just there."""

    def go_on(cluster: Watched, directory: Path) -> None:
        cluster.await_states(STATES)
        append(directory, "lines", number * LINES)
        cluster.await_lines("lines", (number + 1) * LINES)
        cluster.await_progress("many", TASKS)

    return go_on


def compacted(topics: dict[str, Any]) -> dict[str, Any]:
    """Return a `dump` as compaction would leave it: the last value of each key, in order; no tombstones."""
    return {name: {**topic, "records": _last_values(topic["records"])} for name, topic in topics.items()}


def _last_values(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    last = {(record["partition"], record["key"]): record for record in records}
    return [record for record in records if last[record["partition"], record["key"]] is record and record["value"]]
