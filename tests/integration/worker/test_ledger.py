"""A connector with a ledger, and `fencepost audit` of it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from file_connector import append, created, file_source, numbered

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.worker import Worker

JSON = "org.apache.kafka.connect.json.JsonConverter"


def audit(worker: Worker, name: str, *options: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the report."""
    bootstrap = worker.properties["bootstrap.servers"]
    command = [sys.executable, "-m", "fencepost.cli.main", "audit", name, "--bootstrap", bootstrap, "--output", "json"]
    command += ["--url", str(worker.rest.base_url), *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


@pytest.mark.parametrize(
    "settings",
    [{}, {"transforms": "hoist", "transforms_hoist_type": "org.apache.kafka.connect.transforms.HoistField$Value"}],
)
def test_what_a_task_writes_is_verified_across_its_restart(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path, settings: dict[str, str]
):
    file, ledger = tmp_path / "in.txt", f"{name}-ledger"
    append(file, numbered(1, 500))
    hoisted = {"transforms.hoist.field": "line", "value.converter": JSON} if settings else {}
    created(worker, name, file_source(file, name, **{"ledger.topic": ledger, **hoisted, **settings}))
    assert eventually(lambda: _count(kafka, name) == 500, within_s=60)
    assert worker.rest.post(f"/connectors/{name}/tasks/0/restart").status_code == 204
    append(file, numbered(501, 700))
    assert eventually(lambda: _count(kafka, name) == 700, within_s=60)
    code, report = audit(worker, name)
    assert (code, report["differences"]) == (0, [])
    assert sum(each["verified"] for each in report["partitions"]) == 700
    configs = Admin({"bootstrap.servers": kafka.bootstrap_servers}).configs.get(ledger)
    assert configs["cleanup.policy"] == "delete"


def _count(kafka: EmbeddedKafka, topic: str) -> int:
    return len(CommittedReader(kafka.bootstrap_servers, [topic]).read_all(30))


def test_a_ledger_without_its_conditions_is_refused(worker: Worker, name: str, tmp_path: Path):
    config = file_source(tmp_path / "in.txt", name, ledger_topic=f"{name}-ledger", producer_client="librdkafka")
    answer = worker.create(name, config)
    assert answer.status_code == 400
    assert "ledger.topic" in answer.text
    assert "producer.client" in answer.text
