"""What one worker shows of the tasks of all: figures."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from rows import gone, ok, rows

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.cluster import Cluster, identity, pause, resume
from support.worker import Worker

BOUND_S = 2.0


@pytest.fixture(scope="module")
def pair(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers, which are missed only after minutes."""
    directory, group = tmp_path_factory.mktemp("seen"), f"seen-{uuid.uuid4().hex[:6]}"
    patience = {"session_timeout_ms": "120000", "slot_lease_ms": "120000"}
    with Cluster(kafka.bootstrap_servers, directory, group, 2, **patience) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def spread(pair: Cluster, topic_name: str) -> Iterator[str]:
    """The name of a connector with four tasks, two on each worker, which send rows all the time."""
    ok(pair.workers[0].create(topic_name, rows(topic_name, 1_000_000, 4, per_second=60)), 201)
    pair.await_owners(topic_name, 4, pair.workers, pair.workers[0])
    yield topic_name
    gone(pair.workers[0], topic_name)


def figures(worker: Worker, name: str) -> list[dict[str, Any]]:
    answer = worker.rest.get("/connectors", params={"expand": ["figures", "status"]}).json()[name]
    alone = worker.rest.get(f"/connectors/{name}/figures").json()
    tasks: list[dict[str, Any]] = answer["figures"]["tasks"]
    assert [t["id"] for t in tasks] == [t["id"] for t in alone["tasks"]] == [t["id"] for t in answer["status"]["tasks"]]
    return tasks


def test_either_worker_shows_the_figures_of_all_tasks(pair: Cluster, spread: str) -> None:
    for worker in pair.workers:
        tasks = eventually(lambda via=worker: _all_committed(figures(via, spread)), within_s=30)
        assert {t["worker_id"] for t in tasks} == {identity(w) for w in pair.workers}
        now_ms = time.time() * 1000
        for task in tasks:
            assert task["kind"] == "source"
            assert task["records_read_total"] >= task["records_written_total"] > 0
            assert now_ms - 60_000 < task["started_ms"] <= task["last_commit_ms"] <= now_ms
            assert task["lag_max"] is None
            assert task["stands_still"] is False
            assert (task["open_since_ms"] is not None) == (task["open_records"] > 0)
            assert task["slot"]["pid"] > 0
            assert task["slot"]["resident_bytes"] > 10 << 20
            assert task["slot"]["host_resident_bytes"] is None


def _all_committed(tasks: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    return tasks if len(tasks) == 4 and all(t["last_commit_ms"] and t["slot"] for t in tasks) else None


def test_a_worker_that_is_stopped_makes_the_answer_neither_slow_nor_empty(pair: Cluster, spread: str) -> None:
    asked, stopped = pair.workers
    eventually(lambda: _all_committed(figures(asked, spread)), within_s=30)
    pause(stopped)
    try:
        took_s = []
        for _ in range(4):
            began_s = time.monotonic()
            tasks = asked.rest.get(f"/connectors/{spread}/figures").json()["tasks"]
            took_s.append(time.monotonic() - began_s)
        known = {t["id"]: t["kind"] for t in tasks}
        assert known == {t["id"]: "source" if t["worker_id"] == identity(asked) else None for t in tasks}
        assert list(known.values()).count(None) == 2
        assert max(took_s) < BOUND_S + 3  # with the other processes of this machine
        assert sorted(took_s)[1] < BOUND_S / 2, took_s  # it is not waited for again
    finally:
        resume(stopped)
    eventually(lambda: _all_committed(figures(asked, spread)), within_s=60)


def test_figures_of_a_connector_that_does_not_exist_are_not_found(pair: Cluster) -> None:
    answer = pair.workers[0].rest.get("/connectors/absent/figures")
    assert (answer.status_code, answer.json()["message"]) == (404, "Connector absent not found")
