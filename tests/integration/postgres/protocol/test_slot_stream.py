"""What a slot of a real server sends, and how a stream lives with a server that dies or hangs."""

import itertools
import select
import time
from types import SimpleNamespace

import psycopg
import pytest
from slot_stage import WITHIN_S, Stage, of_kind, read_until

from fencepost.postgres import (
    UNCHANGED,
    ConnectionLostError,
    KeepAlive,
    PostgresError,
    ReplicationStream,
    is_retriable,
    replication,
)
from fencepost.postgres.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Relation,
    StreamAbort,
    StreamCommit,
    StreamStart,
    Truncate,
    Type,
    Update,
)
from fencepost.postgres.slots import SlotState, slot_state
from fencepost.testing import eventually


def test_each_kind_of_change_arrives_with_its_values(stage: Stage) -> None:
    stage.sql(
        "CREATE TYPE mood AS ENUM ('sad', 'fine')",
        "CREATE TABLE a (id int PRIMARY KEY, name text, mood mood, at timestamptz)",
        "CREATE TABLE b (id int PRIMARY KEY REFERENCES a)",
    )
    stage.slot()
    stream = stage.stream()
    stage.sql(
        "INSERT INTO a VALUES (1, 'ä\t\\N', 'fine', '2026-01-02 03:04:05.678+02'), (2, NULL, NULL, 'infinity')",
        "UPDATE a SET name = 'x' WHERE id = 1",
        "UPDATE a SET id = 3 WHERE id = 2",
        "DELETE FROM a WHERE id = 3",
        "ALTER TABLE a ADD more int DEFAULT 7",
        "INSERT INTO a (id) VALUES (4)",
        "TRUNCATE a RESTART IDENTITY CASCADE",
        "SELECT pg_logical_emit_message(false, 'loose', 'now')",
        "SELECT pg_logical_emit_message(true, 'tight', 'later')",
    )
    found = read_until(stream, Message, 2)

    relations = [each for each in of_kind(found, Relation) if each.table == "a"]
    first, last = relations[0], relations[-1]  # an ANALYZE of the server's own makes it send the first one twice
    assert (first.schema, first.table, first.replica_identity) == ("public", "a", "d")
    assert [(each.name, each.is_key) for each in first.columns][:2] == [("id", True), ("name", False)]
    assert [each.name for each in last.columns] == ["id", "name", "mood", "at", "more"]
    assert of_kind(found, Type)[0].name == "mood"
    assert [each.new for each in of_kind(found, Insert)] == [
        ["1", "ä\t\\N", "fine", "2026-01-02 01:04:05.678+00"],
        ["2", None, None, "infinity"],
        ["4", None, None, None, "7"],
    ]
    renamed, moved = of_kind(found, Update)
    assert (renamed.old, renamed.new[1]) == (None, "x")
    assert (moved.old, moved.old_is_key, moved.new[0]) == (["2", None, None, None], True, "3")
    assert of_kind(found, Delete)[0].old[0] == "3"
    truncated = of_kind(found, Truncate)[0]
    assert (len(truncated.oids), truncated.cascade, truncated.restart) == (2, True, True)
    loose, tight = of_kind(found, Message)
    assert (loose.transactional, loose.prefix, loose.content) == (False, "loose", b"now")
    assert (tight.transactional, tight.prefix, tight.content) == (True, "tight", b"later")
    begins, commits = of_kind(found, Begin), of_kind(found, Commit)
    assert all(begin.final_lsn == commit.commit_lsn for begin, commit in zip(begins, commits, strict=False))
    assert abs(begins[0].commit_time_us / 1e6 - time.time()) < 3600


def test_toasted_value_that_did_not_change_is_marked(stage: Stage) -> None:
    stage.sql("CREATE TABLE a (id int PRIMARY KEY, n int, doc text)", "ALTER TABLE a ALTER doc SET STORAGE EXTERNAL")
    stage.slot()
    stream = stage.stream()
    stage.sql("INSERT INTO a VALUES (1, 1, repeat('x', 100000))", "UPDATE a SET n = 2")
    found = read_until(stream, Update)

    assert of_kind(found, Insert)[0].new == ["1", "1", "x" * 100_000]
    assert of_kind(found, Update)[0].new == ["1", "2", UNCHANGED]


