"""Connections to a real server: refusals, restarts, TLS and time limits."""

import contextlib
import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from slot_stage import WITHIN_S, Stage, of_kind, read_until, settings

from fencepost.postgres import (
    ConnectionLostError,
    ConnectionSettings,
    ReplicationStream,
    connect,
    copy_rows,
    create_slot,
    deadline,
    explain,
    is_retriable,
)
from fencepost.postgres.pgoutput import Commit, Insert
from fencepost.testing import eventually
from support.authority import Authority
from support.postgres import Postgres, running_postgres

PASSWORD = "correct-horse"


@pytest.fixture
def locked(stage: Stage) -> Iterator[Stage]:
    """A server that wants a password of the user `locked`."""
    hba = Path(stage.sql("SHOW hba_file")[0][0])
    before = hba.read_text()
    stage.sql(f"CREATE ROLE {stage.name} LOGIN PASSWORD '{PASSWORD}'")
    hba.write_text(f"host all {stage.name} all scram-sha-256\n{before}")
    stage.sql("SELECT pg_reload_conf()")
    yield stage
    hba.write_text(before)
    stage.sql("SELECT pg_reload_conf()", f"DROP ROLE {stage.name}")


def test_wrong_password_is_not_retried_and_never_shown(locked: Stage) -> None:
    right = dataclasses.replace(locked.settings, user=locked.name, password=PASSWORD)
    wrong = dataclasses.replace(right, password="incorrect-horse")
    eventually(lambda: _refusal(wrong) is not None, within_s=WITHIN_S)
    connect(right).close()
    refusal = _refusal(wrong)

    assert refusal is not None
    assert "check the user and the password" in explain(refusal)
    assert not is_retriable(refusal)
    assert "horse" not in f"{explain(refusal)} {refusal!r} {right!r} {right}"


def test_missing_right_to_replicate_is_refused_with_the_cure(locked: Stage) -> None:
    right = dataclasses.replace(locked.settings, user=locked.name, password=PASSWORD)

    with pytest.raises(psycopg.OperationalError) as error:
        connect(right, replication=True)
    assert not is_retriable(error.value)
    assert "ALTER ROLE name REPLICATION" in explain(error.value)


def test_missing_database_is_not_retried(stage: Stage) -> None:
    refusal = _refusal(dataclasses.replace(stage.settings, database="missing"))

    assert refusal is not None
    assert not is_retriable(refusal)


def test_connection_that_is_ended_or_refused_is_worth_a_retry(stage: Stage) -> None:
    with contextlib.closing(connect(stage.settings)) as other:
        pid = other.info.backend_pid
        stage.sql(f"SELECT pg_terminate_backend({pid})")
        eventually(lambda: not stage.sql(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid}"), within_s=WITHIN_S)
        with pytest.raises(psycopg.OperationalError) as ended:
            other.execute("SELECT 1")
    refusal = _refusal(dataclasses.replace(stage.settings, port=1))

    assert is_retriable(ended.value)
    assert refusal is not None
    assert is_retriable(refusal)


def test_statement_of_a_server_that_hangs_ends_at_the_deadline(stage: Stage) -> None:
    begun = time.monotonic()
    with pytest.raises(ConnectionLostError, match="counting: the server did not answer within 1 s") as error:
        with deadline(stage.connection, 1, "counting"):
            stage.sql("SELECT pg_sleep(600)")
    assert time.monotonic() - begun < WITHIN_S
    assert is_retriable(error.value)
    stage.reconnect()
    with deadline(stage.connection, WITHIN_S, "counting"):
        assert stage.sql("SELECT 1") == [(1,)]
    with pytest.raises(psycopg.errors.SyntaxError), deadline(stage.connection, WITHIN_S, "counting"):
        stage.sql("SELEC")


def test_stream_works_with_tls_and_an_unknown_authority_is_refused(tmp_path: Path) -> None:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        running_postgres(Path(directory), 15) as server,
    ):
        known, other = Authority(), Authority("CN=other")
        _use_tls(server, known)
        own = dataclasses.replace(
            settings(server, "postgres"), sslmode="verify-full", sslrootcert=known.bundle(tmp_path / "known.pem")
        )
        refusal = _refusal(dataclasses.replace(own, sslrootcert=other.bundle(tmp_path / "other.pem")))
        connection, replication = connect(own), connect(own, replication=True)
        assert connection.pgconn.ssl_in_use
        connection.execute("CREATE TABLE a (id int PRIMARY KEY, v text)")
        connection.execute("CREATE PUBLICATION p FOR TABLE a")
        create_slot(replication, "s")
        with contextlib.closing(ReplicationStream(replication, "s", "p", 0)) as stream:
            connection.execute("INSERT INTO a SELECT n, repeat('x', n) FROM generate_series(1, 20000, 7) n")
            found = read_until(stream, Commit)
        copied = [row for batch in copy_rows(connection, "SELECT v FROM a ORDER BY id") for row in batch]
        connection.close()

    assert refusal is not None
    assert not is_retriable(refusal)
    expected = ["x" * n for n in range(1, 20001, 7)]
    assert [each.new[1] for each in of_kind(found, Insert)] == expected
    assert copied == [[each] for each in expected]


def _use_tls(server: Postgres, authority: Authority) -> None:
    """Give the server a certificate. Its key may be read by the server's user only."""
    data = Path(server.sql("SHOW data_directory").strip())
    pem = Path(authority.issue("CN=server", host="127.0.0.1").pem(data / "both.pem"))
    pem.chmod(0o600)
    owner = data.stat()
    os.chown(pem, owner.st_uid, owner.st_gid)
    for name, value in (("ssl_cert_file", "both.pem"), ("ssl_key_file", "both.pem"), ("ssl", "on")):
        server.sql(f"ALTER SYSTEM SET {name} = '{value}'")
    server.stop()
    server.start()


def _refusal(wanted: ConnectionSettings) -> Exception | None:
    try:
        connect(wanted).close()
    except psycopg.Error as error:
        return error
    return None
