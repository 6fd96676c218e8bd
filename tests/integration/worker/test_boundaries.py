"""`transaction.boundary` on a running worker: what becomes visible when, and what a stop does with the rest."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from file_connector import append, created, file_source, numbered

from fencepost.embedded import EmbeddedKafka
from fencepost.storage.offset_topic import OffsetReader, stored
from fencepost.testing import eventually
from fencepost.testing.source import RAISE, TestingSource
from support.worker import Worker

Values = Callable[..., list[str]]


def scripted(name: str, *steps: tuple[int, str]) -> dict[str, Any]:
    return {
        "connector.class": "worker_suite.BoundaryConnector",
        "topic": name,
        "script": json.dumps(steps),
        "transaction.boundary": "connector",
    }


def offset_of(worker: Worker, kafka: EmbeddedKafka, name: str) -> dict[str, Any]:
    reader = OffsetReader({"bootstrap.servers": kafka.bootstrap_servers}, worker.properties["offset.storage.topic"])
    try:
        found = stored(reader.read_known(name, 20))
    finally:
        reader.close()
    return dict(found[0][1]) if found else {}


def test_a_connector_commits_where_it_asks(worker: Worker, name: str, values: Values) -> None:
    created(worker, name, scripted(name, (3, "open"), (2, "commit"), (4, "commit-first"), (1, "open")))
    assert values(name, 6) == ["1", "2", "3", "4", "5", "6"]
    worker.wait_for_tasks(name, "RUNNING")


def test_aborted_records_are_never_seen_and_their_offsets_are_committed(
    worker: Worker, name: str, values: Values, kafka: EmbeddedKafka
) -> None:
    created(worker, name, scripted(name, (1, "commit"), (3, "abort"), (2, "commit"), (2, "abort")))
    assert values(name, 3) == ["1", "5", "6"]
    eventually(lambda: offset_of(worker, kafka, name) == {"step": 4, "number": 8})
    worker.rest.post(f"/connectors/{name}/tasks/0/restart")
    worker.wait_for_tasks(name, "RUNNING")
    assert values(name) == ["1", "5", "6"]


def test_uncommitted_records_are_sent_again_after_a_stop(
    worker: Worker, name: str, values: Values, kafka: EmbeddedKafka
) -> None:
    created(worker, name, scripted(name, (2, "commit"), (3, "open")))
    assert values(name, 2) == ["1", "2"]
    worker.wait_for_tasks(name, "RUNNING")
    worker.rest.put(f"/connectors/{name}/stop")
    eventually(lambda: worker.status(name)["connector"]["state"] == "STOPPED")
    assert offset_of(worker, kafka, name) == {"step": 1, "number": 2}
    worker.rest.put(f"/connectors/{name}/config", json=scripted(name, (2, "commit"), (3, "commit")))
    worker.rest.put(f"/connectors/{name}/resume")
    assert values(name, 5) == ["1", "2", "3", "4", "5"]


def test_uncommitted_records_are_sent_again_after_a_pause(worker: Worker, name: str, values: Values) -> None:
    created(worker, name, scripted(name, (2, "commit"), (3, "open")))
    values(name, 2)
    worker.rest.put(f"/connectors/{name}/pause")
    worker.wait_for_tasks(name, "PAUSED")
    assert values(name) == ["1", "2"]
    worker.rest.put(f"/connectors/{name}/config", json=scripted(name, (2, "commit"), (3, "commit")))
    worker.rest.put(f"/connectors/{name}/resume")
    assert values(name, 5) == ["1", "2", "3", "4", "5"]


def test_requesting_both_commit_and_abort_fails_the_task(worker: Worker, name: str) -> None:
    created(worker, name, scripted(name, (2, "both")))
    (failed,) = worker.wait_for_tasks(name, "FAILED")
    assert "both a commit and an abort" in failed["trace"]


def test_a_connector_that_does_not_define_boundaries_is_refused(worker: Worker, name: str, tmp_path: Path) -> None:
    answer = worker.create(name, file_source(tmp_path / "f", name, transaction_boundary="connector"))
    assert answer.status_code == 400
    assert "transaction boundaries" in answer.json()["message"]


def test_an_interval_holds_records_back_and_a_pause_commits_them(
    worker: Worker, name: str, values: Values, tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    append(file, numbered(1, 50))
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "50000"}
    created(worker, name, {**file_source(file, name), **interval})
    worker.wait_for_tasks(name, "RUNNING")
    eventually(lambda: _polled(worker, name) == 50)
    worker.rest.put(f"/connectors/{name}/pause")
    worker.wait_for_tasks(name, "PAUSED")
    assert values(name) == numbered(1, 50)
    append(file, numbered(51, 60))
    worker.rest.put(f"/connectors/{name}/resume")
    eventually(lambda: _polled(worker, name) == 60)
    worker.rest.put(f"/connectors/{name}/stop")
    eventually(lambda: worker.status(name)["tasks"] == [])
    assert values(name, 60) == numbered(1, 60)


def test_an_interval_by_default_ends_before_its_transaction_does(
    worker: Worker, name: str, values: Values, tmp_path: Path
) -> None:
    """The worker's `offset.flush.interval.ms`, which stands for one, is no shorter here than the time-out."""
    file = tmp_path / "in.txt"
    append(file, numbered(1, 50))
    interval = {"transaction.boundary": "interval", "producer.override.transaction.timeout.ms": "10000"}
    created(worker, name, {**file_source(file, name), **interval})
    assert values(name, 50) == numbered(1, 50)


