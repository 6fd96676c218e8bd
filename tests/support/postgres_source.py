"""A source of Postgres, step by step on a real server, without Kafka."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import psycopg

from fencepost.api import SourceRecord
from fencepost.builtin.postgres.source.connector import PostgresSource
from fencepost.builtin.postgres.source.progress import Progress
from fencepost.task.delivery.lanes import TransactionSize
from fencepost.task.source.boundary import BoundaryDecision, ConnectorBoundary
from fencepost.testing import OffsetStore, eventually
from fencepost.testing.source_run import SourceRun
from support.postgres import Postgres

_numbers = itertools.count(1)


def is_read_again(record: SourceRecord) -> bool:
    """Say whether a record is of a row that was read again, as a signal asks, or after its table was rewritten."""
    return record.value is not None and record.value["source"]["snapshot"] == "incremental"


class Source:
    """One connector's task, started and killed as often as a test says. Each has a schema and a slot of its own."""

    def __init__(self, server: Postgres, **config: str) -> None:
        self.name = f"s{next(_numbers)}"
        self.server = server
        self.store = OffsetStore()
        self.transactions: list[list[SourceRecord]] = []
        self.timeout_s = 60.0
        self.config = {
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": "postgres",
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "topic.prefix": self.name,
            "slot.name": self.name,
            "publication.name": self.name,
            "publication.autocreate.mode": "filtered",
            "table.include.list": rf"{self.name}\..*",
            **{key.replace("__", "."): value for key, value in config.items()},
        }
        self._connect()
        self._connection.execute(f"CREATE SCHEMA {self.name}".encode())
        self._run: SourceRun | None = None
        self._open: list[SourceRecord] = []

    def move_to(self, server: Postgres) -> None:
        """Change the address of the database to that of another server."""
        self._connection.close()
        self.server = server
        self.config["database.port"] = str(server.port)
        self._connect()

    def _connect(self) -> None:
        self._connection = psycopg.connect(host="127.0.0.1", port=self.server.port, user="postgres", autocommit=True)

    def sql(self, text: str) -> Any:
        """Carry out statements, each in a transaction unless they say otherwise. Returns the value of the last one."""
        for statement in text.replace("SCHEMA", self.name).split(";"):
            cursor = self._connection.execute(statement.encode())
        return cursor.fetchone()[0] if cursor.description else None

    def begin(self, **task: str) -> None:
        self._boundary = ConnectorBoundary()
        self._open = []
        own = {**self.config, "name": self.name, **{key.replace("__", "."): value for key, value in task.items()}}
        self._run = SourceRun(PostgresSource, store=self.store, task_config=own, transaction=self._boundary)
        context: Any = self._run.task.context
        context._sizes = TransactionSize(self.timeout_s)

    def step(self, *, commits: bool = True) -> bool:
        """Poll once. Returns whether a transaction of Kafka has ended."""
        assert self._run is not None
        records, batches = self._run.poll_batches()
        count = sum(map(len, batches))
        found = records if records is not None else [each for batch in batches for each in batch.records()]
        has_ended = False
        for start, stop, verdict in self._boundary.segments(records, count):
            self._open += found[start:stop]
            if verdict is BoundaryDecision.GO_ON:
                continue
            has_ended = True
            if verdict is BoundaryDecision.COMMIT and commits:
                self.transactions += [self._open] if self._open else []
                self._run.commit()
            self._open = []
        return has_ended

    @property
    def stage(self) -> Any:
        assert self._run is not None
        return self._run.task._stage

    def crash(self) -> None:
        """Let go of the connections, as the end of the process does, and of all else."""
        assert self._run is not None
        self._run.task.stop()
        self._run.crash()

    def end(self) -> None:
        """Drop the slot once its reader has gone: a server has room for ten."""
        if self._run is not None:
            self.crash()
        drop = f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{self.name}'"
        eventually(lambda: self._connection.execute(drop.encode()), within_s=60)
        self._connection.close()

    @property
    def progress(self) -> Progress:
        return Progress.of(self.name, self.store.pairs())

    def until(self, predicate: Callable[[], Any], *, within_s: float = 120) -> None:
        """Poll until something is so. Errors of the task propagate."""
        until_s = time.monotonic() + within_s
        while not predicate():
            assert time.monotonic() < until_s, f"not within {within_s} s; progress: {self.progress}"
            self.step()

    @property
    def records(self) -> list[SourceRecord]:
        return list(itertools.chain(*self.transactions))

    def rebuilt(self, table: str) -> dict[Any, Any]:
        """Return the table as its topic has it."""
        rows: dict[Any, Any] = {}
        for record in self.records:
            if record.topic == f"{self.name}.{self.name}.{table}" and record.value is not None:
                key = record.key["id"]
                if record.value["op"] == "d":
                    del rows[key]
                else:
                    assert (record.value["op"] == "u") == (key in rows), record
                    rows[key] = record.value["after"]
        return rows

    def table(self, table: str) -> dict[Any, Any]:
        found = self.sql(f"SELECT coalesce(json_object_agg(id, to_json(whole)), '{{}}') FROM SCHEMA.{table} whole")
        return {int(key): row for key, row in found.items()}
