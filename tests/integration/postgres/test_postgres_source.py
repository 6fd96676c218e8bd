"""The Postgres source, step by step on a real server, without Kafka: its phases, restarts, and what it refuses."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.api import FatalError
from fencepost.builtin.postgres.source import slot_watch, streaming
from fencepost.builtin.postgres.source.connector import PostgresSource
from fencepost.builtin.postgres.source.progress import Phase
from fencepost.builtin.postgres.source.slot_watch import SlotWatch
from fencepost.builtin.postgres.source.writer import EARLIER
from fencepost.testing import eventually
from fencepost.testing.source_run import SourceRun
from support.postgres import Postgres, running_postgres
from support.postgres_source import Source

psycopg = pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with TemporaryDirectory() as directory, running_postgres(Path(directory)) as found:
        yield found


@pytest.fixture
def source(server: Postgres) -> Iterator[Source]:
    found = Source(server)
    found.sql("CREATE TABLE SCHEMA.a (id int PRIMARY KEY, n int, t text)")
    found.sql("INSERT INTO SCHEMA.a SELECT i, i, repeat('x', 500) FROM generate_series(1, 2000) i")
    yield found
    found.end()


def has_caught_up(source: Source, table: str = "a") -> bool:
    return source.progress.phase is Phase.STREAM and source.rebuilt(table) == source.table(table)


def test_snapshot_is_followed_by_the_stream_with_nothing_missing_or_twice(source: Source) -> None:
    source.begin()
    source.until(lambda: source.progress.phase is Phase.CHUNKS)
    source.sql("UPDATE SCHEMA.a SET n = n + 1 WHERE id % 2 = 0; DELETE FROM SCHEMA.a WHERE id % 7 = 0")
    source.sql("INSERT INTO SCHEMA.a SELECT i, i, 'new' FROM generate_series(3000, 3100) i")
    source.until(lambda: has_caught_up(source))
    reads = [record for record in source.records if record.value is not None and record.value["op"] == "r"]
    assert len(reads) == 2000
    source.crash()
    source.sql("UPDATE SCHEMA.a SET id = id + 10000 WHERE id < 10")
    source.begin()
    source.until(lambda: has_caught_up(source))
    assert not source.progress.leftovers


def test_each_step_asks_for_its_commit_if_there_are_no_transactions(source: Source) -> None:
    """The next step waits for it, and by default offsets are committed once a minute."""
    run = SourceRun(PostgresSource, store=source.store, task_config=source.config | {"name": source.name})

    def streams() -> bool:
        run.poll()
        if run.control.is_commit_asked:
            run.control.is_commit_asked = False
            run.commit()
        return source.progress.position is not None and not source.progress.leftovers

    eventually(streams, within_s=120)
    run.task.stop()
    run.crash()


def test_transaction_of_the_database_is_one_of_kafka_and_is_whole(source: Source) -> None:
    source.sql("CREATE TABLE SCHEMA.b (id int PRIMARY KEY, n int)")
    source.begin()
    source.until(lambda: source.progress.position is not None)
    for number in range(50):
        source.sql(
            f"BEGIN; INSERT INTO SCHEMA.b VALUES ({number}, 1); SAVEPOINT s; "
            f"INSERT INTO SCHEMA.b VALUES ({number + 1000}, 1); ROLLBACK TO s; "
            f"UPDATE SCHEMA.a SET n = -{number} WHERE id = 1; COMMIT"
        )
    source.sql("INSERT INTO SCHEMA.b SELECT i, 2 FROM generate_series(10000, 29999) i")
    source.until(lambda: has_caught_up(source, "b") and has_caught_up(source))
    whole: dict[int, set[int]] = {}
    for number, records in enumerate(source.transactions):
        for record in records:
            whole.setdefault(record.value["source"]["txId"], set()).add(number)
    assert {len(numbers) for xid, numbers in whole.items() if xid is not None} == {1}


def test_snapshot_goes_on_without_its_holder_and_without_ghosts(source: Source) -> None:
    source.begin()
    source.until(lambda: source.progress.phase is Phase.CHUNKS)
    source.crash()
    source.sql("DELETE FROM SCHEMA.a WHERE id % 5 = 0; UPDATE SCHEMA.a SET n = 0 WHERE id % 3 = 0")
    source.sql("INSERT INTO SCHEMA.a VALUES (5, 5, 'again'), (9999, 1, 'new')")
    source.begin()
    source.until(lambda: source.progress.phase is Phase.STREAM)
    reads = [record.key["id"] for record in source.records]
    assert sorted(reads) == [number for number in range(1, 2001) if number % 5 and number % 3]


def test_server_without_logical_changes_is_refused_until_it_has_them() -> None:
    settings = {"fsync": "off", "wal_level": "replica"}
    with TemporaryDirectory() as directory, running_postgres(Path(directory), settings=settings) as server:
        source = Source(server)
        source.sql("CREATE TABLE SCHEMA.a (id int PRIMARY KEY, n int, t text)")
        source.sql("INSERT INTO SCHEMA.a VALUES (1, 1, 'x')")
        source.begin()
        with pytest.raises(FatalError, match=r"wal_level=replica, .* set wal_level=logical in its configuration"):
            source.until(lambda: False)
        source.crash()
        assert (source.records, source.sql("SELECT count(*) FROM pg_replication_slots")) == ([], 0)
        settings["wal_level"] = "logical"
        server.stop()
        server.start()
        source.move_to(server)
        source.begin()
        source.until(lambda: has_caught_up(source))
        source.end()


def test_slot_of_another_owner_is_refused_and_left(source: Source) -> None:
    source.sql(f"SELECT pg_create_logical_replication_slot('{source.name}', 'pgoutput')")
    source.begin()
    with pytest.raises(FatalError, match=f"slot {source.name} exists"):
        source.until(lambda: False)
    assert source.sql(f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{source.name}'") == 1
    assert source.store.pairs() == []


def test_slot_that_was_made_before_a_crash_is_made_again(source: Source) -> None:
    source.begin()
    source.until(lambda: source.progress.phase is Phase.SLOT)
    source.step(commits=False)
    source.crash()
    assert source.progress.plan is None
    source.begin()
    source.until(lambda: has_caught_up(source))


def test_slot_of_a_successor_is_not_dropped_by_a_process_that_was_paused(source: Source) -> None:
    source.begin()
    source.until(lambda: source.progress.phase is Phase.SLOT)
    source.step(commits=False)
    source.crash()  # leaves a slot
    source.begin()
    source.until(lambda: source.stage._step == source.stage._plan)
    paused = source._run
    source.begin()
    source.until(lambda: source.progress.phase is Phase.CHUNKS)
    source.crash()
    query = (
        f"SELECT restart_lsn::text || confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{source.name}'"
    )
    before = source.sql(query)
    assert paused is not None
    assert paused.poll() == []
    paused.task.stop()
    assert before is not None
    assert source.sql(query) == before
    source.begin()
    source.until(lambda: has_caught_up(source))


def test_connection_that_is_lost_before_the_confirmation_is_made_again(source: Source) -> None:
    source.begin()
    source.until(lambda: source.progress.position is not None and source.stage._session is not None)
    active = f"FROM pg_replication_slots WHERE slot_name = '{source.name}' AND active"
    stream = source.stage._session.stream
    confirm = stream.confirm

    def lost(lsn: int) -> None:
        source.sql(f"SELECT pg_terminate_backend(active_pid) {active}")
        with pytest.raises(psycopg.Error):  # as in a turn that gets the last records, and the end after them
            list(iter(lambda: stream.read(60, 10_000), None))  # the server may have sent other messages before
        confirm(lsn)

    stream.confirm = lost
    source.sql("UPDATE SCHEMA.a SET n = n + 1 WHERE id = 1")
    source.until(lambda: has_caught_up(source))
    source.sql("UPDATE SCHEMA.a SET n = n + 1 WHERE id = 1")
    source.until(lambda: has_caught_up(source))
    assert [record.key["id"] for record in source.records].count(1) == 3


def test_stream_is_read_by_the_first_task_only(source: Source) -> None:
    source.begin()
    source.until(lambda: source.progress.phase is Phase.STREAM)
    source.crash()
    source.begin(snapshot__part="1", snapshot__parts="2")
    for _ in range(3):
        source.step()
    assert not source.sql(f"SELECT active FROM pg_replication_slots WHERE slot_name = '{source.name}'")
    source.crash()
    source.begin(snapshot__part="0", snapshot__parts="2")
    source.until(lambda: has_caught_up(source))


def test_transaction_that_was_returned_in_parts_is_committed_at_its_end(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_MOST_MESSAGES", 1)
    monkeypatch.setattr(streaming, "_PART", 1)
    source.config["heartbeat.interval.ms"] = "3600000"
    source.begin()
    source.until(lambda: source.progress.position is not None)
    source.sql("UPDATE SCHEMA.a SET n = n + 1 WHERE id < 4")
    source.until(lambda: has_caught_up(source))
    assert len(source.transactions[-1]) == 3


@pytest.fixture
def small_parts(source: Source, monkeypatch: pytest.MonkeyPatch) -> Source:
    """Return a source whose Kafka transactions take two changes of a large transaction each."""
    monkeypatch.setattr(streaming, "_MOST_MESSAGES", 1)
    monkeypatch.setattr(streaming, "_PART", 1)
    source.timeout_s = 0.0
    source.config["heartbeat.interval.ms"] = "3600000"
    return source


def test_transaction_that_lasts_too_long_is_refused_and_stays_invisible(small_parts: Source) -> None:
    source = small_parts
    source.begin()
    source.until(lambda: source.progress.position is not None)
    position = source.progress.position
    source.sql("UPDATE SCHEMA.a SET n = n + 1 WHERE id < 4")
    with pytest.raises(FatalError, match=r"set transaction\.too\.large=split"):
        source.until(lambda: False)
    assert len(source.records) == 2000
    assert source.progress.position == position
    source.crash()
    source.config["transaction.too.large"] = "split"
    source.begin()
    source.until(lambda: has_caught_up(source))
    assert len(source.records) == 2003


def test_large_transaction_goes_on_after_the_part_that_was_committed(small_parts: Source) -> None:
    source = small_parts
    source.config |= {"transaction.too.large": "split", "provide.transaction.metadata": "true"}
    source.begin()
    source.until(lambda: source.progress.position is not None)
    source.sql("BEGIN; UPDATE SCHEMA.a SET n = n + 1 WHERE id <= 7; DELETE FROM SCHEMA.a WHERE id = 1; COMMIT")
    source.sql("INSERT INTO SCHEMA.a VALUES (5001, 1)")
    confirmed = (
        f"SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE slot_name = '{source.name}'"
    )
    before = int(source.sql(confirmed))
    for parts in range(1, 4):  # each process commits one part, and dies in the next
        count = len(source.transactions)
        source.until(lambda count=count: len(source.transactions) > count)  # type: ignore[misc]
        assert source.progress.position is not None
        assert source.progress.position.index == 2 * parts - 1
        assert int(source.sql(confirmed)) == before
        source.step(commits=False)
        source.crash()
        source.begin()
    source.until(lambda: source.progress.position.index == 0 and has_caught_up(source))  # type: ignore[union-attr]
    source.until(lambda: source.transactions[-1][-1].topic == f"{source.name}.transaction")
    changes = [one for one in source.records[2000:] if one.value is not None and "op" in one.value]
    assert [one.value["transaction"]["total_order"] for one in changes] == [*range(1, 9), 1]
    earlier = [next((h.value for h in one.headers if h.key == EARLIER), 0) for one in changes]
    assert earlier == [0, 1, 1, 3, 3, 5, 5, 7, 0]
    marks = [one.value for one in source.records if one.topic == f"{source.name}.transaction"]
    assert [(one["status"], one["event_count"]) for one in marks][-4:] == [
        ("BEGIN", None), ("END", 8), ("BEGIN", None), ("END", 1)
    ]  # fmt: skip


def test_offset_of_a_chunk_waits_for_the_records_of_the_chunk(source: Source) -> None:
    source.begin()
    source.until(lambda: source.progress.phase is Phase.STREAM)
    partition = {"server": source.name, "snapshot": "part", "part": 0, "of": 1}
    assert [record.source_partition for record in source.records] == [partition] * 2000


def test_slot_moves_while_captured_tables_are_idle(source: Source) -> None:
    source.begin()
    source.until(lambda: source.progress.position is not None)
    source.sql("CREATE TABLE IF NOT EXISTS public.foreign_rows (n int)")
    source.sql("INSERT INTO public.foreign_rows SELECT generate_series(1, 50000)")
    end = int(source.sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"))
    query = f"SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE slot_name = '{source.name}'"
    source.until(lambda: int(source.sql(query)) >= end)
    assert source.progress.position is not None
    assert source.progress.position.lsn >= end


def test_snapshot_without_a_stream_ends_and_leaves_no_slot(source: Source) -> None:
    source.config["snapshot.mode"] = "initial_only"
    source.begin()
    source.until(lambda: source.progress.phase is Phase.STREAM)
    for _ in range(3):
        source.step()
    slots = f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{source.name}'"
    eventually(lambda: source.sql(slots) == 0, within_s=60)
    assert sorted(record.key["id"] for record in source.records) == list(range(1, 2001))
    assert source.progress.position is None


def test_snapshot_without_a_stream_is_refused_once_its_holder_is_gone(source: Source) -> None:
    source.config["snapshot.mode"] = "initial_only"
    source.begin()
    source.until(lambda: source.progress.phase is Phase.CHUNKS)
    source.sql("UPDATE SCHEMA.a SET n = n + 1 WHERE id < 4")
    source.crash()
    source.begin()
    with pytest.raises(FatalError, match=r"rows that were changed since would be missing.*DELETE /connectors"):
        source.until(lambda: source.progress.phase is Phase.STREAM)


@pytest.mark.parametrize("mode", ["initial", "when_needed"])
def test_rows_are_read_again_if_the_slot_is_lost_and_that_is_wanted(source: Source, mode: str) -> None:
    source.config["snapshot.mode"] = mode
    source.begin()
    source.until(lambda: source.progress.position is not None)
    source.crash()
    drop = f"SELECT pg_drop_replication_slot('{source.name}')"
    eventually(lambda: source.sql(drop) is not None, within_s=60)
    source.sql("UPDATE SCHEMA.a SET n = -1")
    source.begin()
    if mode == "initial":
        with pytest.raises(FatalError, match="take a new snapshot"):
            source.until(lambda: False)
        return
    source.until(lambda: source.progress.phase is Phase.CHUNKS)
    source.until(lambda: source.progress.position is not None)
    again = source.records[2000:]
    assert {record.value["op"] for record in again} == {"r"}
    assert {record.key["id"]: record.value["after"] for record in again} == source.table("a")
    source.sql("INSERT INTO SCHEMA.a VALUES (2001, 1)")
    source.until(lambda: len(source.records) == 4001)


def test_lag_of_the_slot_grows_while_it_is_blocked_and_falls_again(source: Source) -> None:
    source.begin()
    source.until(lambda: source.progress.position is not None)
    remarks: list[str | None] = []
    watch = SlotWatch(PostgresSource({**source.config, "name": source.name}), remarks.append)

    def figures() -> dict[str, float]:
        watch.look()
        return {str(name): float(value) for name, _, value in watch.figures}

    source.until(lambda: figures()["slot-lag-bytes"] == figures()["slot-lag-seconds"] == 0)  # idle
    source.sql("CREATE TABLE IF NOT EXISTS public.foreign_rows (n int)")
    source.sql("INSERT INTO public.foreign_rows SELECT generate_series(1, 50000)")
    blocked = figures()
    assert blocked["slot-lag-bytes"] > 50_000 * 30
    assert blocked["slot-retained-bytes"] >= blocked["slot-lag-bytes"]
    eventually(lambda: figures()["slot-lag-seconds"] > 0.2, within_s=60)
    source.until(lambda: figures()["slot-lag-bytes"] < 50_000)
    source.until(lambda: figures()["slot-lag-seconds"] == 0)
    assert figures()["slot-xmin-age"] >= 0
    assert "snapshot-xmin-age" not in figures()
    assert remarks == []
    watch._close()


def test_connector_measures_its_slot_while_it_runs(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    source.begin()
    source.until(lambda: source.progress.position is not None)
    monkeypatch.setattr(slot_watch, "_LOOK_S", 0.1)
    connector = PostgresSource({**source.config, "name": source.name})
    context: Any = SimpleNamespace(offsets=source.store.pairs, remark=lambda text: None)
    connector.context = context
    assert connector.figures() == ()
    connector.start()
    rows: Any = eventually(connector.figures, within_s=60)
    assert {(name, tags) for name, tags, _ in rows} >= {("slot-lag-bytes", f"slot={source.name}")}
    connector.stop()


def test_age_of_a_snapshot_that_is_kept_is_measured(source: Source) -> None:
    source.begin()
    source.until(lambda: source.progress.phase is Phase.CHUNKS)
    for _ in range(10):
        source.sql("INSERT INTO SCHEMA.a SELECT max(id) + 1 FROM SCHEMA.a")
    watch = SlotWatch(PostgresSource({**source.config, "name": source.name}), lambda text: None)
    watch.look()
    assert next(value for name, _, value in watch.figures if name == "snapshot-xmin-age") >= 10
    watch._close()


def test_position_older_than_the_slots_is_refused(source: Source) -> None:
    source.begin()
    source.until(lambda: source.progress.position is not None)
    before = source.store.copy()
    source.sql("UPDATE SCHEMA.a SET n = n + 1")
    source.until(lambda: has_caught_up(source))
    query = f"SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE slot_name = '{source.name}'"
    source.until(lambda: int(source.sql(query)) == source.progress.position.lsn)  # a crash may lose the confirmation
    source.crash()
    source.store = before
    source.begin()
    with pytest.raises(FatalError, match="beyond the committed position"):
        source.until(lambda: False)
