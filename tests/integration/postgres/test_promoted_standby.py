"""The Postgres source when its server is replaced by a standby: it goes on there, or says what was lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fencepost.api import FatalError
from fencepost.builtin.postgres.source import streaming as stream_stage
from fencepost.testing import eventually
from support.postgres import Postgres, running_postgres, running_successor
from support.postgres_source import Source

WITHIN_S = 240


@pytest.fixture(scope="module")
def primary() -> Iterator[Postgres]:
    with TemporaryDirectory(ignore_cleanup_errors=True) as directory, running_postgres(Path(directory), 18) as found:
        yield found


@contextmanager
def streaming(primary: Postgres, **config: str) -> Iterator[Source]:
    """Yield a source that has read its table and is stopped, without connections and with a slot on the primary."""
    source = Source(primary, **config)
    source.sql("CREATE TABLE SCHEMA.a (id int PRIMARY KEY, n int)")
    source.sql("INSERT INTO SCHEMA.a SELECT i, 0 FROM generate_series(1, 100) i")
    try:
        catch_up(source)
        yield source
    finally:
        source.move_to(primary)
        source.end()


@pytest.fixture
def standby(primary: Postgres) -> Iterator[Postgres]:
    with TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        with running_successor(primary, Path(directory)) as found:
            yield found


def catch_up(source: Source) -> None:
    source.begin()
    source.until(lambda: source.progress.position and source.rebuilt("a") == source.table("a"), within_s=WITHIN_S)
    source.crash()


def change(source: Source) -> None:
    source.sql("UPDATE SCHEMA.a SET n = n + 1; DELETE FROM SCHEMA.a WHERE id = (SELECT min(id) FROM SCHEMA.a)")


def await_copy(standby: Postgres, source: Source) -> None:
    """Stream until the standby has a copy of the slot that it keeps: that takes until the slot has moved."""
    ready = (
        "SELECT 1 FROM pg_replication_slots WHERE synced AND NOT temporary AND invalidation_reason IS NULL "
        f"AND slot_name = '{source.name}'"
    )

    def is_copied() -> bool:
        source.sql("UPDATE SCHEMA.a SET n = n + 1 WHERE id = 1; SELECT pg_log_standby_snapshot()")
        return bool(standby.sql(ready).strip())

    source.begin()
    source.until(is_copied, within_s=WITHIN_S)
    source.crash()
    catch_up(source)


def set_option(server: Postgres, name: str, value: str) -> None:
    server.sql(f"ALTER SYSTEM SET {name} = {value}")
    server.sql("SELECT pg_reload_conf()")


def await_log(standby: Postgres, primary: Postgres) -> None:
    """Return when the standby has all of the primary's log of now."""
    end = primary.sql("SELECT pg_current_wal_lsn()").strip()
    eventually(lambda: standby.sql(f"SELECT 1 WHERE pg_last_wal_replay_lsn() >= '{end}'").strip(), within_s=WITHIN_S)


