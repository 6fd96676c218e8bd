"""A connector changes hands under load: Debezium in the Java host, then PostgresSource, and back, stopped or killed.

Both have one name, one config but for the class, one slot and the same topics. Debezium polls few records at a time,
so that its transactions of Kafka end anywhere: between a delete and its tombstone, within a page that COPY has filled.
"""

import itertools
import json
import os
import random
import signal
import tempfile
import threading
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually, judge
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation, Sequenced
from support.cluster import LightWorker
from support.debezium import JSON, put_source
from support.long_form import IS_LONG
from support.postgres import Postgres, running_postgres
from support.worker import Worker

pytestmark = pytest.mark.chaos

TABLES = ("orders", "items")
CLASSES = ("io.debezium.connector.postgresql.PostgresConnector", "PostgresSource")
HAND_OVERS = ("stop", "stop", "kill", "kill") * (5 if IS_LONG else 1)
WITHIN_S = 240


class Load:
    """A session that carries out random transactions. `expected` is what must come of each row, by table and id."""

    def __init__(self, port: int, drawn: random.Random, ids: Iterator[int]) -> None:
        self.expected: dict[tuple[str, int], list[Hashable]] = {}
        self.failure: BaseException | None = None
        self._port, self._drawn, self._ids = port, drawn, ids
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def events(self) -> int:
        return sum(map(len, list(self.expected.values())))

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            with psycopg.connect(host="127.0.0.1", port=self._port, user="postgres") as connection:
                while not self._stopped.wait(0.03):
                    rows = {key: list(steps) for key, steps in self.expected.items()}
                    for _ in range(self._drawn.randint(1, 5)):
                        self._statement(connection, rows)
                    if self._drawn.random() < 0.1:
                        connection.rollback()
                    else:
                        connection.commit()
                        self.expected = rows
        except BaseException as error:
            self.failure = error

    def _statement(self, connection: Any, rows: dict[tuple[str, int], list[Hashable]]) -> None:
        drawn, table = self._drawn, self._drawn.choice(TABLES)
        living = [id_ for (of, id_), steps in rows.items() if of == table and steps[-1] != "tombstone"]
        kind = drawn.choice(("insert", "copy", "update", "delete", "change of the key")) if living else "insert"
        row = drawn.choice(living) if living else 0
        if kind in ("insert", "copy"):
            new = list(itertools.islice(self._ids, 1 if kind == "insert" else drawn.randint(2, 6)))
            if kind == "insert":
                connection.execute(f"INSERT INTO {table} VALUES ({new[0]}, 1)".encode())
            else:  # one record of the log, and one position, for all rows
                with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                    copy.write("".join(f"{id_}\t1\n" for id_ in new))
            rows.update({(table, id_): [1] for id_ in new})
        elif kind == "update":
            connection.execute(f"UPDATE {table} SET n = n + 1 WHERE id = {row}".encode())
            steps = rows[table, row]
            steps.append(int(str(steps[-1])) + 1)
        else:
            last = rows[table, row][-1]
            rows[table, row] += ["delete", "tombstone"]
            if kind == "delete":
                connection.execute(f"DELETE FROM {table} WHERE id = {row}".encode())
            else:
                new_id = next(self._ids)
                connection.execute(f"UPDATE {table} SET id = {new_id} WHERE id = {row}".encode())
                rows[table, new_id] = [last]


def sighting(record: Observation) -> Sequenced:
    source = record.topic.rpartition(".")[2], json.loads(record.key or b"{}")["id"]
    value = None if record.value is None else json.loads(record.value)
    step = "tombstone" if value is None else "delete" if value["op"] == "d" else value["after"]["n"]
    return source, step


@pytest.fixture
def server() -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory() as directory, running_postgres(Path(directory)) as found:
        for table in TABLES:
            found.sql(f"CREATE TABLE {table} (id int PRIMARY KEY, n int)")
        found.sql("CREATE PUBLICATION shop FOR ALL TABLES")
        yield found


@pytest.fixture
def worker(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Worker]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    put_source("postgres", plugins)
    settings = {"plugin.path": str(plugins), "task.shutdown.graceful.timeout.ms": "5000", "slots.max": "1"}
    with LightWorker(kafka.bootstrap_servers, tmp_path, settings, group=f"hands-{os.getpid()}") as running:
        yield running


def config(server: Postgres) -> dict[str, str]:
    return {
        "tasks.max": "1", "database.hostname": "127.0.0.1", "database.port": str(server.port),
        "database.user": "postgres", "database.password": "nothing", "database.dbname": "postgres",
        "plugin.name": "pgoutput", "topic.prefix": "hands", "slot.name": "hands", "publication.name": "shop",
        "publication.autocreate.mode": "disabled", "table.include.list": r"public\.(orders|items)",
        "max.batch.size": "3", "poll.interval.ms": "50", "exactly.once.support": "required",
        "errors.restart.enabled": "true", "key.converter": JSON, "value.converter": JSON,
        "key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false",
    }  # fmt: skip


@pytest.mark.timeout(300 * len(HAND_OVERS))
def test_connector_under_load_loses_and_doubles_nothing_as_it_changes_hands(
    worker: Worker, kafka: EmbeddedKafka, server: Postgres, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    drawn, ids = random.Random(seed), itertools.count(1)
    classes = itertools.cycle(CLASSES)
    own = config(server)
    assert worker.create("hands", {**own, "connector.class": next(classes)}).status_code == 201
    topics = [f"hands.public.{table}" for table in TABLES]
    with capfd.disabled(), CommittedReader(kafka.bootstrap_servers, topics) as reader:
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")

        def arrive(count: int) -> None:
            def have_arrived() -> bool:
                assert len(reader.seen()) >= count, (len(reader.seen()), count, worker.status("hands"))
                return True

            eventually(have_arrived, within_s=WITHIN_S)

        loads = [Load(server.port, random.Random(drawn.random()), ids) for _ in range(2)]  # they overlap in the log
        eventually(lambda: "t" in server.sql("SELECT active FROM pg_replication_slots"), within_s=WITHIN_S)
        with loads[0], loads[1]:
            for how in HAND_OVERS:
                arrive(len(reader.seen()) + drawn.randint(50, 150))
                if how == "kill":
                    for slot in worker.slots().values():
                        os.kill(slot, signal.SIGKILL)  # its JVM ends with it
                answer = worker.rest.put("/connectors/hands/config", json={**own, "connector.class": next(classes)})
                assert answer.status_code == 200, answer.text
                print(f"{how}: {answer.json()['config']['connector.class']} continues", flush=True)
        expected = {key: steps for load in loads for key, steps in load.expected.items()}
        total = sum(map(len, expected.values()))
        arrive(total)
        found = judge(expected, reader.read_all(60), sighting=sighting)
        print(f"{total} events: {found}", flush=True)
    assert found.is_clean, found
