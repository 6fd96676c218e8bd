"""PostgresSink on a real server: rows and offsets are one transaction, whoever dies, hangs or wakes up."""

import itertools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencepost.api import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    FatalError,
    FencedError,
    Repeated,
    RetriableError,
    Schema,
    SinkBatch,
    SinkRecord,
    StructColumn,
    TopicPartition,
    decimal,
)
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.json_encoding import EncodingOptions
from fencepost.builtin.converter.json_schema import schema_to_json
from fencepost.builtin.postgres.sink import text
from fencepost.builtin.postgres.sink.database import Database
from fencepost.builtin.postgres.sink.offsets import _COLUMNS
from fencepost.builtin.postgres.sink.target import _carry_out
from fencepost.builtin.postgres.sink.task import PostgresSink
from fencepost.testing import SinkRun, eventually
from support.postgres import Postgres, running_postgres
from support.postgres_sink import DELETING, KEY, ROW, UPSERT, Letters, SinkScene, record, sql
from support.small_disk import enlarge, small_disk

_numbers = itertools.count(1)


@pytest.fixture
def scene(sink_server: Postgres, request: pytest.FixtureRequest) -> SinkScene:
    return SinkScene(sink_server, f"{request.node.name.partition('[')[0][5:40]}_{next(_numbers)}")


def inserting(scene: SinkScene, count: int = 5) -> SinkScene:
    """Let a sink insert `count` records into a table without a key, in which a record that comes twice is seen."""
    scene.config = {"auto.create": "true"}
    for number in range(count):
        scene.add(number, f"row {number}")
    return scene


def numbers(scene: SinkScene) -> list[int]:
    return [number for (number,) in scene.rows("id")]


def after(run: SinkRun, step: str, then: Callable[[], None]) -> None:
    """Call `then` once, when the task's database has done a step of a transaction."""
    database: Database = run.task._database
    done = getattr(database, step)

    def wrapped(*arguments: Any) -> None:
        done(*arguments)
        setattr(database, step, done)
        then()

    setattr(database, step, wrapped)


def test_rows_and_offsets_are_committed_before_the_offsets_of_the_group(scene: SinkScene) -> None:
    run = inserting(scene).run()
    run.deliver(scene.log)
    assert sql(scene.server, f"SELECT to_regclass('\"{scene.name}\"')") == [(None,)]
    assert run.let_commit() == {scene.places[0]: 5}
    assert (numbers(scene), scene.offsets(), scene.committed) == ([0, 1, 2, 3, 4], {0: 5}, {})


@pytest.mark.parametrize("committed", [None, 0, 1, 5])
def test_task_begins_at_the_databases_offsets_not_at_the_groups(scene: SinkScene, committed: int | None) -> None:
    first = inserting(scene).run()
    first.deliver(scene.log, 3)
    first.let_commit()
    first.crash()
    scene.committed = {} if committed is None else {scene.places[0]: committed}
    second = scene.run(2)
    assert second.positions == {scene.places[0]: 3}
    second.deliver(scene.log)
    second.stop()
    assert numbers(scene) == [0, 1, 2, 3, 4]


def test_table_is_created_by_the_first_row_not_by_tombstones_before_it(scene: SinkScene) -> None:
    run = scene.run(**DELETING)
    scene.add(1, None)
    run.deliver(scene.log)
    run.commit()
    assert scene.offsets() == {0: 1}
    scene.add(2, "row")
    run.deliver(scene.log)
    run.stop()
    assert scene.rows() == [(2, "row")]


def test_records_that_come_again_are_skipped_and_holes_are_allowed(scene: SinkScene) -> None:
    run = inserting(scene).run()
    place = scene.places[0]
    run.deliver(scene.log, 3)
    run.commit()
    run.positions[place] = 1
    run.deliver(scene.log)
    run.commit()
    scene.log[place] += [record(place, offset, offset, "after a hole") for offset in (90, 95)]
    run.deliver(scene.log)
    run.commit()
    assert (numbers(scene), scene.offsets()) == ([0, 1, 2, 3, 4, 90, 95], {0: 96})