def test_source_goes_on_where_its_slot_was_copied_to(
    primary: Postgres, standby: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    with streaming(primary, slot__failover="true") as source:
        await_copy(standby, source)
        set_option(standby, "sync_replication_slots", "off")
        change(source)
        catch_up(source)  # the copy is now behind
        await_log(standby, primary)
        source.move_to(standby)
        source.begin()
        source.until(lambda: "is a standby" in caplog.text, within_s=WITHIN_S)
        assert standby.sql("SELECT pg_promote()").strip() == "t"
        before = len(source.records)
        change(source)
        source.until(lambda: source.rebuilt("a") == source.table("a"), within_s=WITHIN_S)
        assert len(source.records) == before + 99 + 2  # a delete has a tombstone


def test_former_primary_is_not_believed_after_the_failover(primary: Postgres, standby: Postgres) -> None:
    with streaming(primary, slot__failover="true", snapshot__mode="when_needed") as source:
        await_copy(standby, source)
        await_log(standby, primary)
        source.move_to(standby)
        standby.sql("SELECT pg_promote()")
        change(source)
        catch_up(source)
        source.move_to(primary)
        for is_there in (True, False):
            if not is_there:
                source.sql(f"SELECT pg_drop_replication_slot('{source.name}')")
            source.begin()
            with pytest.raises(FatalError, match="timeline 1, and the committed position of timeline 2"):
                source.until(lambda: False)
            source.crash()


def test_changes_that_were_lost_with_the_primary_are_named(primary: Postgres, standby: Postgres) -> None:
    with streaming(primary, slot__failover="true") as source:
        await_copy(standby, source)
        set_option(standby, "primary_conninfo", "''")
        eventually(lambda: not standby.sql("SELECT 1 FROM pg_stat_wal_receiver").strip(), within_s=WITHIN_S)
        change(source)
        catch_up(source)
        source.move_to(standby)
        standby.sql("SELECT pg_promote()")
        change(source)
        source.begin()
        with pytest.raises(FatalError, match="does not have what was committed up to"):
            source.until(lambda: False)


def test_slot_that_was_not_copied_is_named_and_the_rows_can_be_read_again(primary: Postgres, standby: Postgres) -> None:
    with streaming(primary, snapshot__mode="when_needed") as source:
        await_log(standby, primary)
        source.move_to(standby)
        standby.sql("SELECT pg_promote()")
        source.config["snapshot.mode"] = "initial"
        source.begin()
        with pytest.raises(FatalError, match=r"slot\.failover"):
            source.until(lambda: False)
        source.crash()
        source.config["snapshot.mode"] = "when_needed"
        before = len(source.records)
        source.begin()
        source.until(lambda: len(source.records) == before + 100, within_s=WITHIN_S)
        assert {record.value["op"] for record in source.records[before:]} == {"r"}


def test_slot_is_marked_for_standbys_once_that_is_set(primary: Postgres) -> None:
    with streaming(primary) as source:
        source.config["slot.failover"] = "true"
        change(source)
        catch_up(source)
        assert (
            primary.sql(f"SELECT failover FROM pg_replication_slots WHERE slot_name = '{source.name}'").strip() == "t"
        )


def test_plan_that_the_successor_never_had_is_made_again(
    primary: Postgres, standby: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place is in what was lost: changes of the successor are before it, and are in no snapshot of it."""
    with streaming(primary, slot__failover="true", table__include__list=r".*\.a") as source:
        source.sql("CREATE TABLE SCHEMA.b (id int PRIMARY KEY, n int)")
        source.sql("INSERT INTO SCHEMA.b SELECT i, 0 FROM generate_series(1, 100) i")
        await_copy(standby, source)
        await_log(standby, primary)
        set_option(standby, "primary_conninfo", "''")
        gone = "SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_stat_wal_receiver)"
        eventually(lambda: standby.sql(gone).strip(), within_s=WITHIN_S)
        source.sql("CREATE TABLE SCHEMA.filler AS SELECT repeat('x', 1000) FROM generate_series(1, 5000)")
        monkeypatch.setattr(stream_stage, "_IDLE_MOVE_S", 3600.0)
        source.config["table.include.list"] = rf"{source.name}\.(a|b)"
        source.begin()
        source.until(lambda: source.progress.plan is not None, within_s=WITHIN_S)
        source.crash()
        monkeypatch.undo()
        standby.sql("SELECT pg_promote()")
        source.move_to(standby)
        source.sql("UPDATE SCHEMA.b SET n = 1 WHERE id <= 50; DELETE FROM SCHEMA.b WHERE id > 90")
        source.begin()
        source.until(lambda: not source.progress.again and source.progress.plan is None, within_s=WITHIN_S)
        source.sql("INSERT INTO SCHEMA.b VALUES (1000, 1); UPDATE SCHEMA.a SET n = 9 WHERE id = 50")
        source.until(lambda: rows(source, "b") == source.table("b"), within_s=WITHIN_S)
        assert source.rebuilt("a") == source.table("a")


def rows(source: Source, table: str) -> dict[int, object]:
    """Return the rows of a topic, of which some may have been read twice."""
    found = {
        one.key["id"]: one.value["after"] for one in source.records if one.topic.endswith(f".{table}") and one.value
    }
    return {key: row for key, row in found.items() if row is not None}
