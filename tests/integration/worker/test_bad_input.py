"""Bad input gets a clear error and changes nothing (E12)."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from file_connector import FILE_SOURCE, append, created, file_source, numbered

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from fencepost.testing.source import RAISE, RETRY, TestingSource
from support.worker import Worker

Values = Callable[..., list[str]]
PICKY = "worker_suite.PickyConverter"


@pytest.fixture
def unchanged(worker: Worker, name: str) -> Callable[[], bool]:
    """Says whether nothing came of what the test did."""
    before = worker.rest.get("/connectors").json()
    return lambda: worker.rest.get("/connectors").json() == before and name not in before


@pytest.mark.parametrize("body", ['{"name": "x", ', "[]", '"text"', '{"name": {}, "config": 5}', "\x00"])
def test_malformed_json_is_refused(worker: Worker, unchanged: Callable[[], bool], body: str) -> None:
    answer = worker.rest.post("/connectors", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 500)
    assert answer.json()["error_code"] == answer.status_code
    assert answer.json()["message"]
    assert "Traceback" not in answer.text
    assert unchanged()


def test_an_unknown_connector_class_is_refused(worker: Worker, name: str, unchanged: Callable[[], bool]) -> None:
    answer = worker.create(name, {"connector.class": "org.example.NoSuchConnector"})
    assert answer.status_code in (400, 500)
    message = answer.json()["message"]
    assert "org.example.NoSuchConnector" in message
    assert "fencepost plugin list" in message, "it says where to look"
    assert unchanged()


def test_a_missing_setting_is_refused(worker: Worker, name: str, unchanged: Callable[[], bool]) -> None:
    answer = worker.create(name, {"connector.class": FILE_SOURCE, "topic": name})
    assert answer.status_code == 400
    assert "file" in answer.json()["message"]
    assert unchanged()


def test_several_errors_are_reported_together(worker: Worker, name: str, unchanged: Callable[[], bool]) -> None:
    config = {"connector.class": FILE_SOURCE, "tasks.max": "0", "errors.tolerance": "some", "batch.size": "x"}
    message = worker.create(name, config).json()["message"]
    for key in ("tasks.max", "errors.tolerance", "batch.size", "file", "topic"):
        assert key in message
    assert unchanged()


def test_an_invalid_connector_name_is_refused(
    worker: Worker, name: str, unchanged: Callable[[], bool], tmp_path: Path
) -> None:
    answer = worker.create(name, {**file_source(tmp_path / "f", name), "name": "another"})
    assert answer.status_code == 400
    assert "another" in answer.json()["message"]
    assert unchanged()


def test_an_invalid_topic_name_is_named_in_the_error(worker: Worker, name: str, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    append(file, numbered(1, 3))
    answer = worker.create(name, file_source(file, "no such topic!"))
    if answer.status_code == 400:
        assert "no such topic!" in answer.json()["message"]
        return
    (failed,) = worker.wait_for_tasks(name, "FAILED")
    assert "no such topic!" in failed["trace"]


def test_a_corrected_topic_name_loses_nothing(worker: Worker, name: str, values: Values, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    append(file, numbered(1, 3))
    if worker.create(name, file_source(file, "no such topic!")).status_code == 201:
        worker.wait_for_tasks(name, "FAILED")
    worker.rest.put(f"/connectors/{name}/config", json=file_source(file, name))
    assert values(name, 3) == numbered(1, 3)


def test_a_task_that_raises_in_poll_fails_with_its_trace_and_a_restart_goes_on(
    worker: Worker, name: str, values: Values, kafka: EmbeddedKafka
) -> None:
    source = TestingSource(
        ["a", RAISE("out of order"), "b", RETRY(), "c"], topic=name, bootstrap=kafka.bootstrap_servers
    )
    created(worker, name, source.properties(name=name))
    worker.wait_for_tasks(name, "FAILED")
    [task] = worker.status(name)["tasks"]
    assert "ScriptedError: out of order" in task["trace"]
    errors = [line for line in worker.log_text().splitlines() if "[error" in line]
    assert any(f"connector {name}, task 0: failed" in line for line in errors)
    assert worker.status(name)["connector"]["state"] == "RUNNING"
    assert worker.rest.post(f"/connectors/{name}/tasks/0/restart").status_code == 204
    assert [json.loads(v)["value"] for v in values(name, 3)] == ["a", "b", "c"]


def test_a_task_that_raises_in_start_fails_with_its_trace_and_a_restart_goes_on(
    worker: Worker, name: str, values: Values, tmp_path: Path
) -> None:
    witness = tmp_path / "directory" / "witness"
    config = {"connector.class": "worker_suite.CountingConnector", "topic": name, "last": "10", "witness": str(witness)}
    created(worker, name, config)
    (failed,) = worker.wait_for_tasks(name, "FAILED")
    assert "FileNotFoundError" in failed["trace"]
    witness.parent.mkdir()
    answer = worker.rest.post(f"/connectors/{name}/restart", params={"includeTasks": "true", "onlyFailed": "true"})
    assert answer.status_code == 202
    assert values(name, 10) == [str(n) for n in range(1, 11)]


def picky(file: Path, name: str, **more: str) -> dict[str, str]:
    return file_source(file, name, **{"value.converter": PICKY, **more})


def test_an_unconvertible_record_fails_the_task_and_loses_no_earlier_record(
    worker: Worker, name: str, values: Values, tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    append(file, ["one", "bad", "three"])
    created(worker, name, picky(file, name))
    (failed,) = worker.wait_for_tasks(name, "FAILED")
    assert "does not take 'bad'" in failed["trace"]
    worker.rest.put(f"/connectors/{name}/config", json=file_source(file, name))
    assert values(name, 3) == ["one", "bad", "three"]


def test_an_unconvertible_record_is_skipped_and_logged_when_tolerated(
    worker: Worker, name: str, values: Values, tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    append(file, ["one", "bad", f"slow {name}", "three"])
    more = {
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.log.include.messages": "true",
        "errors.retry.timeout": "10000",
        "errors.retry.delay.max.ms": "50",
    }
    created(worker, name, picky(file, name, **more))
    assert values(name, 3) == ["one", f"slow {name}", "three"]
    worker.wait_for_tasks(name, "RUNNING")
    eventually(lambda: f"Error encountered in task {name}-0. Executing stage 'VALUE_CONVERTER'" in worker.log_text())
    worker.rest.post(f"/connectors/{name}/tasks/0/restart")
    append(file, ["four"])
    assert values(name, 4) == ["one", f"slow {name}", "three", "four"]


def test_a_file_that_shrinks_fails_the_task_and_says_so(
    worker: Worker, name: str, values: Values, tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    append(file, numbered(1, 100))
    created(worker, name, file_source(file, name))
    values(name, 100)
    file.write_text("short\n")
    (failed,) = worker.wait_for_tasks(name, "FAILED")
    trace = failed["trace"]
    assert str(file) in trace
    assert values(name) == numbered(1, 100)


def test_requests_for_an_unknown_connector_are_not_found(worker: Worker, name: str) -> None:
    assert worker.rest.post(f"/connectors/{name}/restart").status_code == 404
    assert worker.rest.put(f"/connectors/{name}/pause").status_code == 404
    assert worker.rest.put(f"/connectors/{name}/stop").status_code == 404
    assert worker.rest.delete(f"/connectors/{name}").status_code == 404