def test_task_that_was_replaced_writes_nothing_more(scene: SinkScene) -> None:
    zombie = inserting(scene).run()
    zombie.deliver(scene.log, 3)
    owner = scene.run(2)
    owner.deliver(scene.log)
    with pytest.raises(FencedError):
        zombie.let_commit()
    owner.commit()
    with pytest.raises(FencedError, match="newer task"):
        zombie.deliver(scene.log)
    assert (numbers(scene), scene.offsets()) == ([0, 1, 2, 3, 4], {0: 5})


@pytest.mark.parametrize("step", ["_begin", "_copy"])
def test_zombie_that_wakes_up_within_its_transaction_fails(scene: SinkScene, step: str) -> None:
    zombie = inserting(scene).run()
    zombie.deliver(scene.log, 3)
    zombie.commit()

    def replaced() -> None:
        owner = scene.run(2)
        owner.deliver(scene.log)
        owner.commit()

    after(zombie, step, replaced)
    zombie.deliver(scene.log)
    with pytest.raises(FencedError):
        zombie.let_commit()
    assert (numbers(scene), scene.offsets()) == ([0, 1, 2, 3, 4], {0: 5})


@pytest.mark.parametrize("is_upsert", [True, False])
def test_zombie_that_hangs_does_not_block_the_same_rows(scene: SinkScene, is_upsert: bool) -> None:
    scene.config = UPSERT if is_upsert else {**UPSERT, "insert.mode": "insert"}
    for number in range(4):
        scene.add(number, "first")
    zombie = scene.run()
    zombie.deliver(scene.log)

    def replaced() -> None:
        owner = scene.run(2)
        owner.deliver(scene.log)
        owner.commit()

    after(zombie, "_copy", replaced)
    with pytest.raises(FencedError):
        zombie.let_commit()
    assert scene.rows() == [(number, "first") for number in range(4)]


def test_unanswered_commit_is_decided_by_the_offsets_and_not_repeated(scene: SinkScene) -> None:
    run = inserting(scene).run()

    def lost() -> None:
        raise psycopg.OperationalError("the connection is lost")

    after(run, "_finish", lost)
    run.deliver(scene.log)
    with pytest.raises(RetriableError):
        run.let_commit()
    scene.add(5, "next")
    run.deliver(scene.log)
    run.commit()
    assert (numbers(scene), scene.offsets()) == ([0, 1, 2, 3, 4, 5], {0: 6})


def test_last_message_that_arrives_late_fails(scene: SinkScene) -> None:
    run = inserting(scene).run()
    database: Database = run.task._database
    finish, late = database._finish, []

    def lost(statements: Any) -> None:
        late.append((database._connection, "; ".join(statements)))
        database._connection, database._finish = None, finish  # type: ignore[method-assign]
        raise psycopg.OperationalError("the connection is lost")

    database._finish = lost  # type: ignore[method-assign]
    run.deliver(scene.log)
    with pytest.raises(RetriableError):
        run.let_commit()
    run.commit()
    [(connection, message)] = late
    with connection, pytest.raises(psycopg.Error, match="another task"):
        connection.execute(message)
    assert (numbers(scene), scene.offsets()) == ([0, 1, 2, 3, 4], {0: 5})


def test_connection_that_is_lost_before_the_commit_writes_again(scene: SinkScene) -> None:
    run = inserting(scene).run()
    after(run, "_copy", lambda: sql(scene.server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                    f"WHERE application_name = 'fencepost-{scene.name}'"))  # fmt: skip
    run.deliver(scene.log)
    with pytest.raises(RetriableError):
        run.let_commit()
    run.commit()
    assert (numbers(scene), scene.offsets()) == ([0, 1, 2, 3, 4], {0: 5})


