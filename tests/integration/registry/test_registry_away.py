"""From a source through Avro and a real broker into a table, exactly once, while the registry goes and comes back."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import judge
from support.schema_registry import Outage
from support.worker import Worker

BEFORE, AFTER = 400, 600
FORMATS = {
    "avro": "io.confluent.connect.avro.AvroConverter",
    "json": "io.confluent.connect.json.JsonSchemaConverter",
    "protobuf": "io.confluent.connect.protobuf.ProtobufConverter",
}


def rows_of(database: Path) -> list[tuple[int, str, int]]:
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as db:
        return db.execute("SELECT n, name, has_note FROM seen ORDER BY rowid").fetchall()


def is_waiting(worker: Worker, name: str, begun: int) -> bool:
    lines = worker.log_text()[begun:].splitlines()
    return any(f"{name}-0 is waiting, and tries again" in line for line in lines)


@pytest.mark.parametrize("converter", FORMATS.values(), ids=FORMATS)
def test_nothing_is_lost_or_doubled_while_the_registry_is_away(
    worker: Worker, kafka: EmbeddedKafka, outage: Outage, topic_name: str, tmp_path: Path, converter: str
) -> None:
    database, go = tmp_path / "rows.db", tmp_path / "go"
    common: dict[str, Any] = {
        "errors.tolerance": "all",
        "value.converter": converter,
        "value.converter.schema.registry.url": outage.url,
    }
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=1, replication=1)
    source, sink = f"{topic_name}-source", f"{topic_name}-sink"
    created = worker.create(
        source,
        common
        | {"connector.class": "registry_suite.RowsConnector", "topic": topic_name, "before": str(BEFORE)}
        | {"after": str(AFTER), "go": str(go)},
    )
    assert created.status_code == 201, created.text
    table = {"connector.class": "registry_suite.TableConnector", "topics": topic_name, "database": str(database)}
    table["value.converter.schemas.cache.config"] = "9"  # a registry of its own, which knows nothing when it starts
    assert worker.create(sink, common | table).status_code == 201
    try:
        eventually(lambda: len(rows_of(database)) == BEFORE, within_s=120)

        assert worker.rest.put(f"/connectors/{sink}/stop").status_code == 204
        begun = len(worker.log_text())
        outage.begin()
        go.touch()  # rows with a schema that the registry does not know
        eventually(lambda: is_waiting(worker, source, begun), within_s=60)
        outage.end()
        with CommittedReader(kafka.bootstrap_servers, [topic_name]) as reader:
            eventually(lambda: len(reader.seen()) >= BEFORE + AFTER, within_s=120)

        begun = len(worker.log_text())
        outage.begin()
        assert worker.rest.put(f"/connectors/{sink}/resume").status_code == 202
        eventually(lambda: is_waiting(worker, sink, begun), within_s=60)
        assert len(rows_of(database)) == BEFORE
        outage.end()
        eventually(lambda: len(rows_of(database)) >= BEFORE + AFTER, within_s=120)
        for name in (source, sink):
            worker.wait_for_tasks(name, "RUNNING")
    finally:
        for name in (source, sink):
            worker.rest.delete(f"/connectors/{name}")
    expected = list(range(BEFORE + AFTER))
    found = rows_of(database)
    verdict = judge({0: expected}, [(0, n) for n, _, _ in found])
    assert verdict.is_clean, verdict
    assert [bool(has_note) for _, _, has_note in found] == [n >= BEFORE for n in expected]
    with CommittedReader(kafka.bootstrap_servers, [topic_name]) as reader:
        assert len(reader.read_all(30)) == BEFORE + AFTER