@pytest.mark.parametrize(
    ("identity", "letter", "old", "is_key"),
    [
        ("FULL", "f", ["1", "k", "v"], False),
        ("USING INDEX unique_k", "i", [None, "k", None], True),
        ("DEFAULT", "d", ["1", None, None], True),
    ],
)
def test_old_row_has_the_columns_of_the_replica_identity(
    stage: Stage, identity: str, letter: str, old: list[str | None], is_key: bool
) -> None:
    stage.sql(
        "CREATE TABLE a (id int PRIMARY KEY, k text NOT NULL, v text)",
        "CREATE UNIQUE INDEX unique_k ON a (k)",
        f"ALTER TABLE a REPLICA IDENTITY {identity}",
    )
    stage.slot()
    stream = stage.stream()
    stage.sql("INSERT INTO a VALUES (1, 'k', 'v')", "DELETE FROM a")
    found = read_until(stream, Delete)

    assert of_kind(found, Relation)[0].replica_identity == letter
    assert of_kind(found, Delete)[0][1:] == (old, is_key)


def test_large_transaction_comes_in_blocks_before_it_commits(stage: Stage) -> None:
    stage.sql("CREATE TABLE a (id int PRIMARY KEY, v text)")
    stage.sql(f"ALTER DATABASE {stage.name} SET logical_decoding_work_mem = '64kB'")
    stage.slot()
    stream = stage.stream(streaming=True)
    rows = "SELECT n, repeat('x', 200) FROM generate_series({}, {}) n"
    stage.sql(
        "BEGIN",
        f"INSERT INTO a {rows.format(1, 2000)}",
        "SAVEPOINT s",
        f"INSERT INTO a {rows.format(2001, 4000)}",
        "ROLLBACK TO s",
        "INSERT INTO a VALUES (5000, 'last')",
    )
    stage.connect().execute("SELECT pg_logical_emit_message(true, 'flush', 'the log, up to here')")
    early = read_until(stream, StreamStart)
    stage.sql("COMMIT", "INSERT INTO a VALUES (5001, 'small')")
    left = 2 - len(of_kind(early, Commit))  # the message and the small row; that of the large one has a kind of its own
    found = early + read_until(stream, Commit, left)

    commit = of_kind(found, StreamCommit)[0]
    assert of_kind(found, StreamStart)[0] == StreamStart(commit.xid, True)
    assert all(each.xid == commit.xid and each.subxid != commit.xid for each in of_kind(found, StreamAbort))
    inserted = [each.new[0] for each in of_kind(found, Insert)]
    assert [each for each in inserted if int(each) <= 2000] == [str(n) for n in range(1, 2001)]
    assert inserted[-2:] == ["5000", "5001"]
    assert commit.end_lsn > commit.commit_lsn


def test_new_stream_continues_after_the_confirmed_position(stage: Stage) -> None:
    stage.sql("CREATE TABLE a (id int PRIMARY KEY)")
    stage.slot()
    stream = stage.stream()
    stage.sql("INSERT INTO a VALUES (1)", "INSERT INTO a VALUES (2)")
    commits = of_kind(read_until(stream, Commit, 2), Commit)
    stream.confirm(commits[0].end_lsn)
    stream.close()

    again = stage.stream()
    found = read_until(again, Commit)
    again.close()
    later = stage.stream(commits[1].end_lsn)
    stage.sql("INSERT INTO a VALUES (3)")

    assert [each.new for each in of_kind(found, Insert)] == [["2"]]
    assert [each.new for each in of_kind(read_until(later, Commit), Insert)] == [["3"]]


def test_confirmed_position_never_moves_backwards(stage: Stage) -> None:
    stage.sql("CREATE TABLE a (id int PRIMARY KEY)")
    begin = stage.slot()
    stream = stage.stream()
    stage.sql("INSERT INTO a VALUES (1)")
    end = of_kind(read_until(stream, Commit), Commit)[0].end_lsn
    stream.confirm(end)
    eventually(lambda: _confirmed(stage) == end, within_s=WITHIN_S)
    stream.confirm(begin)
    stream.close()
    again = stage.stream()
    again.confirm(begin)
    again.keep_alive()
    again.read(0.5, 100)

    assert (stream.confirmed_lsn, again.confirmed_lsn) == (end, end)
    again.close()
    eventually(lambda: not _state(stage).active, within_s=WITHIN_S)
    assert _confirmed(stage) == end