def test_database_that_has_lost_commits_is_continued_where_it_is(scene: SinkScene) -> None:
    run = inserting(scene).run()
    run.deliver(scene.log)
    run.commit()
    sql(scene.server, f"UPDATE fencepost_offsets SET next_offset = 2 WHERE sink = '{scene.name}'; "
        f'DELETE FROM "{scene.name}" WHERE id >= 2')  # fmt: skip
    run.task._database.close()
    for _ in range(2):
        with pytest.raises(FencedError, match="gone back"):
            run.let_commit()
    newer = scene.run(2)
    newer.deliver(scene.log)
    newer.commit()
    assert (numbers(scene), scene.offsets()) == ([0, 1, 2, 3, 4], {0: 5})


def test_records_of_a_longer_recreated_topic_are_written_once(scene: SinkScene) -> None:
    """With `latest`: positions go on at its end, and the task is flushed before the records."""
    run = inserting(scene, 3).run()
    run.deliver(scene.log)
    run.commit()
    scene.topic_ids[scene.name] = "second"
    place = scene.places[0]
    scene.log[place] = [record(place, offset, 100 + offset, "again") for offset in range(9)]
    run.reset({place: 7})
    run.deliver(scene.log)
    run.deliver_nothing()
    run.crash()
    second = scene.run(2)
    second.deliver(scene.log)
    second.commit()
    assert numbers(scene) == [0, 1, 2, 107, 108]


def test_flush_before_a_recreated_topic_is_read_skips_none_of_its_records(scene: SinkScene) -> None:
    """Records of the former one still come after it, and the offset has passed a record that was filtered."""
    run = inserting(scene, 6).run()
    place = scene.places[0]
    run.deliver({place: scene.log[place][:3]})
    scene.topic_ids[scene.name] = "second"
    run.taken[place] = run.positions[place] = 4
    run.commit()
    run.deliver(scene.log)
    scene.log[place] = [record(place, offset, 100 + offset, "again") for offset in range(9)]
    run.positions[place] = 0
    run.deliver(scene.log)
    run.commit()
    assert numbers(scene) == [0, 1, 2, 4, 5, *range(100, 109)]


@pytest.mark.parametrize("is_running", [True, False])
def test_topic_that_is_created_again_is_written_from_its_beginning(scene: SinkScene, is_running: bool) -> None:
    run = inserting(scene).run()
    run.deliver(scene.log)
    run.commit()
    scene.topic_ids[scene.name] = "second"
    place = scene.places[0]
    scene.log[place] = [record(place, offset, 100 + offset, "again") for offset in range(3)]
    scene.committed.clear()
    if is_running:
        run.positions[place] = 0
    else:
        run.crash()
        run = scene.run(2)
        assert run.positions == {place: 0}
    run.deliver(scene.log)
    run.commit()
    assert numbers(scene) == [0, 1, 2, 3, 4, 100, 101, 102]


def test_topic_is_created_again_after_the_task_took_over_its_partition(scene: SinkScene) -> None:
    first = inserting(scene).run()
    first.deliver(scene.log)
    first.stop()
    run = scene.run(2)
    scene.topic_ids[scene.name] = "second"
    place = scene.places[0]
    scene.log[place] = [record(place, offset, 100 + offset, "again") for offset in range(3)]
    run.positions[place] = 0
    run.deliver(scene.log, 2)
    run.deliver(scene.log)
    run.commit()
    assert numbers(scene) == [0, 1, 2, 3, 4, 100, 101, 102]


def test_groups_offset_of_another_topic_skips_no_record_of_a_new_one(scene: SinkScene) -> None:
    first = inserting(scene).run()
    first.deliver(scene.log)
    first.stop()
    scene.topic_ids[scene.name] = "second"
    place = scene.places[0]
    scene.log[place] = [record(place, offset, 100 + offset, "again") for offset in range(3)]
    run = scene.run(2)
    assert run.positions == {place: 5}
    run.task.pre_commit({place: 5})
    run.positions[place] = 0
    run.deliver(scene.log)
    run.commit()
    assert numbers(scene) == [0, 1, 2, 3, 4, 100, 101, 102]


