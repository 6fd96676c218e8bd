"""A connector changes hands under load: Debezium, then PostgresSource, and back, stopped or killed.

Both have one name, one config but for the class, one slot and the same topics, on one worker or, with the offset set
over REST, on Kafka Connect and a worker. Debezium polls few records at a time, so that its transactions of Kafka end
anywhere: between a delete and its tombstone, or within a page that COPY has filled.
"""

import itertools
import json
import os
import random
import signal
import tempfile
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from bench.side import KafkaConnect

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
        "plugin.name": "pgoutput", "publication.name": "shop",
        "publication.autocreate.mode": "disabled", "table.include.list": r"public\.(orders|items)",
        "max.batch.size": "3", "poll.interval.ms": "50", "exactly.once.support": "required",
        "errors.restart.enabled": "true", "key.converter": JSON, "value.converter": JSON,
        "key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false",
    }  # fmt: skip


class Scene:
    """Two sessions that write, and what arrives in the topics."""

    def __init__(self, kafka: EmbeddedKafka, server: Postgres, drawn: random.Random, prefix: str) -> None:
        self.config = {**config(server), "topic.prefix": prefix, "slot.name": prefix}
        self._drawn, ids = drawn, itertools.count(1)
        self._loads = [Load(server.port, random.Random(drawn.random()), ids) for _ in range(2)]  # they overlap
        self._reader = CommittedReader(kafka.bootstrap_servers, [f"{prefix}.public.{table}" for table in TABLES])

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write meanwhile; in the end all must have arrived once and in order."""
        with self._reader:
            with self._loads[0], self._loads[1]:
                yield
            expected = {key: steps for load in self._loads for key, steps in load.expected.items()}
            self._arrive(sum(map(len, expected.values())))
            found = judge(expected, self._reader.read_all(60), sighting=sighting)
        print(found, flush=True)
        assert found.is_clean, found

    def go_on(self, worker: Worker | KafkaConnect, name: str) -> None:
        """Wait until some records more have arrived."""
        self._arrive(len(self._reader.seen()) + self._drawn.randint(50, 150), worker, name)

    def _arrive(self, count: int, worker: Worker | KafkaConnect | None = None, name: str = "") -> None:
        def have_arrived() -> bool:
            seen = len(self._reader.seen())
            assert seen >= count, (seen, count, None if worker is None else worker.status(name))
            return True

        eventually(have_arrived, within_s=WITHIN_S)


def streams(server: Postgres) -> None:
    eventually(lambda: "t" in server.sql("SELECT active FROM pg_replication_slots"), within_s=WITHIN_S)


@pytest.mark.timeout(300 * len(HAND_OVERS))
def test_connector_under_load_loses_and_doubles_nothing_as_it_changes_hands(
    worker: Worker, kafka: EmbeddedKafka, server: Postgres, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    classes = itertools.cycle(CLASSES)
    scene = Scene(kafka, server, random.Random(seed), "hands")
    assert worker.create("hands", {**scene.config, "connector.class": next(classes)}).status_code == 201
    with capfd.disabled():
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        streams(server)
        with scene.running():
            for how in HAND_OVERS:
                scene.go_on(worker, "hands")
                if how == "kill":
                    for slot in worker.slots().values():
                        os.kill(slot, signal.SIGKILL)  # its JVM ends with it
                to = {**scene.config, "connector.class": next(classes)}
                answer = worker.rest.put("/connectors/hands/config", json=to)
                assert answer.status_code == 200, answer.text
                print(f"{how}: {to['connector.class']} continues", flush=True)


@pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long")
@pytest.mark.timeout(1800)
def test_connector_moves_from_kafka_connect_and_back_with_its_offsets(
    worker: Worker, kafka: EmbeddedKafka, server: Postgres, seed: int, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    scene = Scene(kafka, server, random.Random(seed), "moves")
    with (
        capfd.disabled(),
        KafkaConnect(kafka.bootstrap_servers, tmp_path, {"plugin.path": str(tmp_path / "plugins")}) as connect,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        places = itertools.cycle(zip((connect, worker), CLASSES, strict=True))
        at, kind = next(places)
        connect.create("moves", {**scene.config, "connector.class": kind})
        streams(server)
        with scene.running():
            for how in ("stop", "stop", "kill", "stop"):
                scene.go_on(at, "moves")
                if how == "kill":
                    connect.kill()
                    connect.start()
                offset = stopped(at)
                at, kind = next(places)
                continue_with(at, {**scene.config, "connector.class": kind}, offset)
                print(f"{how}: {kind} continues with {offset}", flush=True)


def stopped(at: Worker | KafkaConnect) -> dict[str, Any]:
    """Stop the connector. Returns the offset that Debezium and PostgresSource have both."""
    assert at.rest.put("/connectors/moves/stop").status_code == 204

    def is_stopped() -> bool:
        status = at.status("moves")
        return status["connector"]["state"] == "STOPPED" and not status["tasks"]

    eventually(is_stopped, within_s=WITHIN_S)
    found = at.rest.get("/connectors/moves/offsets").json()["offsets"]
    return next(one["offset"] for one in found if one["partition"] == {"server": "moves"})


def continue_with(at: Worker | KafkaConnect, config: dict[str, str], offset: dict[str, Any]) -> None:
    if not at.status("moves"):
        body = {"name": "moves", "config": config, "initial_state": "STOPPED"}
        assert at.rest.post("/connectors", json=body).status_code == 201

    def is_set() -> bool:
        offsets = {"offsets": [{"partition": {"server": "moves"}, "offset": offset}]}
        answer = at.rest.patch("/connectors/moves/offsets", json=offsets)
        assert answer.status_code == 200, answer.text
        return True

    eventually(is_set, within_s=WITHIN_S)
    assert at.rest.put("/connectors/moves/resume").status_code == 202
