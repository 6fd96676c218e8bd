"""Debezium 3.6.1 hands over to PostgresSource, and back: at each record where it may have stopped, by its own offsets.

Debezium's task runs alone, and reads from a real server. Each of its records has the offset that its worker would have
stored if that record were the last one in Kafka, however it was stopped. PostgresSource continues from there, with a
copy of Debezium's slot.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psycopg
import pytest
from bench.postgres import debezium

from fencepost.api import SourceRecord
from fencepost.builtin.postgres.source import streaming
from fencepost.builtin.postgres.source.connector import PostgresSource
from fencepost.task.source.boundary import BoundaryDecision, ConnectorBoundary
from fencepost.testing import OffsetStore, eventually
from fencepost.testing.source_run import SourceRun
from oracle.debezium_postgres import Debezium
from support.long_form import IS_LONG
from support.postgres import Postgres, running_postgres

_numbers = itertools.count(1)
_WITHIN_MS = 120_000
INSIDE, OUTSIDE = (f"SELECT pg_logical_emit_message({each}, 'app', '')" for each in ("true", "false"))
"""Messages of a transaction, and of none."""


class Seen(NamedTuple):
    """What tells a record from all others: a change may have several, and several changes may have one LSN.

    The key of a message is its prefix, which all have, and counts as none.
    """

    topic: str
    key: int | None
    op: str
    lsn: int


def seen(topic: str, key: Any, value: Any, last: list[int]) -> Seen:
    """Return what a record is; a tombstone has the LSN of the delete before it, a transaction its id."""
    if value is not None and "status" in value:
        return Seen(topic, None, value["status"], int(value["id"].split(":")[0]))
    if value is not None:
        last[:] = [value["source"]["lsn"]]
    own = value["after"]["n"] if key is None else key.get("id")
    return Seen(topic, own, "tombstone" if value is None else value["op"], last[0])


class Scene:
    """A server with a table, the config of both, and Debezium's task."""

    def __init__(self, server: Postgres, directory: Path) -> None:
        debezium(directory / "plugins")
        self._debezium = Debezium(directory / "plugins", directory / "debezium.log")
        self.config = {
            "database.hostname": "127.0.0.1", "database.port": str(server.port), "database.user": "postgres",
            "database.password": "nothing", "database.dbname": "postgres", "plugin.name": "pgoutput",
            "topic.prefix": "shop", "slot.name": "shop", "publication.name": "shop",
            "publication.autocreate.mode": "filtered", "name": "shop",
            "table.include.list": r"public\.(orders|other|log)",
        }  # fmt: skip
        self._sql = psycopg.connect(host="127.0.0.1", port=server.port, user="postgres", autocommit=True)
        self._where = {"host": "127.0.0.1", "port": server.port, "user": "postgres"}
        self.start: dict[str, Any] = {}
        """The offset of Debezium's snapshot."""

    def close(self) -> None:
        self._debezium.close()
        self._sql.close()

    def sql(self, text: str) -> None:
        self._sql.execute(text.encode())

    def work(self) -> None:
        """Carry out transactions of every kind, two of which overlap in the log."""
        with psycopg.connect(**self._where) as early, psycopg.connect(**self._where) as late:  # type: ignore[arg-type]
            early.execute(f"{OUTSIDE}; INSERT INTO orders VALUES (100, 1), (101, 1)")
            late.execute(f"{INSIDE}; INSERT INTO other VALUES (1, 1); UPDATE other SET n = 2; {OUTSIDE}")
            late.commit()
            early.execute(f"{INSIDE}; UPDATE orders SET n = 2 WHERE id = 100; {OUTSIDE}; {INSIDE}")
            early.execute("DELETE FROM orders WHERE id = 1")
            early.commit()
            early.execute(INSIDE)  # it ends where the rows of the page begin
            with early.cursor().copy("COPY orders FROM STDIN") as copy:  # one record of the log for all rows
                copy.write("".join(f"{number}\t5\n" for number in range(200, 206)))
            with early.cursor().copy("COPY log FROM STDIN") as copy:  # its records have no key
                copy.write("1\n2\n2\n3\n4\n")
            early.execute("UPDATE orders SET id = 300 WHERE id = 2; UPDATE orders SET n = 3 WHERE id = 300")
            early.commit()
            with late.cursor().copy("COPY other FROM STDIN") as copy:
                copy.write("".join(f"{number}\t5\n" for number in range(500, 503)))
            late.commit()
            late.execute("DELETE FROM other WHERE id = 1")
            late.commit()
        self.sql("INSERT INTO other VALUES (999, 999)")

    def worked(self, more: dict[str, str]) -> list[dict[str, Any]]:
        """Return what Debezium writes of the transactions. Its slot stays before them."""
        self.sql("DROP TABLE IF EXISTS orders, other, log; DROP PUBLICATION IF EXISTS shop")
        self.sql("CREATE TABLE orders (id int PRIMARY KEY, n int); CREATE TABLE other (id int PRIMARY KEY, n int)")
        self.sql("CREATE TABLE log (n int)")
        self.sql("INSERT INTO orders SELECT i, 0 FROM generate_series(1, 3) i; INSERT INTO other VALUES (7, 7)")
        self.begin("shop", **more)
        self.start = self.poll('"id":7')[-1]["offset"]
        self.work()
        polled = self.poll('"n":999')
        self.stop()
        if polled[-1]["topic"].endswith(".transaction"):  # its end may have come with the last change, or not
            polled.pop()
        return polled

    @contextmanager
    def copied_slot(self) -> Iterator[str]:
        """Make a slot that stands where Debezium's does."""
        name = f"copy_{next(_numbers)}"
        self.sql(f"SELECT pg_copy_logical_replication_slot('shop', '{name}')")
        yield name
        self.drop_slot(name)

    def drop_slot(self, name: str) -> None:
        drop = f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{name}'"
        eventually(lambda: self._sql.execute(drop.encode()), within_s=60)

    def begin(self, slot: str, offset: dict[str, Any] | None = None, **more: str) -> None:
        config = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", **self.config, **more}
        given = {} if offset is None else {"offset": offset}
        self._debezium.ask(start={**config, "slot.name": slot}, **given)

    def poll(self, until: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._debezium.ask(until=until, within_ms=_WITHIN_MS)["records"]
        return found

    def stop(self) -> None:
        self._debezium.ask(stop=True)


def of_debezium(records: list[dict[str, Any]]) -> list[Seen]:
    last = [0]
    return [seen(each["topic"], _payload(each["key"]), _payload(each["value"]), last) for each in records]


class Topics:
    """What the runtime sees of topics that have these records of Debezium's: each counts once."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self._found = [(one["topic"], _payload(one["key"]), _payload(one["value"])) for one in records]

    def has(self, record: SourceRecord, is_same: Callable[[Any], bool]) -> bool:
        own = [value for topic, key, value in self._found if (topic, key) == (record.topic, record.key)]
        if record.value is None:
            return bool(own) and own[-1] is None
        same = next((value for value in own if value is not None and is_same(value)), None)
        if same is not None:
            self._found.remove((record.topic, record.key, same))
        return same is not None


def _payload(text: str | None) -> Any:
    return None if text is None else json.loads(text)["payload"]


def by_topic(records: Iterable[Seen]) -> dict[str, list[Seen]]:
    found: dict[str, list[Seen]] = {}
    for one in records:
        found.setdefault(one.topic, []).append(one)
    return found


class Continued:
    """PostgresSource, from an offset on."""

    def __init__(self, config: dict[str, str], offset: dict[str, Any], before: list[dict[str, Any]]) -> None:
        self.store = OffsetStore([({"server": "shop"}, offset)])
        self._boundary = ConnectorBoundary()
        self._run = SourceRun(PostgresSource, store=self.store, task_config=config, transaction=self._boundary)
        self._run.task.context.written = lambda: Topics(before)  # type: ignore[attr-defined]
        self.committed: list[tuple[dict[str, Any], int]] = []
        """Each offset that was committed, and how many records were by then."""

    def read(self, until: tuple[str, int], last_lsn: int = 0) -> list[Seen]:
        """Return the records that it commits, up to that of a topic and a key. `last_lsn` is that of the one before."""
        found: list[Seen] = []
        open_: list[Any] = []
        last = [last_lsn]

        def has_ended() -> bool:
            records, batches = self._run.poll_batches()
            polled = records if records is not None else [one for batch in batches for one in batch.records()]
            for start, stop, verdict in self._boundary.segments(records, sum(map(len, batches))):
                open_.extend(polled[start:stop])
                if verdict is BoundaryDecision.COMMIT:
                    found.extend(seen(one.topic, one.key, one.value, last) for one in open_)
                    open_.clear()
                    self._run.commit()
                    self.committed += [(dict(o), len(found)) for p, o in self.store.pairs() if len(p) == 1]
                elif verdict is not BoundaryDecision.GO_ON:
                    open_.clear()
            return any((one.topic, one.key) == until for one in found)

        eventually(has_ended, within_s=120)
        self._run.task.stop()
        self._run.crash()
        return found


LAST = ("shop.public.other", 999)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with TemporaryDirectory() as directory, running_postgres(Path(directory)) as server, TemporaryDirectory() as own:
        found = Scene(server, Path(own))
        yield found
        found.close()


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("metadata", ["false", "true"] if IS_LONG else ["false"])
def test_source_continues_at_each_record_where_debezium_may_have_stopped(scene: Scene, metadata: str) -> None:
    more = {"provide.transaction.metadata": metadata}
    polled = scene.worked(more)
    records = of_debezium(polled)
    for number in range(len(records) - 1):
        with scene.copied_slot() as slot:
            config = {**scene.config, **more, "slot.name": slot}
            continued = Continued(config, polled[number]["offset"], polled[: number + 1])
            after = continued.read(LAST, records[number].lsn)
        if metadata == "true":
            assert after.pop().op == "END"
        assert by_topic(after) == by_topic(records[number + 1 :]), (number, polled[number]["offset"])
    scene.drop_slot("shop")


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_debezium_continues_at_each_offset_that_source_commits(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_MOST_MESSAGES", 1)  # each transaction is one of Kafka's
    records = of_debezium(scene.worked({}))
    with scene.copied_slot() as slot:
        source = Continued({**scene.config, "slot.name": slot}, scene.start, [])
        assert by_topic(source.read(LAST)) == by_topic(records)
    assert len(source.committed) > 5
    for offset, count in source.committed[:-1]:
        with scene.copied_slot() as slot:
            scene.begin(slot, offset)
            after = of_debezium(scene.poll('"n":999'))
            scene.stop()
        assert by_topic(after) == by_topic(records[count:]), offset
    scene.drop_slot("shop")