def test_offsets_that_are_changed_by_an_administrator_count_at_the_next_start(scene: SinkScene) -> None:
    run = inserting(scene).run()
    run.deliver(scene.log)
    run.stop()
    place = scene.places[0]
    given = {"name": scene.name, "connection.port": str(scene.server.port), "connection.user": "postgres",
             "connection.host": "127.0.0.1"}  # fmt: skip
    assert PostgresSink(given).alter_offsets({place: 2})
    assert scene.run(2).positions == {place: 2}
    assert PostgresSink(given).alter_offsets({place: None})
    scene.committed = {place: 4}
    assert scene.run(3).positions == {place: 4}


def test_last_record_of_a_key_wins_and_deletes_are_in_order(scene: SinkScene) -> None:
    scene.config = DELETING
    sql(scene.server, f"CREATE TABLE \"{scene.name}\" (id int PRIMARY KEY, name text, kept text DEFAULT 'new')")
    sql(scene.server, f"INSERT INTO \"{scene.name}\" VALUES (1, 'old', 'old'), (2, 'old', 'old'), (3, 'old', 'old')")
    for key, name in [(1, "a"), (2, "a"), (1, "b"), (2, None), (3, None), (3, "c"), (4, "a"), (4, None), (5, None)]:
        scene.add(key, name)
    run = scene.run()
    run.deliver(scene.log)
    run.commit()
    assert scene.rows("id, name, kept") == [(1, "b", "old"), (3, "c", "new")]


@pytest.mark.parametrize("keys", [[1, 2, 3], [1, 2, 1]], ids=["each key once", "a key twice"])
@pytest.mark.parametrize("mode", ["upsert", "update"])
def test_rows_of_a_batch_replace_those_before_them(scene: SinkScene, mode: str, keys: list[int]) -> None:
    sql(scene.server, f'CREATE TABLE "{scene.name}" (id bigint PRIMARY KEY, name text)')
    sql(scene.server, f"INSERT INTO \"{scene.name}\" SELECT n, 'old' FROM generate_series(1, 3) n")
    for at, key in enumerate(keys):
        scene.add(key, f"new {at}")
    run = scene.run(**{"insert.mode": mode, "pk.mode": "record_key"})
    run.deliver(scene.log)
    run.commit()
    assert dict(scene.rows()) == {1: "old", 2: "old", 3: "old"} | {key: f"new {at}" for at, key in enumerate(keys)}


def test_keys_that_only_the_database_sees_as_equal_are_one_row(scene: SinkScene) -> None:
    sql(scene.server, f'CREATE TABLE "{scene.name}" (id int PRIMARY KEY, name text)')
    (place,) = scene.places
    texts = Schema.struct({"id": STRING})
    for at, key in enumerate(["1", "01", " 1"]):
        value = {"id": at, "name": f"new {at}"}
        scene.log[place].append(SinkRecord(*place, at, value, ROW, {"id": key}, texts, at=place))
    run = scene.run(**UPSERT)
    run.deliver(scene.log)
    run.commit()
    assert scene.rows() == [(1, "new 2")]


def test_value_that_debezium_leaves_out_stays_in_the_row(scene: SinkScene) -> None:
    scene.config = {**UPSERT, "auto.create": "true"}
    for number, name in ((1, "a large value"), (2, "b"), (1, "__debezium_unavailable_value"), (2, "c")):
        scene.add(number, name)
    run = scene.run()
    run.deliver(scene.log)
    run.commit()
    assert scene.rows("id, name") == [(1, "a large value"), (2, "c")]


