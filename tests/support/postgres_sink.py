"""Runs of PostgresSink on a real server without Kafka, and records for them."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import psycopg

from fencepost.api import INT32, STRING, FencingToken, Schema, SinkRecord, TopicPartition
from fencepost.builtin.postgres.sink.task import PostgresSink
from fencepost.testing import SinkRun
from support.postgres import Postgres

ROW = Schema.struct({"id": INT32, "name": STRING.optional()}, name="orders")
KEY = Schema.struct({"id": INT32})
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key", "auto.create": "true"}
DELETING = {**UPSERT, "delete.enabled": "true"}


def record(place: TopicPartition, offset: int, key: int, name: str | None, schema: Schema = ROW) -> SinkRecord:
    """Return a record with a row; without a name, a tombstone."""
    value = None if name is None else {"id": key, "name": name}
    return SinkRecord(*place, offset, value, None if value is None else schema, {"id": key}, KEY, at=place)


def sql(server: Postgres, text: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, in a session of its own; nothing for another statement."""
    with psycopg.connect(host="127.0.0.1", port=server.port, user="postgres", autocommit=True) as connection:
        cursor = connection.execute(text.encode())
        return cursor.fetchall() if cursor.description else []


@dataclass
class SinkScene:
    """One sink: its topic, table and config, and the group's offsets. `topic_ids` may be changed by a test."""

    server: Postgres
    name: str
    partitions: int = 1
    config: dict[str, str] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    log: dict[TopicPartition, list[SinkRecord]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topic_ids.setdefault(self.name, "first")
        for number in range(self.partitions):
            self.log.setdefault(TopicPartition(self.name, number), [])

    @property
    def places(self) -> list[TopicPartition]:
        return list(self.log)

    def add(self, key: int, name: str | None, partition: int = 0) -> None:
        """Append a record to the log."""
        place = TopicPartition(self.name, partition)
        self.log[place].append(record(place, len(self.log[place]), key, name))

    def run(self, generation: int = 1, *, is_open: bool = True, **config: str) -> SinkRun:
        """Start a task that owns all partitions; it is newer if its generation is higher."""
        url = f"jdbc:postgresql://127.0.0.1:{self.server.port}/postgres"
        given: Mapping[str, object] = {
            "name": self.name, "topics": self.name, "connection.url": url, "connection.user": "postgres",
            **self.config, **config,
        }  # fmt: skip
        made = SinkRun(
            PostgresSink, given, committed=self.committed, token=FencingToken(1, generation), topic_ids=self.topic_ids
        )
        if is_open:
            made.open(*self.places)
        return made

    def rows(self, columns: str = "id, name") -> list[tuple[Any, ...]]:
        return sql(self.server, f'SELECT {columns} FROM "{self.name}" ORDER BY {columns}')

    def offsets(self) -> dict[int, int | None]:
        """Return the offsets in the database by partition."""
        query = f"SELECT partition, next_offset FROM fencepost_offsets WHERE sink = '{self.name}'"
        return dict(sql(self.server, query))


class Letters:
    """A reporter that remembers what is reported; each report is safe at once."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []

    def report(self, record: SinkRecord, error: Exception) -> "Future[None]":
        self.found.append((record.kafka_offset, str(error)))
        done: Future[None] = Future()
        done.set_result(None)
        return done
