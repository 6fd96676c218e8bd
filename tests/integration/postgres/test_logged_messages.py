"""What `pg_logical_emit_message` writes comes once and in order, in its transaction or outside of any, on a server."""

import random
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from fencepost.api import SourceRecord
from fencepost.builtin.postgres.source import streaming
from support.postgres import Postgres, running_postgres
from support.postgres_source import Source


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with TemporaryDirectory() as directory, running_postgres(Path(directory)) as found:
        yield found


@pytest.fixture
def source(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    """Return a source that streams a table, and whose position moves as soon as a keep-alive says that it may."""
    monkeypatch.setattr(streaming, "_IDLE_MOVE_S", 0.0)
    found = Source(server)
    found.sql("CREATE TABLE SCHEMA.a (id int PRIMARY KEY)")
    found.begin()
    found.until(lambda: found.progress.position is not None)
    yield found
    found.end()


def emit(number: int, *, transactional: bool = False, prefix: str = "app") -> str:
    return f"SELECT pg_logical_emit_message({transactional}, '{prefix}', '{number}')"


def messages(source: Source) -> list[str]:
    return [content(one) for one in source.records if one.topic == f"{source.name}.message"]


def content(record: SourceRecord) -> str:
    return str(record.value["message"]["content"].decode())


class Load:
    """Two sessions with random transactions, which may overlap. `expected` is what the topics must have, in order."""

    def __init__(self, source: Source, drawn: random.Random) -> None:
        self.expected: list[str] = []
        self._drawn, self._numbers = drawn, count(1)
        where = {"host": "127.0.0.1", "port": source.server.port, "user": "postgres"}
        self._sessions = [psycopg.connect(**where) for _ in range(2)]  # type: ignore[arg-type]
        self._name = source.name
        self._open: list[list[str]] = [[], []]

    def act(self) -> None:
        """Let one session insert a row, write a message, of its transaction or none, or end its transaction."""
        which, number = self._drawn.randrange(2), next(self._numbers)
        session, own = self._sessions[which], self._open[which]
        match self._drawn.choice("rrtttnnce"):
            case "r":
                session.execute(f"INSERT INTO {self._name}.a VALUES ({number})".encode())
                own.append(f"{number}")
            case "t":
                session.execute(emit(number, transactional=True).encode())
                own.append(f"{number}")
            case "n":
                session.execute(emit(number).encode())
                self.expected.append(f"{number}")
            case "c":
                self._end(which)
            case _:
                session.rollback()
                own.clear()

    def _end(self, which: int) -> None:
        self._sessions[which].commit()
        self.expected += self._open[which]
        self._open[which].clear()

    def close(self) -> None:
        """Commit what is open, and a last row: a server of version 15 keeps a message in no transaction until then."""
        for which in range(2):
            self._end(which)
        self._sessions[0].execute(f"INSERT INTO {self._name}.a VALUES (0)".encode())
        self._open[0].append("0")
        self._end(0)
        for session in self._sessions:
            session.close()


def written(source: Source) -> list[str]:
    """Return rows and messages as they were written."""
    changes = [one for one in source.records if "op" in one.value]
    return [f"{one.key['id']}" if "after" in one.value else content(one) for one in changes]


def xid(block: Mapping[str, str]) -> str:
    return block["id"].split(":")[0]


@pytest.mark.parametrize("parts", ["whole", "split"])
def test_messages_come_once_and_in_order_after_kills_at_any_step(
    source: Source, monkeypatch: pytest.MonkeyPatch, parts: str, seed: int
) -> None:
    """Judge rows and messages of a transaction by `total_order`, as their topics have no order among each other."""
    drawn = random.Random(seed)
    source.config["provide.transaction.metadata"] = "true"
    if parts == "split":
        monkeypatch.setattr(streaming, "_MOST_MESSAGES", 1)
        monkeypatch.setattr(streaming, "_PART", 1)
        source.config["transaction.too.large"] = "split"
        source.timeout_s = 0.0
    source.crash()
    source.begin()
    load = Load(source, drawn)
    for _ in range(40):
        for _ in range(drawn.randrange(6)):
            load.act()
        for _ in range(drawn.randrange(1, 5)):
            source.step()
        if drawn.random() < 0.4:
            source.step(commits=False)
            source.crash()
            source.begin()
    load.close()
    source.until(lambda: "0" in written(source))
    source.until(lambda: source.records[-1].value.get("status") == "END")
    assert written(source) == load.expected
    orders: dict[str, list[int]] = {}
    for block in filter(None, (one.value.get("transaction") for one in source.records)):
        orders.setdefault(xid(block), []).append(block["total_order"])
    ends = [one.value for one in source.records if one.value.get("status") == "END"]
    assert orders == {xid(end): list(range(1, end["event_count"] + 1)) for end in ends}
    if parts == "whole":
        for records in source.transactions:
            begun = [one.value["status"] for one in records if "status" in one.value]
            assert begun == ["BEGIN", "END"] * (len(begun) // 2)


def test_messages_of_other_prefixes_are_left_out_and_move_the_position(source: Source) -> None:
    source.crash()
    source.config["message.prefix.include.list"] = r"app\..*"
    source.begin()
    source.sql(emit(1, prefix="App.orders"))
    source.sql(emit(2, prefix="other", transactional=True))
    source.sql(emit(3, prefix="app.orders", transactional=True))
    source.until(lambda: messages(source) == ["1", "3"])
    assert [one.key for one in source.records] == [{"prefix": "App.orders"}, {"prefix": "app.orders"}]
    lsn = int(source.sql(emit(4, prefix="other") + " - '0/0'::pg_lsn"))
    source.sql("INSERT INTO SCHEMA.a VALUES (1)")
    confirmed = (
        f"SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE slot_name = '{source.name}'"
    )
    source.until(lambda: int(source.sql(confirmed)) > lsn)
    assert messages(source) == ["1", "3"]