def test_update_changes_only_rows_that_exist(scene: SinkScene) -> None:
    scene.config = {"insert.mode": "update", "pk.mode": "record_key"}
    sql(scene.server, f'CREATE TABLE "{scene.name}" (id int, name text)')
    sql(scene.server, f"INSERT INTO \"{scene.name}\" VALUES (1, 'old')")
    scene.add(1, "a")
    scene.add(2, "a")
    scene.add(1, "b")
    run = scene.run()
    run.deliver(scene.log)
    run.commit()
    assert scene.rows() == [(1, "b")]


def test_bad_rows_are_found_and_dead_lettered_and_all_others_written(scene: SinkScene) -> None:
    sql(scene.server, f"CREATE TABLE \"{scene.name}\" (id int PRIMARY KEY, name varchar(5) CHECK (name <> 'no'))")
    names = ["a", "too long", "b", "no", "c", "nul\0", "d"]
    for key, name in enumerate(names):
        scene.add(key, name)
    scene.add(4, "twice")
    run = scene.run()
    letters = run.task.context.errant_record_reporter = Letters()
    run.deliver(scene.log)
    run.commit()
    assert [offset for offset, _ in letters.found] == [1, 3, 5, 7]
    assert f"{scene.name}-0 at offset 1" in letters.found[0][1]
    assert "too long for type character varying(5)" in letters.found[0][1]
    assert (numbers(scene), scene.offsets()) == ([0, 2, 4, 6], {0: 8})


def test_table_that_another_task_creates_meanwhile_is_no_error(scene: SinkScene) -> None:
    """Postgres says that the table exists, or its name in an index, or the type of its rows, which is made here."""
    sql(scene.server, f'CREATE TYPE "{scene.name}" AS (id int)')
    with psycopg.connect(host="127.0.0.1", port=scene.server.port, user="postgres", autocommit=True) as connection:
        _carry_out(connection, f'CREATE TABLE IF NOT EXISTS "{scene.name}_other" (id int)')
        _carry_out(connection, f'CREATE TYPE "{scene.name}" AS (id int)')
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_bad_value_of_a_type_of_an_extension_is_dead_lettered(scene: SinkScene) -> None:
    sql(scene.server, "CREATE EXTENSION IF NOT EXISTS ltree")
    sql(scene.server, f'CREATE TABLE "{scene.name}" (id int, name ltree)')
    for key, name in enumerate(("a.b", "a..b", "c")):
        scene.add(key, name)
    run = scene.run()
    letters = run.task.context.errant_record_reporter = Letters()
    run.deliver(scene.log)
    run.commit()
    assert ([offset for offset, _ in letters.found], numbers(scene)) == ([1], [0, 2])


def test_bad_version_of_a_row_leaves_the_one_before(scene: SinkScene) -> None:
    scene.config = UPSERT
    sql(scene.server, f'CREATE TABLE "{scene.name}" (id int PRIMARY KEY, name varchar(5))')
    scene.add(1, "good")
    scene.add(1, "too long")
    run = scene.run()
    run.task.context.errant_record_reporter = Letters()
    run.deliver(scene.log)
    run.commit()
    assert scene.rows() == [(1, "good")]


def test_row_that_violates_a_deferred_constraint_is_found(scene: SinkScene) -> None:
    sql(scene.server, f'CREATE TABLE "{scene.name}" (id int UNIQUE DEFERRABLE INITIALLY DEFERRED, name text)')
    for key in (1, 2, 1):
        scene.add(key, "a")
    run = scene.run()
    letters = run.task.context.errant_record_reporter = Letters()
    run.deliver(scene.log)
    run.commit()
    assert ([offset for offset, _ in letters.found], numbers(scene)) == ([2], [1, 2])


def test_error_of_a_bad_row_names_its_place_and_column(scene: SinkScene) -> None:
    sql(scene.server, f'CREATE TABLE "{scene.name}" (id int, name int)')
    scene.add(1, "5")
    scene.add(2, "five")
    run = scene.run()
    run.deliver(scene.log)
    with pytest.raises(FatalError, match=rf"{scene.name}-0 at offset 1 .*column name: .*integer"):
        run.let_commit()
    assert (scene.rows(), scene.offsets()) == ([], {0: None})