def test_transactions_that_always_take_too_long_fail_the_task(worker: Worker, name: str, values: Values) -> None:
    """For ever fenced by the broker and started again, it would look healthy."""
    script = scripted(name, *[(1, "open-slow")] * 600, (1, "commit"))
    created(worker, name, {**script, "producer.override.transaction.timeout.ms": "2000"})
    (failed,) = worker.wait_for_tasks(name, "FAILED")
    trace = failed["trace"]
    assert "before its producer transaction expired" in trace
    for remedy in ("producer.override.transaction.timeout.ms", "transaction.boundary", "transaction.timeout.ms=2000"):
        assert remedy in trace
    assert values(name) == []


def test_an_interval_that_has_passed_commits(worker: Worker, name: str, values: Values, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    append(file, numbered(1, 50))
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "300"}
    created(worker, name, {**file_source(file, name), **interval})
    assert values(name, 50) == numbered(1, 50)


def test_a_task_that_fails_inside_a_transaction_leaves_nothing_open(
    worker: Worker, name: str, values: Values, kafka: EmbeddedKafka
) -> None:
    source = TestingSource(["a", "b", RAISE("broken"), "c"], topic=name, bootstrap=kafka.bootstrap_servers)
    interval = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "50000"}
    created(worker, name, source.properties(name=name, **interval))
    (failed,) = worker.wait_for_tasks(name, "FAILED")
    assert "broken" in failed["trace"]
    assert values(name) == []
    assert worker.rest.post(f"/connectors/{name}/tasks/0/restart").status_code == 204
    worker.wait_for_tasks(name, "RUNNING")
    eventually(lambda: _polled(worker, name) == 3)  # a pause commits what has come so far
    worker.rest.put(f"/connectors/{name}/pause")
    worker.wait_for_tasks(name, "PAUSED")
    assert [json.loads(v)["value"] for v in values(name, 3)] == ["a", "b", "c"]


def test_each_committed_record_is_reported_to_the_task_with_its_offset(
    worker: Worker, name: str, values: Values
) -> None:
    created(worker, name, {"connector.class": "worker_suite.TrackingConnector", "topic": name})
    assert len(values(name, 10)) == 10
    told = values(f"{name}-told", 10)
    assert [text.split(" at ")[0] for text in told] == [str(n) for n in range(1, 11)]
    assert all(text.split(" at ")[1].isdigit() for text in told)


def _polled(worker: Worker, name: str) -> float:
    return worker.metric("kafka_connect_source_task_metrics_source_record_poll_total", connector=name)
