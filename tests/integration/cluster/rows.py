"""Rows of Datagen: numbered, finite, so that a delivery can be judged to its last record."""

import json
from typing import Any

import httpx

from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation, Sighting, Verdict, judge
from support.worker import Worker

_JSON = "org.apache.kafka.connect.json.JsonConverter"


def rows(topic: str, count: int, tasks: int, per_second: float = 150) -> dict[str, Any]:
    """Return the config of a connector that sends so many rows.

    A task makes a few transactions a second: one for each poll, of a row or two, was most of what these tests cost.
    """
    return {
        "connector.class": "Datagen",
        "topic": topic,
        "tasks.max": str(tasks),
        "max.rows": str(count),
        "rows.per.second": str(per_second),
        "batch.size": "20",
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "200",
        "fields": "id:sequence,name:word",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
    }


def judged(bootstrap: str, topic: str, count: int, tasks: int, within_s: float = 90) -> Verdict:
    """Wait until every row is visible, then judge all of them. `tasks` says whose rows are one source partition."""
    expected = {task: list(range(task, count, tasks)) for task in range(tasks)}

    def sighting(observation: Observation) -> Sighting:
        number = json.loads(observation.value or b"")["id"]
        return Sighting(number % tasks, number)

    def all_rows() -> bool:
        observed = reader.seen()
        distinct = len({sighting(o) for o in observed}) if len(observed) >= count else len(observed)
        if distinct < count:
            raise AssertionError(f"{distinct} rows of {count}")
        return True

    with CommittedReader(bootstrap, [topic]) as reader:
        eventually(all_rows, within_s=within_s, every_s=0.2)
        return judge(expected, reader.read_all(), sighting=sighting)


def hurry(worker: Worker, name: str) -> None:
    """Send the remaining rows as fast as possible: the test does not need the load any more."""
    ok(worker.rest.patch(f"/connectors/{name}/config", json={"rows.per.second": "0"}), 200)


def visible(bootstrap: str, topic: str) -> int:
    return len(CommittedReader(bootstrap, [topic]).read_all(20))


def ok(answer: httpx.Response, status: int) -> httpx.Response:
    assert answer.status_code == status, f"{answer.request.method} {answer.request.url}: {answer.text}"
    return answer


def gone(worker: Worker, *names: str) -> None:
    """Delete connectors; their tasks may not disturb the next test."""
    for name in names:
        worker.rest.delete(f"/connectors/{name}")