def test_missing_table_or_column_is_named_with_the_setting_that_makes_it(scene: SinkScene) -> None:
    scene.add(1, "a")
    run = scene.run()
    run.deliver(scene.log)
    with pytest.raises(FatalError, match=rf"table {scene.name} is missing: create it, or set auto\.create=true"):
        run.let_commit()
    sql(scene.server, f'CREATE TABLE "{scene.name}" (id int)')
    with pytest.raises(FatalError, match=r"has no column name: .*auto\.evolve=true"):
        run.let_commit()
    sql(scene.server, f'ALTER TABLE "{scene.name}" ADD COLUMN name text')
    run.commit()
    assert scene.rows() == [(1, "a")]


def test_table_that_was_made_again_while_the_task_runs_is_written(scene: SinkScene) -> None:
    run = inserting(scene).run()
    run.deliver(scene.log)
    run.commit()
    sql(scene.server, f'DROP TABLE "{scene.name}"; CREATE TABLE "{scene.name}" (name text, id bigint, more int)')
    scene.add(9, "after")
    run.deliver(scene.log)
    run.commit()
    assert scene.rows() == [(9, "after")]


def test_table_is_created_and_gets_the_fields_of_newer_schemas(scene: SinkScene) -> None:
    scene.config = {**UPSERT, "auto.evolve": "true"}
    wider = Schema.struct({"id": INT32, "name": STRING.optional(), "size": INT32.optional()})
    place = scene.places[0]
    scene.add(1, "a")
    value = {"id": 1, "name": "b", "size": 7}
    scene.log[place] += [SinkRecord(*place, 1, value, wider, {"id": 1}, KEY, at=place), record(place, 2, 2, "c")]
    run = scene.run()
    run.deliver(scene.log)
    run.commit()
    assert scene.rows("id, name, size") == [(1, "b", 7), (2, "c", None)]


def test_error_has_the_statement_that_creates_the_offsets_table(scene: SinkScene) -> None:
    user = f"u_{scene.name[:20]}"
    sql(scene.server, f"CREATE USER {user}")
    with pytest.raises(FatalError, match=r"offsets\.table=absent is missing.*CREATE TABLE \"absent\" \("):
        scene.run(**{"connection.user": user, "offsets.table": "absent"})


def test_database_that_is_away_is_tried_again_and_one_that_refuses_is_not(scene: SinkScene) -> None:
    with pytest.raises(RetriableError, match="cannot be reached"):
        scene.run(**{"connection.url": "jdbc:postgresql://127.0.0.1:1/postgres", "connection.password": "s3cret"})
    with pytest.raises(FatalError, match="does not exist"):
        scene.run(**{"connection.url": f"jdbc:postgresql://127.0.0.1:{scene.server.port}/absent"})


def test_start_does_not_fail_while_the_database_is_away(scene: SinkScene) -> None:
    away = {"connection.url": "jdbc:postgresql://127.0.0.1:1/postgres"}
    run = scene.run(is_open=False, **away)
    with pytest.raises(RetriableError, match="cannot be reached"):
        run.open(*scene.places)


def test_offsets_table_that_another_task_creates_in_the_same_moment_is_used(scene: SinkScene) -> None:
    name = f"offsets_{scene.name}"[:60]
    waits = (
        f"SELECT 1 FROM pg_stat_activity WHERE application_name = 'fencepost-{scene.name}' AND wait_event_type = 'Lock'"
    )
    where = {"host": "127.0.0.1", "port": scene.server.port, "user": "postgres"}
    with ThreadPoolExecutor(1) as pool, psycopg.connect(**where) as other:
        other.execute(f'CREATE TABLE "{name}" {_COLUMNS}'.encode())
        made = pool.submit(inserting(scene).run, **{"offsets.table": name})
        eventually(lambda: made.done() or sql(scene.server, waits), within_s=60)
        other.commit()
        run = made.result(120)
    run.deliver(scene.log)
    run.commit()
    assert numbers(scene) == [0, 1, 2, 3, 4]


