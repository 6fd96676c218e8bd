"""Tables that join a running source get a snapshot of their own while the stream goes on, on a real server."""

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from fencepost.builtin.postgres.source import joining, snapshot, streaming
from fencepost.builtin.postgres.source.progress import Phase
from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.testing import eventually
from support.postgres import Postgres, running_postgres
from support.postgres_source import Source, is_read_again

psycopg = pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with TemporaryDirectory() as directory, running_postgres(Path(directory)) as found:
        yield found


@pytest.fixture
def source(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    """Return a source that streams a table, and knows nothing of another one, `b`, which has 5,000 rows in chunks."""
    monkeypatch.setattr(SourceSettings, "chunk_bytes", 1 << 16)
    found = with_tables(server)
    found.config["table.include.list"] = rf"{found.name}\.a"
    found.begin()
    found.until(lambda: found.progress.position is not None and bool(found.progress.tables))
    yield found
    found.end()


def with_tables(server: Postgres) -> Source:
    found = Source(server)
    found.sql("CREATE TABLE SCHEMA.a (id int PRIMARY KEY, n int); INSERT INTO SCHEMA.a VALUES (1, 1)")
    found.sql("CREATE TABLE SCHEMA.b (id int PRIMARY KEY, n int, t text)")
    found.sql("INSERT INTO SCHEMA.b SELECT i, i, repeat('x', 300) FROM generate_series(1, 5000) i")
    return found


def joined(source: Source) -> dict[int, Any]:
    """Return table `b` as its topic has it. Raises AssertionError for a record that is back in time, or there twice."""
    rows: dict[int, Any] = {}
    seen: set[int] = set()
    for record in source.records:
        if record.topic != f"{source.name}.{source.name}.b" or record.value is None:
            continue
        key, operation = record.key["id"], record.value["op"]
        is_late, is_again = operation == "r" and key in seen, operation == "c" and key in rows
        assert not is_late, f"row {key} is read after a change of it was written"
        assert not is_again, f"row {key} comes twice"
        seen.add(key)
        if operation == "d":
            rows.pop(key, None)
        else:
            rows[key] = record.value["after"]
    return rows


def is_whole(source: Source) -> bool:
    return source.progress.plan is None and joined(source) == source.table("b")


def oid(source: Source) -> int:
    return int(source.sql("SELECT 'SCHEMA.b'::regclass::oid::int"))


def temporary_slots(source: Source) -> int:
    return int(source.sql("SELECT count(*) FROM pg_replication_slots WHERE temporary AND slot_name LIKE 'SCHEMA\\_%'"))


def widen(source: Source) -> None:
    source.config["table.include.list"] = rf"{source.name}\.(a|b)"


def test_rows_of_a_table_that_joins_are_read_and_its_changes_follow(source: Source) -> None:
    source.crash()
    widen(source)
    source.begin()
    source.until(lambda: source.progress.plan is not None)
    source.sql("UPDATE SCHEMA.b SET n = -1 WHERE id % 3 = 0; DELETE FROM SCHEMA.b WHERE id % 5 = 0")
    source.sql("INSERT INTO SCHEMA.b VALUES (9001, 1)")
    source.until(lambda: oid(source) in source.progress.tables and is_whole(source))
    source.sql("UPDATE SCHEMA.b SET n = -2 WHERE id < 100; UPDATE SCHEMA.a SET n = 2")
    source.until(lambda: is_whole(source))
    assert [one.value["after"]["n"] for one in source.records if one.topic.endswith(".a")] == [1, 2]
    assert not source.progress.leftovers


def test_stream_is_read_between_any_two_chunks_of_a_table_that_joins(source: Source) -> None:
    source.crash()
    widen(source)
    source.begin()
    source.until(lambda: source.progress.plan is not None)
    session = source.stage._session
    receive = session.receive
    counts: set[int] = set()

    def receive_and_count() -> None:
        counts.add(len(source.transactions))
        receive()

    session.receive = receive_and_count
    before = len(source.transactions)
    source.until(lambda: is_whole(source))
    assert len(source.transactions) - before > 10
    assert set(range(before, len(source.transactions))) <= counts


def test_stream_flows_while_a_table_that_joins_is_locked(
    source: Source, server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_LOCK_S", 1)
    monkeypatch.setattr(joining, "_AGAIN_S", 2.0)
    source.crash()
    widen(source)
    source.begin()
    source.until(lambda: source.progress.plan is not None)
    with psycopg.connect(host="127.0.0.1", port=server.port, user="postgres") as other:
        other.execute(f"LOCK TABLE {source.name}.b IN ACCESS EXCLUSIVE MODE".encode())
        stream = source.stage._session.stream
        for number in range(3):
            source.sql(f"UPDATE SCHEMA.a SET n = {number}")
            source.until(lambda number=number: source.records[-1].value["after"]["n"] == number)  # type: ignore[misc]
        assert source.stage._session.stream is stream
    source.until(lambda: is_whole(source))


def test_table_that_is_published_while_the_source_runs_joins(source: Source) -> None:
    widen(source)
    source.crash()
    source.config["publication.autocreate.mode"] = "no_tables"
    source.begin()
    source.until(lambda: True)
    assert oid(source) not in source.progress.tables
    source.sql("ALTER PUBLICATION SCHEMA ADD TABLE SCHEMA.b")
    source.sql("UPDATE SCHEMA.b SET n = -1 WHERE id <= 10")
    source.until(lambda: oid(source) in source.progress.tables and is_whole(source))
    assert len(joined(source)) == 5000


def test_change_of_an_unread_table_waits_while_older_transactions_are_open(source: Source, server: Postgres) -> None:
    source.crash()
    widen(source)
    with psycopg.connect(host="127.0.0.1", port=server.port, user="postgres") as other:
        other.execute(f"UPDATE {source.name}.b SET n = -7 WHERE id = 1".encode())  # before it is published
        source.begin()
        source.until(lambda: source.sql("SELECT count(*) FROM pg_replication_slots WHERE temporary") == 1)
        source.sql("UPDATE SCHEMA.a SET n = 5")
        source.until(lambda: source.records[-1].topic.endswith(".a") and source.records[-1].value["after"]["n"] == 5)
        source.sql("UPDATE SCHEMA.b SET n = -8 WHERE id = 2; UPDATE SCHEMA.a SET n = 6")
        for _ in range(20):
            source.step()
        assert source.records[-1].value["after"]["n"] == 5
        other.commit()
    source.until(lambda: is_whole(source) and source.records[-1].topic != "")
    eventually(lambda: source.sql("SELECT count(*) FROM pg_replication_slots WHERE temporary") == 0, within_s=60)
    source.until(lambda: source.rebuilt("a") == source.table("a"))


def test_large_transaction_does_not_wait_for_the_plan_of_a_table(
    source: Source, server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_MOST_MESSAGES", 1)
    monkeypatch.setattr(streaming, "_PART", 1)
    monkeypatch.setattr(joining, "_RETRY_S", 0.0)
    source.crash()
    widen(source)
    with psycopg.connect(host="127.0.0.1", port=server.port, user="postgres") as other:
        other.execute(f"UPDATE {source.name}.b SET n = -7 WHERE id = 1".encode())
        source.begin()
        source.until(lambda: temporary_slots(source) == 1)
        source.sql("BEGIN; UPDATE SCHEMA.a SET n = 5; UPDATE SCHEMA.b SET n = -8 WHERE id = 2; COMMIT")
        source.until(lambda: source.rebuilt("a") == source.table("a"))
        assert source.progress.plan is None
        other.commit()
    source.until(lambda: oid(source) in source.progress.tables and is_whole(source))


def test_slot_of_a_plan_that_is_being_made_ends_with_its_task(source: Source, server: Postgres) -> None:
    source.crash()
    widen(source)
    with psycopg.connect(host="127.0.0.1", port=server.port, user="postgres") as other:
        other.execute(f"UPDATE {source.name}.b SET n = -7 WHERE id = 1".encode())
        source.begin()
        source.until(lambda: temporary_slots(source) == 1)
        source.crash()
        eventually(lambda: temporary_slots(source) == 0, within_s=60)  # without an end it waits for two minutes


def test_changes_from_before_the_snapshot_of_a_table_are_left_out(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.crash()
    source.sql("ALTER PUBLICATION SCHEMA ADD TABLE SCHEMA.b")
    for number in range(200):
        source.sql(
            f"UPDATE SCHEMA.b SET n = n + 1 WHERE id = {number}; INSERT INTO SCHEMA.b VALUES ({number + 8000}, 1)"
        )
    widen(source)
    monkeypatch.setattr(streaming, "_MOST_MESSAGES", 10)  # the plan is there before the stream has come to its point
    source.begin()
    source.until(lambda: oid(source) in source.progress.tables and is_whole(source))
    assert {one.value["op"] for one in source.records if one.topic.endswith(".b")} == {"r"}


def test_tables_of_offsets_without_a_record_count_as_read(source: Source) -> None:
    source.crash()
    for partition, _ in source.store.pairs():
        if "table" in partition:
            source.store.write([(partition, None)])
    widen(source)
    source.begin()
    source.until(lambda: oid(source) in source.progress.tables)
    source.sql("UPDATE SCHEMA.b SET n = -1 WHERE id = 1")
    source.until(lambda: len(joined(source)) == 1)


def test_tables_join_a_source_that_began_without_a_table(server: Postgres) -> None:
    source = with_tables(server)
    source.sql("CREATE PUBLICATION SCHEMA FOR TABLE SCHEMA.a, SCHEMA.b")
    source.config |= {"publication.autocreate.mode": "disabled", "table.include.list": "none"}
    source.begin()
    source.until(lambda: source.progress.position is not None)
    source.crash()
    widen(source)
    source.begin()
    source.until(lambda: oid(source) in source.progress.tables and source.progress.plan is None)
    assert is_whole(source)
    source.end()


def test_rows_are_right_after_kills_at_any_step_of_a_joining_table(source: Source, seed: int) -> None:
    drawn = random.Random(seed)
    source.crash()
    widen(source)
    source.begin()
    kills = 0
    while not (oid(source) in source.progress.tables and source.progress.plan is None):
        for _ in range(drawn.randrange(4)):
            source.sql(change(drawn))
        for _ in range(drawn.randrange(1, 6)):
            source.step()
        if kills < 12 and drawn.random() < 0.3:
            source.step(commits=False)
            source.crash()
            source.begin()
            kills += 1
    source.until(lambda: is_whole(source))
    assert source.progress.phase is Phase.STREAM


def change(drawn: random.Random) -> str:
    key = drawn.randrange(1, 5200)
    return drawn.choice(
        [
            f"UPDATE SCHEMA.b SET n = n + 1 WHERE id BETWEEN {key} AND {key + 20}",
            f"DELETE FROM SCHEMA.b WHERE id BETWEEN {key} AND {key + 5}",
            f"INSERT INTO SCHEMA.b VALUES ({key}, 0, 'new') ON CONFLICT (id) DO UPDATE SET t = 'newer'",
            f"BEGIN; UPDATE SCHEMA.a SET n = n + 1; SAVEPOINT s; UPDATE SCHEMA.b SET n = 0 WHERE id = {key}; "
            f"RELEASE s; SAVEPOINT s; DELETE FROM SCHEMA.b WHERE id = {key + 1}; ROLLBACK TO s; COMMIT",
            f"UPDATE SCHEMA.b SET id = id + 100000 WHERE id = {key}",
        ]
    )


def test_chunk_waits_for_a_written_transaction_that_is_not_visible_yet(source: Source, server: Postgres) -> None:
    """Show a transaction in the stream before it is visible: it waits for a standby that is not there."""
    source.crash()
    widen(source)
    source.sql("ALTER PUBLICATION SCHEMA ADD TABLE SCHEMA.b")
    source.sql("SET synchronous_commit = local; ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    source.sql("SELECT pg_reload_conf()")
    eventually(lambda: source.sql("SHOW synchronous_standby_names") == "nobody", within_s=60)
    with psycopg.connect(host="127.0.0.1", port=server.port, user="postgres", autocommit=True) as other:
        text = f"UPDATE {source.name}.b SET n = -9 WHERE id % 100 = 0".encode()
        waiting = threading.Thread(target=other.execute, args=(text,))
        try:
            source.begin()
            source.until(lambda: source.progress.plan is not None)
            waiting.start()
            source.until(lambda: any(one.value["op"] == "u" for one in source.records if one.topic.endswith(".b")))
            before = len(source.records)
            for _ in range(20):
                source.step()
            assert len(source.records) - before == 0
            source.crash()
            source.begin()
            for _ in range(20):
                source.step()
            assert len(source.records) - before == 0
        finally:
            source.sql("ALTER SYSTEM RESET synchronous_standby_names")
            source.sql("SELECT pg_reload_conf()")
            waiting.join()
    source.until(lambda: is_whole(source))


def test_end_of_a_joining_table_waits_until_its_chunks_are_committed(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_IDLE_MOVE_S", 0.0)
    source.crash()
    widen(source)
    source.begin()
    source.until(lambda: source.progress.plan is not None)
    chunks = source.stage._session.joining._chunks
    while not chunks.is_over:
        source.step(commits=False)
    session = source.stage._session
    while session.changes.position.lsn < session.joining._tables.plan.lsn:
        source.step(commits=False)
    for _ in range(10):
        source.step(commits=False)
    assert source._run is not None
    offered = source._run.task.update_offsets({})
    assert offered
    assert all("table" not in dict(key) for key in offered)


@pytest.fixture
def signalled(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    """Return a source that has read `a` and `b`, which has 5,000 rows in chunks, and takes signals from a table."""
    monkeypatch.setattr(SourceSettings, "chunk_bytes", 1 << 16)
    found = with_tables(server)
    found.sql("CREATE TABLE SCHEMA.signals (id text PRIMARY KEY, type text, data text)")
    found.config["signal.data.collection"] = f"postgres.{found.name}.signals"
    widen(found)
    found.begin()
    found.until(lambda: found.progress.position is not None and oid(found) in found.progress.tables)
    yield found
    found.end()


def signal(source: Source, name: str) -> None:
    data = f'{{"data-collections": ["{source.name}\\\\.B"], "type": "incremental"}}'
    source.sql(f"INSERT INTO SCHEMA.signals VALUES ('{name}', 'execute-snapshot', '{data}')")


def read_again(source: Source) -> dict[int, int]:
    """Count how often each row was read again. Raises AssertionError for one that is not as the topic has it."""
    rows: dict[int, Any] = {}
    counts: dict[int, int] = {}
    for record in source.records:
        if record.topic != f"{source.name}.{source.name}.b" or record.value is None:
            continue
        key, row = record.key["id"], record.value["after"]
        if is_read_again(record):
            counts[key] = counts.get(key, 0) + 1
            assert rows.get(key) == row, f"row {key} is read as {row}, and was {rows.get(key)}"
        rows[key] = row
    assert {key: row for key, row in rows.items() if row is not None} == source.table("b")
    return counts


def is_done(source: Source) -> bool:
    return not source.progress.again and source.progress.plan is None


def test_signal_reads_rows_again_once_with_kills_and_changes(signalled: Source, seed: int) -> None:
    drawn, source = random.Random(seed), signalled
    signal(source, "one")
    kills, is_asked = 0, False
    while not (is_asked and is_done(source)):
        is_asked |= bool(source.progress.again)
        for _ in range(drawn.randrange(4)):
            source.sql(early_change(drawn))
        for _ in range(drawn.randrange(1, 6)):
            source.step()
            is_asked |= bool(source.progress.again)
        if kills < 12 and drawn.random() < 0.3:
            source.step(commits=False)
            source.crash()
            source.begin()
            kills += 1
    source.sql("INSERT INTO SCHEMA.a VALUES (99, 99)")
    source.until(lambda: source.rebuilt("a") == source.table("a"))
    counts = read_again(source)
    assert {counts.get(key, 0) for key in range(3000, 5001)} == {1}
    assert set(counts.values()) == {1}
    assert sum(1 for one in source.records if one.topic.endswith(".signals")) == 1


def early_change(drawn: random.Random) -> str:
    """Return a change of rows below 3,000."""
    key = drawn.randrange(1, 2900)
    return drawn.choice(
        [
            f"UPDATE SCHEMA.b SET n = n + 1 WHERE id BETWEEN {key} AND {key + 20}",
            f"DELETE FROM SCHEMA.b WHERE id BETWEEN {key} AND {key + 5}",
            f"INSERT INTO SCHEMA.b VALUES ({key}, 0, 'new') ON CONFLICT (id) DO UPDATE SET t = 'newer'",
            f"BEGIN; UPDATE SCHEMA.a SET n = n + 1; UPDATE SCHEMA.b SET n = 0 WHERE id = {key}; COMMIT",
        ]
    )


def test_signal_during_a_plan_for_the_same_table_is_followed_by_another(signalled: Source) -> None:
    source = signalled
    signal(source, "one")
    source.until(lambda: source.progress.plan is not None)
    signal(source, "two")
    source.until(lambda: bool(source.progress.again))
    source.until(lambda: is_done(source))
    assert set(read_again(source).values()) == {2}


def test_signal_reads_a_table_of_a_source_without_a_snapshot(server: Postgres) -> None:
    source = with_tables(server)
    source.sql("CREATE TABLE SCHEMA.signals (id text PRIMARY KEY, type text, data text)")
    source.config |= {"snapshot.mode": "no_data", "signal.data.collection": f"postgres.{source.name}.signals"}
    source.begin()
    source.until(lambda: getattr(source.stage, "_session", None) is not None)
    source.sql("INSERT INTO SCHEMA.signals VALUES ('wrong', 'execute-snapshot', 'no JSON')")
    source.sql("CREATE TABLE SCHEMA.c (id int PRIMARY KEY); ALTER PUBLICATION SCHEMA ADD TABLE SCHEMA.c")
    source.sql("INSERT INTO SCHEMA.c VALUES (1)")
    source.until(lambda: source.rebuilt("c") == source.table("c"))
    signal(source, "one")
    source.until(lambda: bool(source.progress.again))
    source.crash()
    source.begin()
    source.until(lambda: is_done(source))
    assert source.rebuilt("b") == source.table("b")
    assert not any(one.topic.endswith(".a") for one in source.records)
    source.end()


def test_rows_are_not_read_again_before_older_changes_are_written(
    signalled: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = signalled
    source.crash()
    signal(source, "one")
    for number in range(300):
        source.sql(f"UPDATE SCHEMA.b SET n = n + 1 WHERE id = {number}")
    monkeypatch.setattr(streaming, "_MOST_MESSAGES", 1)
    source.begin()
    source.until(lambda: source.stage._session is not None and source.stage._session.joining.is_planning)
    maker = source.stage._session.joining._maker
    eventually(lambda: not maker.is_running, within_s=60)  # the plan is there before the stream has come to its place
    source.until(lambda: source.progress.plan is not None)
    source.until(lambda: is_done(source))
    assert set(read_again(source).values()) == {1}


def keep_plan(source: Source, is_due: Callable[[], bool]) -> None:
    """Let the stream receive the place of its plan without a record: it is not committed, and the plan stays."""
    source.until(lambda: source.progress.plan is not None)
    source.sql("CREATE TABLE SCHEMA.other (id int); ALTER PUBLICATION SCHEMA ADD TABLE SCHEMA.other")
    source.sql("INSERT INTO SCHEMA.other VALUES (1)")
    session, plan = source.stage._session, source.progress.plan
    assert plan is not None
    source.until(lambda: session.changes.position.lsn >= plan.lsn and is_due())
    for _ in range(30):
        source.step()
    assert source.progress.plan == plan


def test_plan_ends_only_once_its_place_in_the_log_is_committed(
    signalled: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_IDLE_MOVE_S", 3600.0)
    source = signalled
    source.crash()
    source.begin()
    signal(source, "one")
    keep_plan(source, lambda: True)
    assert not source.progress.parts
    source.sql("UPDATE SCHEMA.a SET n = 7")
    source.until(lambda: is_done(source))
    assert set(read_again(source).values()) == {1}


GRANTS = ["USAGE ON schema SCHEMA", "SELECT ON SCHEMA.b", "USAGE ON schema SCHEMA, SELECT ON SCHEMA.b"]


@pytest.mark.parametrize("granted", GRANTS)
def test_signal_for_a_table_that_may_not_be_read_stops_nothing(signalled: Source, granted: str) -> None:
    """With both, the right to read the table is taken away once there is a plan."""
    source = signalled
    role = f"{source.name}_reader"
    source.sql(f"CREATE ROLE {role} LOGIN REPLICATION")
    for each in granted.split(", "):
        source.sql(f"GRANT {each} TO {role}")
    source.crash()
    source.config |= {"database.user": role, "publication.autocreate.mode": "disabled"}
    source.begin()
    source.sql("INSERT INTO SCHEMA.signals VALUES ('deep', 'execute-snapshot', repeat('[', 9999))")
    signal(source, "unreadable")
    if granted == GRANTS[-1]:
        source.until(lambda: source.progress.plan is not None)
        source.sql(f"REVOKE SELECT ON SCHEMA.b FROM {role}")
    source.sql("UPDATE SCHEMA.a SET n = 7")
    source.until(lambda: source.rebuilt("a") == source.table("a") and is_done(source))
    assert not any(is_read_again(record) for record in source.records)


def test_signal_does_not_wait_for_a_heartbeat(signalled: Source) -> None:
    source = signalled
    source.crash()
    source.config["heartbeat.interval.ms"] = "3600000"
    source.begin()
    signal(source, "one")
    source.until(lambda: bool(source.progress.again) or source.progress.plan is not None)
    source.until(lambda: is_done(source))
    assert set(read_again(source).values()) == {1}


def test_plan_of_a_joining_table_ends_only_once_its_place_is_committed(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_IDLE_MOVE_S", 3600.0)
    source.crash()
    source.sql("ALTER PUBLICATION SCHEMA ADD TABLE SCHEMA.b; UPDATE SCHEMA.b SET n = n + 1 WHERE id < 9")
    widen(source)
    source.begin()
    keep_plan(source, lambda: source.stage._session.joining._chunks.is_over)
    source.crash()
    source.begin()
    source.sql("UPDATE SCHEMA.a SET n = 7; UPDATE SCHEMA.b SET n = 7 WHERE id = 1")
    source.until(lambda: is_whole(source))


REWRITES = ["TRUNCATE SCHEMA.b", "VACUUM FULL SCHEMA.b", "ALTER TABLE SCHEMA.b ADD u uuid DEFAULT gen_random_uuid()"]


@pytest.mark.parametrize("statement", REWRITES)
def test_table_that_is_rewritten_while_it_joins_is_read_again(source: Source, statement: str) -> None:
    source.crash()
    widen(source)
    source.begin()
    source.until(lambda: any(source.progress.parts))
    source.sql(statement)
    source.sql("DELETE FROM SCHEMA.b WHERE id = 1; INSERT INTO SCHEMA.b VALUES (7001, 1)")
    source.until(lambda: oid(source) in source.progress.tables and is_done(source))
    again = {}
    for record in source.records:
        if record.topic.endswith(".b") and record.value is not None:
            if is_read_again(record):
                again[record.key["id"]] = record.value["after"]
            else:
                assert record.key["id"] not in again
    assert again == source.table("b")


def test_table_that_leaves_its_publication_while_it_joins_is_read_later(source: Source) -> None:
    source.crash()
    widen(source)
    source.begin()
    source.until(lambda: any(source.progress.parts))
    source.sql("ALTER PUBLICATION SCHEMA DROP TABLE SCHEMA.b")
    source.until(lambda: source.progress.plan is None and bool(source.progress.again))
    joining_ = source.stage._session.joining
    source.until(lambda: not joining_._tables.missing and source.progress.plan is None)
    for _ in range(30):  # no plan is made for it again and again
        source.step()
        assert not joining_.is_planning
    source.crash()
    source.begin()  # which publishes it again
    source.until(lambda: is_done(source))
    again = [one.key["id"] for one in source.records if is_read_again(one)]
    assert sorted(again) == sorted(source.table("b"))
