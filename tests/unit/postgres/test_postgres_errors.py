"""Which errors of Postgres are worth a retry, and what their texts say."""

import psycopg
import pytest
from psycopg import errors

from fencepost.postgres.error import ConnectionLostError, PostgresError, ProtocolError, explain, is_retriable
from fencepost.postgres.slots import SlotInUseError, SlotLostError


@pytest.mark.parametrize(
    "error",
    [
        errors.AdminShutdown("x"),
        errors.CrashShutdown("x"),
        errors.CannotConnectNow("x"),
        errors.TooManyConnections("x"),
        errors.DiskFull("x"),
        errors.DeadlockDetected("x"),
        errors.SerializationFailure("x"),
        errors.QueryCanceled("x"),
        errors.ObjectInUse("x"),
        errors.ConnectionFailure("x"),
        errors.ReadOnlySqlTransaction("x"),
        psycopg.OperationalError("the connection is lost"),
        psycopg.OperationalError("connection failed: could not translate host name"),
        errors.ConnectionTimeout("connection timeout expired"),
        ConnectionLostError("x"),
        SlotInUseError("x"),
    ],
)
def test_error_that_may_pass_is_retriable(error: Exception) -> None:
    assert is_retriable(error)


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidPassword("x"),
        errors.InvalidCatalogName("x"),
        errors.InsufficientPrivilege("x"),
        errors.UndefinedTable("x"),
        errors.UndefinedObject("x"),
        errors.UniqueViolation("x"),
        errors.ObjectNotInPrerequisiteState("x"),
        psycopg.OperationalError('connection failed: FATAL:  password authentication failed for user "x"'),
        psycopg.OperationalError('connection failed: FATAL:  database "x" does not exist'),
        psycopg.OperationalError("connection failed: SSL error: certificate verify failed"),
        psycopg.OperationalError("connection failed: server does not support SSL, but SSL was required"),
        psycopg.ProgrammingError("invalid connection option"),
        SlotLostError("x"),
        ProtocolError("x"),
        PostgresError("x"),
        ValueError("x"),
    ],
)
def test_error_that_a_person_must_mend_is_not_retriable(error: Exception) -> None:
    assert not is_retriable(error)


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("logical decoding requires wal_level >= logical", "set `wal_level = logical`"),
        ("all replication slots are in use", "max_replication_slots"),
        ('replication slot "s" is active for PID 12', "pg_terminate_backend(12)"),
        ('replication slot "s" does not exist', "new snapshot"),
        ('can no longer get changes from replication slot "s"', "pg_drop_replication_slot"),
        ("must be superuser or replication role to start walsender", "ALTER ROLE name REPLICATION"),
        ('password authentication failed for user "x"', "check the user and the password"),
        ("sorry, too many clients already", "max_connections"),
    ],
)
def test_known_errors_have_a_next_step(text: str, step: str) -> None:
    explained = explain(psycopg.OperationalError(f"{text}\n"))

    assert explained.startswith(f"{text}: ")
    assert step in explained


def test_other_errors_are_one_line() -> None:
    assert explain(psycopg.OperationalError("a\n\tb")) == "a b"
    assert explain(SlotLostError("as it is")) == "as it is"