def test_partition_that_is_kept_while_another_moves_is_still_written(scene: SinkScene) -> None:
    scene = SinkScene(scene.server, scene.name, partitions=2, config={"auto.create": "true"})
    for number in range(6):
        scene.add(number, "a", partition=number % 2)
    kept, gained = scene.places
    run = scene.run(is_open=False)
    run.open(kept)
    run.deliver(scene.log, 1)
    run.commit()
    run._member.generation = 2  # a rebalance that takes nothing from the task
    run.open(gained)
    run.deliver(scene.log)
    run.commit()
    assert (numbers(scene), scene.offsets()) == ([0, 1, 2, 3, 4, 5], {0: 3, 1: 3})
    run._member.generation = 3  # one that changes nothing for it
    scene.add(6, "a")
    run.deliver(scene.log)
    run.commit()
    assert scene.offsets() == {0: 4, 1: 3}


def test_rows_reach_the_database_without_a_commit_once_no_record_comes(scene: SinkScene) -> None:
    run = inserting(scene).run()
    run.deliver(scene.log)
    run.deliver_nothing()
    assert (numbers(scene), scene.offsets()) == ([0, 1, 2, 3, 4], {0: 5})


def test_released_partition_is_not_written_after_it(scene: SinkScene) -> None:
    scene = SinkScene(scene.server, scene.name, partitions=2, config={"auto.create": "true"})
    for number in range(6):
        scene.add(number, "a", partition=number % 2)
    run = scene.run()
    run.deliver(scene.log)
    run.task.close([TopicPartition(scene.name, 1)])
    run.deliver_nothing()
    assert (numbers(scene), scene.offsets()) == ([0, 2, 4], {0: 3, 1: None})


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        running_postgres(Path(directory)) as found,
    ):
        yield found


def test_server_that_crashes_in_the_middle_is_waited_for(own_server: Postgres) -> None:
    scene = inserting(SinkScene(own_server, "crashes"))
    run = scene.run()

    def crash() -> None:
        own_server.stop()
        own_server.start()

    after(run, "_copy", crash)
    run.deliver(scene.log)
    with pytest.raises(RetriableError):
        run.let_commit()
    eventually(lambda: run.let_commit(), within_s=60)
    assert (numbers(scene), scene.offsets()) == ([0, 1, 2, 3, 4], {0: 5})


@pytest.fixture
def disk_of_server(sink_server: Postgres) -> Iterator[Path]:
    """Return a directory of the server's user with a disk of its own, of 256 KB."""
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        disk = Path(above) / "disk"
        disk.mkdir()
        with small_disk(disk, "256k"):
            [(directory,)] = sql(sink_server, "SHOW data_directory")
            shutil.chown(disk, Path(directory).owner())
            yield disk


def test_full_disk_of_the_database_is_waited_for(scene: SinkScene, disk_of_server: Path) -> None:
    sql(scene.server, f"CREATE TABLESPACE small LOCATION '{disk_of_server}'")
    sql(scene.server, f'CREATE TABLE "{scene.name}" (id int, name text) TABLESPACE small')
    for number in range(1_000):
        scene.add(number, f"{number:01000}")
    run = scene.run()
    run.deliver(scene.log, 5)
    run.commit()
    run.deliver(scene.log)
    for _ in range(2):
        with pytest.raises(RetriableError, match="No space left on device"):
            run.let_commit()
    assert (numbers(scene), scene.offsets()) == ([0, 1, 2, 3, 4], {0: 5})
    enlarge(disk_of_server, "16m")
    run.commit()
    assert (numbers(scene), scene.offsets()) == (list(range(1_000)), {0: 1_000})
    sql(scene.server, f'DROP TABLE "{scene.name}"')
    sql(scene.server, "DROP TABLESPACE small")


