"""`fencepost audit` of a source with a ledger, and of a files sink."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from file_connector import Produce, append, created, file_source, files_sink, numbered, offsets

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.ledger.entries import ConnectorEntries
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
def test_records_of_a_task_are_verified_across_its_restart(
    worker: Worker, kafka: EmbeddedKafka, name: str, tmp_path: Path, settings: dict[str, str]
):
    """Transactions are small, so the first start still carries entries when it ends, and so does the second."""
    file, ledger = tmp_path / "in.txt", f"{name}-ledger"
    append(file, numbered(1, 500))
    hoisted = {"transforms.hoist.field": "line", "value.converter": JSON} if settings else {}
    created(worker, name, file_source(file, name, batch_size="50", **{"ledger.topic": ledger, **hoisted, **settings}))
    assert eventually(lambda: _count(kafka, name) == 500, within_s=60)
    assert worker.rest.post(f"/connectors/{name}/tasks/0/restart").status_code == 204
    append(file, numbered(501, 700))
    assert eventually(lambda: _count(kafka, name) == 700, within_s=60)
    code, report = audit(worker, name)
    assert (code, report["differences"]) == (0, [])
    assert sum(each["verified"] for each in report["partitions"]) == 700
    configs = Admin({"bootstrap.servers": kafka.bootstrap_servers}).configs.get(ledger)
    assert configs["cleanup.policy"] == "delete"
    assert _entries(kafka, ledger, name).runs().are_ordered  # the second start has taken over what the first carried


def _entries(kafka: EmbeddedKafka, ledger: str, name: str) -> ConnectorEntries:
    conf = range_conf({"bootstrap.servers": kafka.bootstrap_servers}, "a-test").conf
    entries = ConnectorEntries(ledger, name)
    entries.read_on(conf)
    for topic in entries.offsets_topics:
        entries.read_carried(conf, topic)
    return entries


def _count(kafka: EmbeddedKafka, topic: str) -> int:
    return len(CommittedReader(kafka.bootstrap_servers, [topic]).read_all(30))


def test_a_ledger_with_unmet_conditions_is_refused(worker: Worker, name: str, tmp_path: Path):
    config = file_source(tmp_path / "in.txt", name, ledger_topic=f"{name}-ledger", producer_client="librdkafka")
    answer = worker.create(name, config)
    assert answer.status_code == 400
    assert "ledger.topic" in answer.text
    assert "producer.client" in answer.text


@pytest.fixture
def value_of() -> Callable[[int], bytes]:
    return lambda n: json.dumps({"n": n}).encode()


def test_files_of_a_sink_are_verified_across_a_restart_and_a_lost_row_is_named(
    worker: Worker, name: str, topic: str, produce: Produce, tmp_path: Path
):
    out, query = tmp_path / "out", "SELECT value.n, offset FROM records"
    produce(1, 300)
    created(worker, name, files_sink(out, topic, value__schema="n INT", transforms__sql=query))
    assert eventually(lambda: sum(offsets(worker, name).values()) == 300, within_s=60)
    assert worker.rest.post(f"/connectors/{name}/tasks/0/restart").status_code == 204
    produce(301, 600)
    assert eventually(lambda: sum(offsets(worker, name).values()) == 600, within_s=60)
    code, report = audit(worker, name)
    assert (code, report["differences"]) == (0, [])
    assert sum(each["verified"] for each in report["partitions"]) == 600
    file = min(out.glob("*.parquet"))
    rows = pq.ParquetFile(file).read()
    pq.write_table(rows[1:], file)
    code, report = audit(worker, name)
    [difference] = report["differences"]
    assert (code, difference["kind"], difference["records"]) == (1, "missing", 1)
    assert difference["first_offset"] == rows["offset"][0].as_py()