def test_keep_alives_move_the_slot_of_idle_tables(stage: Stage) -> None:
    stage.sql("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE other (v text)")
    stage.slot()
    stage.sql(f"DROP PUBLICATION {stage.name}", f"CREATE PUBLICATION {stage.name} FOR TABLE a")
    stream = stage.stream()
    stage.sql("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 2000)")
    end = stage.sql("SELECT (pg_current_wal_lsn() - '0/0')::bigint")[0][0]

    def is_past() -> bool:
        for item in stream.read(0.2, 100):
            assert isinstance(item, KeepAlive)
            stream.confirm(item.wal_end)
        return _confirmed(stage) >= end

    eventually(is_past, within_s=WITHIN_S)
    assert (_state(stage).lag_bytes or 0) < 1_000_000


def test_stream_of_a_killed_server_ends_and_a_new_one_continues(stage: Stage) -> None:
    stage.sql("CREATE TABLE a (id int PRIMARY KEY)")
    stage.slot()
    stream = stage.stream()
    stage.sql("INSERT INTO a VALUES (1)")
    end = of_kind(read_until(stream, Commit), Commit)[0].end_lsn
    stage.server.stop()
    stage.server.start()

    with pytest.raises((psycopg.OperationalError, ConnectionLostError)) as error:
        read_until(stream, Commit)
    assert is_retriable(error.value)
    stage.reconnect()
    stage.sql("INSERT INTO a VALUES (2)")
    assert [each.new for each in of_kind(read_until(stage.stream(end), Commit), Insert)] == [["2"]]


def test_server_that_hangs_does_not_block_and_is_taken_for_dead(stage: Stage) -> None:
    stage.slot()
    stream = stage.stream(dead_after_s=3.0)
    stage.server.pause()
    try:
        longest_s, error = _read_until_error(stream)
    finally:
        stage.server.resume()
    assert "silent" in str(error)
    assert is_retriable(error)
    assert longest_s < 60  # it waits for 0.2 s; the rest is what other work takes


def test_server_with_unread_messages_is_not_taken_for_dead(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.sql("CREATE TABLE a (id int PRIMARY KEY)")
    stage.slot()
    stream = stage.stream(dead_after_s=60.0)
    stage.sql("INSERT INTO a VALUES (1)")
    arrived = select.poll()
    arrived.register(stream._pgconn.socket, select.POLLIN)
    assert arrived.poll(WITHIN_S * 1000)
    ticks = itertools.count(time.monotonic(), 10)
    monkeypatch.setattr(replication, "time", SimpleNamespace(monotonic=lambda: next(ticks), time_ns=time.time_ns))
    for _ in range(100):
        stream.keep_alive()
    monkeypatch.undo()

    assert of_kind(read_until(stream, Commit), Insert)


def test_silent_reader_is_answered_before_the_server_gives_it_up(stage: Stage) -> None:
    stage.sql(f"ALTER DATABASE {stage.name} SET wal_sender_timeout = '2s'", "CREATE TABLE a (id int PRIMARY KEY)")
    stage.slot()
    stream = stage.stream()
    until = time.monotonic() + 5
    while time.monotonic() < until:
        stream.read(0.5, 100)
    stage.sql("INSERT INTO a VALUES (1)")

    assert of_kind(read_until(stream, Commit), Insert)


def test_missing_publication_is_an_error_after_earlier_changes(stage: Stage) -> None:
    stage.sql("CREATE TABLE a (id int PRIMARY KEY)")
    stage.slot()
    stage.sql("INSERT INTO a VALUES (1)", f"DROP PUBLICATION {stage.name}", "INSERT INTO a VALUES (2)")
    stream = stage.stream()
    found = read_until(stream, Commit)

    assert [each.new for each in of_kind(found, Insert)] == [["1"]]
    with pytest.raises((psycopg.Error, PostgresError), match=f'publication "{stage.name}"') as error:
        read_until(stream, Commit, 3)
    assert not is_retriable(error.value)


def _state(stage: Stage) -> SlotState:
    found = slot_state(stage.connection, stage.name)
    assert found is not None
    return found


def _confirmed(stage: Stage) -> int:
    return int(_state(stage).confirmed_flush_lsn or 0)


def _read_until_error(stream: ReplicationStream) -> tuple[float, Exception]:
    """Return the longest time that `read` took, and the error that it raised at last."""
    longest_s = 0.0
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        begun = time.monotonic()
        try:
            stream.read(0.2, 100)
        except ConnectionLostError as error:
            return longest_s, error
        finally:
            longest_s = max(longest_s, time.monotonic() - begun)
    raise AssertionError("the server is not taken for dead")
