"""Slots of a real server: how they are made, and why one cannot be used."""

import contextlib
import tempfile
import threading
from pathlib import Path

import psycopg
import pytest
from slot_stage import WITHIN_S, Stage, of_kind, read_until, settings

from fencepost.postgres import ConnectionLostError, connect, create_slot, is_retriable
from fencepost.postgres.catalog import tables
from fencepost.postgres.pgoutput import Commit, Insert
from fencepost.postgres.replication import ReplicationStream
from fencepost.postgres.slots import (
    SlotError,
    SlotInUseError,
    SlotLostError,
    SlotMissingError,
    drop_slot,
    ensure_usable,
    server_identity,
    slot_state,
)
from fencepost.testing import eventually
from support.postgres import Postgres, running_postgres, running_standby


def test_exported_snapshot_shows_commits_before_the_slot(stage: Stage) -> None:
    stage.sql("CREATE TABLE a (id int PRIMARY KEY)", f"CREATE PUBLICATION {stage.name} FOR TABLE a")
    stage.sql("INSERT INTO a VALUES (1)")
    holder = stage.connect(replication=True)
    made = create_slot(holder, stage.name, export_snapshot=True)
    stage.drop_slot_at_end()
    stage.sql("INSERT INTO a VALUES (2)")
    reader = stage.connect()
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    reader.execute(f"SET TRANSACTION SNAPSHOT '{made.snapshot}'".encode())

    assert reader.execute("SELECT id FROM a").fetchall() == [(1,)]
    holder.close()
    stream = stage.stream(made.consistent_lsn)
    assert [each.new for each in of_kind(read_until(stream, Commit), Insert)] == [["2"]]


def test_identity_names_the_server_and_its_version(stage: Stage) -> None:
    identity = server_identity(stage.connect(replication=True))

    assert identity.system_identifier == str(stage.sql("SELECT system_identifier FROM pg_control_system()")[0][0])
    assert identity.timeline == 1
    assert identity.version == int(stage.sql("SHOW server_version_num")[0][0])


def test_slot_that_another_process_reads_is_in_use(stage: Stage) -> None:
    stage.slot()
    ensure_usable(stage.connection, stage.name)
    stage.stream()

    with pytest.raises(SlotInUseError, match=r"fencepost of postgres .* SELECT pg_terminate_backend\(\d+\)") as error:
        ensure_usable(stage.connection, stage.name)
    assert is_retriable(error.value)
    with pytest.raises(psycopg.errors.ObjectInUse) as other:
        ReplicationStream(stage.connect(replication=True), stage.name, stage.name, 0)
    assert is_retriable(other.value)


def test_missing_and_foreign_slots_are_refused_with_the_next_step(stage: Stage) -> None:
    with pytest.raises(SlotMissingError, match="take a new snapshot"):
        ensure_usable(stage.connection, stage.name)
    stage.sql(f"SELECT pg_create_physical_replication_slot('{stage.name}')")

    with pytest.raises(SlotError, match="pg_drop_replication_slot"):
        ensure_usable(stage.connection, stage.name)
    drop_slot(stage.connection, stage.name)
    drop_slot(stage.connection, stage.name)
    assert slot_state(stage.connection, stage.name) is None


def test_name_that_is_none_of_a_slot_is_refused(stage: Stage) -> None:
    with pytest.raises(SlotError, match="lower-case letters"):
        create_slot(stage.connect(replication=True), "Shop-1")


def test_slot_creation_that_waits_names_how_to_find_open_transactions(stage: Stage) -> None:
    stage.sql("CREATE TABLE a (id int)", "BEGIN", "INSERT INTO a VALUES (1)")

    with pytest.raises(ConnectionLostError, match="pg_stat_activity"):
        create_slot(stage.connect(replication=True), stage.name, timeout_s=2)
    eventually(lambda: slot_state(stage.connection, stage.name) is None, within_s=WITHIN_S)
    stage.sql("COMMIT")


def test_slot_that_lost_its_log_is_refused_with_the_reason(stage: Stage) -> None:
    stage.slot()
    stage.sql("CREATE TABLE a (v text)")
    stage.server.sql("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    stage.server.sql("SELECT pg_reload_conf()")
    try:

        def is_lost() -> bool:
            stage.sql("INSERT INTO a SELECT repeat('x', 1000) FROM generate_series(1, 5000)")
            stage.sql("SELECT pg_switch_wal()", "CHECKPOINT")
            state = slot_state(stage.connection, stage.name)
            return state is not None and state.is_lost

        eventually(is_lost, within_s=WITHIN_S)
    finally:
        stage.server.sql("ALTER SYSTEM RESET max_slot_wal_keep_size")
        stage.server.sql("SELECT pg_reload_conf()")

    with pytest.raises(SlotLostError, match=r"wal_removed.*new snapshot: SELECT pg_drop_replication_slot") as error:
        ensure_usable(stage.connection, stage.name)
    assert not is_retriable(error.value)


def test_failover_slot_is_made_or_refused_by_version(stage: Stage) -> None:
    connection = stage.connect(replication=True)
    if connection.info.server_version < 170_000:
        with pytest.raises(SlotError, match="need Postgres 17"):
            create_slot(connection, stage.name, failover=True)
        return
    create_slot(connection, stage.name, failover=True)
    state = slot_state(stage.connection, stage.name)
    drop_slot(stage.connection, stage.name)
    assert state is not None
    assert state.failover


def test_standby_can_be_the_source() -> None:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as one,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as two,
        running_postgres(Path(one), 18) as primary,
    ):
        primary.sql("ALTER SYSTEM SET hot_standby_feedback = on")
        primary.sql("CREATE TABLE a (id int PRIMARY KEY)")
        primary.sql("CREATE PUBLICATION p FOR TABLE a")
        with running_standby(primary, Path(two)) as standby:
            _read_standby(primary, standby)


def _read_standby(primary: Postgres, standby: Postgres) -> None:
    connection = connect(settings(standby, "postgres"))
    stream_connection = connect(settings(standby, "postgres"), replication=True)
    made = threading.Thread(target=create_slot, args=(stream_connection, "s"))
    made.start()
    eventually(lambda: primary.sql("SELECT pg_log_standby_snapshot()") and not made.is_alive(), within_s=WITHIN_S)
    assert [each.name for each in tables(connection)] == ["a"]
    state = slot_state(connection, "s")
    assert state is not None
    assert state.is_in_recovery
    assert state.lag_bytes is not None
    with contextlib.closing(ReplicationStream(stream_connection, "s", "p", 0)) as stream:
        primary.sql("INSERT INTO a VALUES (1)")
        assert of_kind(read_until(stream, Commit), Insert)
    connection.close()
