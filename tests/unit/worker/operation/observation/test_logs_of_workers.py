"""How the log events of several workers become one answer, and what a cursor tells."""

import logging
import threading
from collections.abc import Collection, Mapping
from urllib.parse import parse_qs, urlsplit

import pytest

from fencepost.cluster.errors import BadRequestError, NotFoundError
from fencepost.cluster.figures import LogEvents, LogQuery, MissedEvents, from_cursor, to_cursor
from fencepost.rest.response import to_json
from fencepost.storage.change import Assignment, WorkerAssignment
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.telemetry.event_ring import EventRing
from fencepost.worker.operation.observation.logs import Logs

HERE, THERE = "http://here:8083", "http://there:8083"


class Cluster:
    """Two workers. `there` may be away, or be replaced by its next process."""

    def __init__(self) -> None:
        self.rings = {HERE: EventRing(), THERE: EventRing(most_bytes_of_one=5_000)}
        workers = WorkerAssignment("a", HERE), WorkerAssignment("b", THERE)
        self.snapshot = ClusterSnapshot(connectors={"c": {}}, assignment=Assignment(1, workers))
        self.is_away = False
        self.stopping = threading.Event()
        self.time = 0

    def logs(self, url: str = HERE) -> Logs:
        return Logs(url, lambda: self.snapshot, self.rings[url], self, self.stopping)

    def ask(self, urls: Collection[str], path: str, within_s: float) -> Mapping[str, bytes]:
        if self.is_away:
            return {}
        asked = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        task = int(asked["task"]) if "task" in asked else None
        query = LogQuery(task, int(asked["level"]), asked.get("after"), limit=int(asked["limit"]))
        return {url: to_json(self.logs(url).here(asked["connector"], query)) for url in urls}

    def say(self, url: str, *texts: str, task: int = 0) -> None:
        for text in texts:
            self.time += 1
            record = logging.makeLogRecord({"name": "x", "msg": text, "connector": "c", "task": task})
            record.created, record.msecs = float(self.time), 0
            record.levelname, record.levelno = "INFO", logging.INFO
            self.rings[url].handle(record)

    def read(self, after: str | None = None, **more: int) -> LogEvents:
        return self.logs().read("c", LogQuery(after=after, **more))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def texts(found: LogEvents) -> list[str]:
    return [event.message for event in found.events]


def test_events_of_all_workers_are_in_the_order_of_their_times(cluster: Cluster) -> None:
    cluster.say(HERE, "1")
    cluster.say(THERE, "2")
    cluster.say(HERE, "3")
    found = cluster.read()
    assert texts(found) == ["1", "2", "3"]
    assert [event.worker_id for event in found.events] == ["here:8083", "there:8083", "here:8083"]
    assert found.missed == []


def test_a_cursor_continues_on_every_worker_without_a_gap_or_a_repetition(cluster: Cluster) -> None:
    for n in range(20):
        cluster.say(HERE if n % 3 else THERE, str(n))
    found, cursor = [], cluster.read(limit=1).cursor
    assert texts(cluster.read(cursor)) == []
    for n in range(20, 40):
        cluster.say(HERE if n % 2 else THERE, str(n))
    for _ in range(7):
        part = cluster.read(cursor, limit=3)
        found += texts(part)
        cursor = part.cursor
    assert found == [str(n) for n in range(20, 40)]


def test_newest_events_are_shown_first(cluster: Cluster) -> None:
    for n in range(10):
        cluster.say((HERE, THERE)[n % 2], str(n))
    found = cluster.read(limit=3)
    assert texts(found) == ["7", "8", "9"]
    assert texts(cluster.read(found.cursor)) == []


def test_a_restarted_worker_is_named_once_and_its_new_events_are_shown(cluster: Cluster) -> None:
    cluster.say(THERE, "before")
    cursor = cluster.read().cursor
    cluster.rings[THERE] = EventRing()
    cluster.say(THERE, "after")
    found = cluster.read(cursor)
    assert (texts(found), found.missed) == (["after"], [MissedEvents("there:8083", "restarted")])
    again = cluster.read(found.cursor)
    assert (texts(again), again.missed) == ([], [])


def test_dropped_events_are_counted(cluster: Cluster) -> None:
    cluster.say(THERE, "first")
    cursor = cluster.read().cursor
    cluster.say(THERE, *("x" * 1000 for _ in range(10)))
    found = cluster.read(cursor)
    assert len(found.events) == 3
    assert found.missed == [MissedEvents("there:8083", "dropped", 7)]


def test_a_worker_that_is_away_is_named_and_its_events_come_later(cluster: Cluster) -> None:
    cursor = cluster.read().cursor
    cluster.is_away = True
    cluster.say(THERE, "1")
    found = cluster.read(cursor)
    assert (texts(found), found.missed) == ([], [MissedEvents("there:8083", "away")])
    cluster.is_away = False
    assert texts(cluster.read(found.cursor)) == ["1"]


def test_two_workers_in_one_process_show_its_events_once(cluster: Cluster) -> None:
    cluster.rings[THERE] = cluster.rings[HERE]
    cluster.say(HERE, "1")
    assert texts(cluster.read()) == ["1"]


def test_wait_for_events_ends_with_the_first_event_or_when_the_worker_stops(cluster: Cluster) -> None:
    cursor = cluster.read().cursor
    threading.Timer(0.05, cluster.say, (HERE, "1")).start()
    assert texts(cluster.read(cursor, wait_ms=60_000)) == ["1"]
    cluster.stopping.set()
    assert texts(cluster.read(cluster.read().cursor, wait_ms=60_000)) == []


def test_only_events_of_the_requested_task_are_shown(cluster: Cluster) -> None:
    cluster.say(HERE, "0")
    cluster.say(THERE, "1", task=1)
    assert texts(cluster.read(task=1)) == ["1"]


def test_events_of_a_deleted_connector_are_shown_and_an_unknown_is_not_found(cluster: Cluster) -> None:
    cluster.say(HERE, "1")
    cluster.snapshot = ClusterSnapshot()
    assert texts(cluster.read()) == ["1"]
    with pytest.raises(NotFoundError, match="Connector x not found"):
        cluster.logs().read("x", LogQuery())


NEGATIVE = to_cursor({"a": ("r", -1)})
HUGE = "eyJhIjpbInIiLDFlMzAwXX0"  # 1e300


@pytest.mark.parametrize("text", ["x", "!", "e30", "W10", "eyJhIjoxfQ", "é", NEGATIVE, HUGE])
def test_cursor_made_by_another_program_is_refused(text: str) -> None:
    if text == "e30":  # an object without workers
        assert from_cursor(text) == {}
    else:
        with pytest.raises(BadRequestError, match="after"):
            from_cursor(text)
