"""The life of a connector over REST, on a running worker: nothing is lost, nothing comes twice."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from file_connector import append, created, file_source, numbered

from fencepost.kafka.errors import KafkaRequestError
from fencepost.testing import eventually
from support.worker import Worker

Values = Callable[..., list[str]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    append(path, numbered(1, 100))
    return path


def seen(values: Values, topic: str) -> list[str]:
    """Return what is visible in a topic that may not be there yet."""
    try:
        return values(topic)
    except KafkaRequestError:
        return []


def test_a_created_connector_runs_and_answers_as_kafka_connect_does(
    worker: Worker, name: str, file: Path, values: Values
) -> None:
    answer = worker.create(name, file_source(file, name))
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"/connectors/{name}"
    assert answer.json()["config"]["name"] == name
    worker.wait_for_tasks(name, "RUNNING")
    status = worker.status(name)
    assert status["connector"]["state"] == "RUNNING"
    assert status["connector"]["worker_id"] == f"127.0.0.1:{worker.port}"
    assert status["type"] == "source"
    assert worker.rest.get(f"/connectors/{name}").json()["tasks"] == [{"connector": name, "task": 0}]
    [task] = worker.rest.get(f"/connectors/{name}/tasks").json()
    assert task["config"]["file"] == str(file)
    assert worker.rest.get(f"/connectors/{name}/tasks/0/status").json()["state"] == "RUNNING"
    assert values(name, 100) == numbered(1, 100)
    eventually(lambda: worker.rest.get(f"/connectors/{name}/topics").json() == {name: {"topics": [name]}})
    assert worker.create(name, file_source(file, name)).status_code == 409


def test_expand_shows_info_and_status(worker: Worker, name: str, file: Path) -> None:
    created(worker, name, file_source(file, name))
    worker.wait_for_tasks(name, "RUNNING")
    assert name in worker.rest.get("/connectors").json()
    both = worker.rest.get("/connectors", params={"expand": ["info", "status"]}).json()[name]
    assert both["info"]["type"] == "source"
    assert both["status"]["tasks"][0]["state"] == "RUNNING"


def test_a_paused_connector_sends_nothing_until_it_is_resumed(
    worker: Worker, name: str, file: Path, values: Values
) -> None:
    created(worker, name, file_source(file, name))
    values(name, 100)
    assert worker.rest.put(f"/connectors/{name}/pause").status_code == 202
    worker.wait_for_tasks(name, "PAUSED")
    eventually(lambda: worker.status(name)["connector"]["state"] == "PAUSED")
    append(file, numbered(101, 200))
    assert worker.rest.put(f"/connectors/{name}/pause").status_code == 202
    assert values(name) == numbered(1, 100)
    assert worker.rest.put(f"/connectors/{name}/resume").status_code == 202
    worker.wait_for_tasks(name, "RUNNING")
    assert values(name, 200) == numbered(1, 200)


def test_a_paused_connector_stays_paused_when_its_task_is_restarted(worker: Worker, name: str, file: Path) -> None:
    created(worker, name, file_source(file, name))
    worker.wait_for_tasks(name, "RUNNING")
    worker.rest.put(f"/connectors/{name}/pause")
    worker.wait_for_tasks(name, "PAUSED")
    assert worker.rest.post(f"/connectors/{name}/tasks/0/restart").status_code == 204
    worker.wait_for_tasks(name, "PAUSED")


def test_a_stopped_connector_has_no_tasks_and_resumes_at_its_offset(
    worker: Worker, name: str, file: Path, values: Values
) -> None:
    created(worker, name, file_source(file, name))
    values(name, 100)
    assert worker.rest.put(f"/connectors/{name}/stop").status_code == 204
    eventually(lambda: worker.status(name)["connector"]["state"] == "STOPPED")
    eventually(lambda: worker.status(name)["tasks"] == [])
    assert worker.rest.get(f"/connectors/{name}/tasks").json() == []
    assert worker.rest.post(f"/connectors/{name}/tasks/0/restart").status_code == 409
    append(file, numbered(101, 200))
    assert worker.rest.put(f"/connectors/{name}/resume").status_code == 202
    worker.wait_for_tasks(name, "RUNNING")
    assert values(name, 200) == numbered(1, 200)


def has_started_again(worker: Worker, name: str) -> None:
    """Wait until the task's second start has begun, which is when the first one has ended."""
    eventually(lambda: worker.log_text().count(f"task {name}-0 starts here") >= 2)


def ensure_it_moves_to(topic: str, worker: Worker, name: str, file: Path, values: Values) -> None:
    """Append lines until they come out in another topic than the connector's first one, and none in both."""
    append(file, numbered(101, 110))
    # What was appended before the old task ended went the old way; nothing went both ways.
    eventually(lambda: len(values(name) + seen(values, topic)) == 110)
    has_started_again(worker, name)
    append(file, numbered(111, 120))
    eventually(lambda: seen(values, topic)[-10:] == numbered(111, 120))
    assert values(name) + values(topic) == numbered(1, 120)