TYPES = (
    "id bigint, flag boolean, ratio double precision, half real, at timestamp, zoned timestamptz, day date, "
    "price numeric, data bytea, text text, number text, kind varchar(9)"
)
TYPED = Schema.struct(
    {
        "id": INT64, "flag": BOOLEAN.optional(), "ratio": FLOAT64.optional(), "half": FLOAT32.optional(),
        "at": TIMESTAMP.optional(), "zoned": TIMESTAMP.optional(), "day": DATE.optional(),
        "price": decimal(2).optional(),
        "data": BYTES.optional(), "text": STRING.optional(), "number": FLOAT64.optional(), "kind": STRING.optional(),
    }
)  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "flag": [True, False], "ratio": [-0.0, 1e22, 5e-99, 0.1, 7, 1.7976931348623157e308],
    "half": [0.1, 16777217.5, 1e-45],
    "at": [0, -1, 1_700_000_000_123, -62_135_596_800_000, 253_402_300_799_999], "zoned": [0, -1, 1_700_000_000_123],
    "day": [0, -719_162], "price": ["AQ==", "/w=="], "data": ["AP8=", ""], "number": [1e5, 1e22, -0.0, 0.1],
    "text": ["", "\\N", "a\tb\\c\nd\re", "é😀", 'a"b', "NULL", "\\", "nul \x00"], "kind": ["too long for it", "fits"],
}  # fmt: skip


@pytest.mark.parametrize("has_schema", [True, False])
def test_rows_by_column_are_those_of_rows_one_by_one(
    scene: SinkScene, monkeypatch: pytest.MonkeyPatch, has_schema: bool
) -> None:
    content = json.dumps(schema_to_json(TYPED, EncodingOptions()))
    converter = JsonConverter({"schema.content": content} if has_schema else {"schemas.enable": "false"})
    rows = [{"id": at, name: value} for at, (name, value) in enumerate((n, v) for n in VALUES for v in VALUES[n])]
    if not has_schema:
        names = dict.fromkeys(("id", *VALUES))
        rows = [names | row for row in rows if not {"at", "zoned", "day", "price", "data"} & row.keys()]
    messages = [json.dumps(row).encode() for row in [*rows, *({"id": 1000 + at} for at in range(64))]]
    whole = converter.to_column(messages)
    assert whole is not None
    assert isinstance(whole[1], StructColumn) is has_schema
    singles = [converter.to_connect_data("t", each) for each in messages]
    found = []
    for by_column in (True, False):
        table = f"{scene.name}_{by_column}"
        sql(scene.server, f'CREATE TABLE "{table}" ({TYPES})')
        place, count = TopicPartition(table, 0), len(messages)
        scene.topic_ids[table] = "first"
        run = scene.run(is_open=False, name=table, topics=table)
        run.open(place)
        letters = run.task.context.errant_record_reporter = Letters()
        if by_column:
            none: Repeated[Any] = Repeated(None, count)
            run.task.put(
                SinkBatch(
                    Repeated(table, count), Repeated(0, count), range(count), whole[1], Repeated(whole[0], count),
                    none, none, none, Repeated(place, count),
                )
            )  # fmt: skip
        else:
            monkeypatch.setattr(text, "_as_array", lambda *_: None)
            for at, (schema, value) in enumerate(singles):
                run.task.put(SinkBatch.of_records([SinkRecord(table, 0, at, value, schema, at=place)]))
        run.task.pre_commit({place: count})
        written = sql(scene.server, f'SELECT t::text FROM "{table}" t ORDER BY id')
        found.append((written, [(at, why.replace(table, "")) for at, why in letters.found]))
    assert found[0] == found[1]
    assert len(found[0][1]) == 2