def test_tasks_restart_with_a_new_config(worker: Worker, name: str, file: Path, values: Values) -> None:
    created(worker, name, file_source(file, name))
    values(name, 100)
    answer = worker.rest.put(f"/connectors/{name}/config", json=file_source(file, f"{name}-b"))
    assert answer.status_code == 200, answer.text
    eventually(lambda: worker.rest.get(f"/connectors/{name}/tasks").json()[0]["config"]["topic"] == f"{name}-b")
    ensure_it_moves_to(f"{name}-b", worker, name, file, values)
    worker.wait_for_tasks(name, "RUNNING")


def test_tasks_restart_when_only_a_transform_changed(worker: Worker, name: str, file: Path, values: Values) -> None:
    created(worker, name, file_source(file, name))
    values(name, 100)
    router = {
        "transforms": "r",
        "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.r.regex": ".*",
        "transforms.r.replacement": f"{name}-routed",
    }
    answer = worker.rest.patch(f"/connectors/{name}/config", json=router)
    assert answer.status_code == 200, answer.text
    assert answer.json()["config"]["transforms"] == "r"
    ensure_it_moves_to(f"{name}-routed", worker, name, file, values)


def test_patch_removes_a_key_with_null_and_refuses_a_wrong_result(worker: Worker, name: str, file: Path) -> None:
    created(worker, name, file_source(file, name, batch_size="7"))
    url = f"/connectors/{name}/config"
    assert "batch.size" not in worker.rest.patch(url, json={"batch.size": None}).json()["config"]
    before = worker.rest.get(url).json()
    answer = worker.rest.patch(url, json={"file": None})
    assert answer.status_code == 400
    assert "file" in answer.json()["message"]
    assert worker.rest.get(url).json() == before


@pytest.mark.parametrize("initial", ["PAUSED", "STOPPED"])
def test_connector_is_created_in_its_initial_state(
    worker: Worker, name: str, file: Path, values: Values, initial: str
) -> None:
    created(worker, name, file_source(file, name), initial_state=initial)
    eventually(lambda: worker.status(name)["connector"]["state"] == initial)
    assert worker.status(name)["tasks"] == []
    worker.rest.put(f"/connectors/{name}/resume")
    worker.wait_for_tasks(name, "RUNNING")
    assert values(name, 100) == numbered(1, 100)


def test_restarts_of_connector_and_tasks_lose_nothing(worker: Worker, name: str, file: Path, values: Values) -> None:
    created(worker, name, file_source(file, name))
    values(name, 100)
    assert worker.rest.post(f"/connectors/{name}/restart").status_code == 204
    assert worker.rest.post(f"/connectors/{name}/tasks/0/restart").status_code == 204
    append(file, numbered(101, 200))
    answer = worker.rest.post(f"/connectors/{name}/restart", params={"includeTasks": "True"})
    assert answer.status_code == 202
    assert answer.json()["connector"]["state"] == "RESTARTING"
    assert answer.json()["tasks"][0]["state"] == "RESTARTING"
    worker.wait_for_tasks(name, "RUNNING")
    assert values(name, 200) == numbered(1, 200)
    assert worker.rest.post(f"/connectors/{name}/tasks/9/restart").status_code == 404


def test_a_restart_of_failed_tasks_leaves_running_tasks_alone(worker: Worker, name: str, file: Path) -> None:
    created(worker, name, file_source(file, name))
    worker.wait_for_tasks(name, "RUNNING")
    answer = worker.rest.post(f"/connectors/{name}/restart", params={"includeTasks": "true", "onlyFailed": "true"})
    assert answer.status_code == 202
    assert answer.json()["tasks"][0]["state"] == "RUNNING"


def test_a_new_connector_resumes_at_the_offset_of_a_deleted_namesake(
    worker: Worker, name: str, file: Path, values: Values
) -> None:
    created(worker, name, file_source(file, name))
    values(name, 100)
    assert worker.rest.delete(f"/connectors/{name}").status_code == 204
    assert worker.rest.get(f"/connectors/{name}").status_code == 404
    eventually(lambda: worker.rest.get(f"/connectors/{name}/status").status_code == 404)
    assert worker.rest.delete(f"/connectors/{name}").status_code == 404
    append(file, numbered(101, 200))
    created(worker, name, file_source(file, name))
    worker.wait_for_tasks(name, "RUNNING")
    assert values(name, 200) == numbered(1, 200)


def test_kc_drives_the_whole_life_cycle(worker: Worker, name: str, file: Path, values: Values, tmp_path: Path) -> None:
    def kc(*arguments: str) -> str:
        command = [str(Path(sys.executable).parent / "kc"), "-u", f"http://127.0.0.1:{worker.port}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    assert "version" in json.loads(kc("info"))
    assert "FileStreamSource" in kc("list-plugins")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"name": name, "config": file_source(file, name)}))
    kc("create", "--config-file", str(config))
    worker.wait_for_tasks(name, "RUNNING")
    assert name in kc("list")
    assert json.loads(kc("status", name))["connector"]["state"] == "RUNNING"
    values(name, 100)
    kc("pause", name)
    worker.wait_for_tasks(name, "PAUSED")
    kc("resume", name)
    worker.wait_for_tasks(name, "RUNNING")
    kc("restart-task", name, "0")
    kc("restart", name, "--include-tasks")
    assert json.loads(kc("config", name))["topic"] == name
    kc("delete", name)
    assert name not in kc("list")
