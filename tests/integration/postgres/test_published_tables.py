"""What a publication has of tables, in the snapshot and in the stream: partitions, rows, columns; on a real server."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from fencepost.builtin.postgres.source.progress import Phase
from fencepost.builtin.postgres.source.settings import SourceSettings
from support.postgres import VERSIONS, Postgres, running_postgres
from support.postgres_source import Source, is_read_again

psycopg = pytest.importorskip("psycopg")


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    with TemporaryDirectory() as directory, running_postgres(Path(directory), request.param) as found:
        yield found


@pytest.fixture
def source(server: Postgres) -> Iterator[Source]:
    found = Source(server)
    yield found
    found.end()


def streams(source: Source) -> bool:
    return source.progress.phase is Phase.STREAM and source.progress.position is not None


def topics(source: Source) -> set[str]:
    return {record.topic.rpartition(".")[2] for record in source.records}


def rows(source: Source, table: str) -> dict[int, Any]:
    """Return the rows of a topic. Raises AssertionError for a row that comes twice."""
    found: dict[int, Any] = {}
    for record in source.records:
        if record.topic == f"{source.name}.{source.name}.{table}" and record.value is not None:
            key, operation = record.key["id"], record.value["op"]
            assert (operation in ("r", "c")) == (key not in found), (key, operation)
            if operation == "d":
                del found[key]
            else:
                found[key] = record.value["after"]
    return found


def _partitioned(source: Source) -> None:
    source.sql(
        "CREATE TABLE SCHEMA.p (id int, n int, PRIMARY KEY (id)) PARTITION BY RANGE (id); "
        "CREATE TABLE SCHEMA.p1 PARTITION OF SCHEMA.p FOR VALUES FROM (0) TO (100); "
        "CREATE TABLE SCHEMA.p2 PARTITION OF SCHEMA.p FOR VALUES FROM (100) TO (1000) PARTITION BY RANGE (id); "
        "CREATE TABLE SCHEMA.p21 PARTITION OF SCHEMA.p2 FOR VALUES FROM (100) TO (1000); "
        "INSERT INTO SCHEMA.p SELECT i, i FROM generate_series(1, 200) i"
    )


def test_partitioned_table_is_one_topic_if_it_is_published_by_its_root(source: Source) -> None:
    _partitioned(source)
    source.config["publish.via.partition.root"] = "true"
    source.begin()
    source.until(lambda: source.progress.phase is Phase.CHUNKS)
    source.sql("UPDATE SCHEMA.p SET id = id + 500 WHERE id = 7; UPDATE SCHEMA.p SET n = 0 WHERE id > 190")
    source.until(lambda: streams(source) and rows(source, "p") == source.table("p"))
    source.sql("CREATE TABLE SCHEMA.p3 PARTITION OF SCHEMA.p FOR VALUES FROM (1000) TO (2000)")
    source.sql("INSERT INTO SCHEMA.p VALUES (1500, 1); DELETE FROM SCHEMA.p WHERE id = 50")
    source.until(lambda: rows(source, "p") == source.table("p"))
    assert topics(source) == {"p"}


def test_partitions_are_topics_of_their_own_otherwise(source: Source) -> None:
    _partitioned(source)
    source.begin()
    source.until(lambda: source.progress.phase is Phase.CHUNKS)
    source.sql("UPDATE SCHEMA.p SET id = id + 500 WHERE id = 7; UPDATE SCHEMA.p SET n = 0 WHERE id > 190")
    leaves = ("p1", "p21")
    source.until(lambda: streams(source) and all(rows(source, leaf) == source.table(leaf) for leaf in leaves))
    assert topics(source) == {"p1", "p21"}


def test_row_filter_and_column_list_hold_for_the_snapshot_and_the_stream(source: Source) -> None:
    source.sql("CREATE TABLE SCHEMA.t (id int PRIMARY KEY, n int, secret text)")
    source.sql("INSERT INTO SCHEMA.t SELECT i, i, 'hidden' FROM generate_series(1, 100) i")
    source.sql("ALTER TABLE SCHEMA.t REPLICA IDENTITY FULL; ALTER TABLE SCHEMA.t REPLICA IDENTITY DEFAULT")
    source.sql(f"CREATE PUBLICATION {source.name} FOR TABLE SCHEMA.t (id, n) WHERE (id % 2 = 0)")
    source.config["publication.autocreate.mode"] = "disabled"
    source.begin()
    source.until(lambda: source.progress.phase is Phase.CHUNKS)
    source.sql("UPDATE SCHEMA.t SET n = -1 WHERE id < 11; INSERT INTO SCHEMA.t VALUES (101, 1, 'x'), (102, 2, 'x')")
    source.sql("UPDATE SCHEMA.t SET id = 201 WHERE id = 20; UPDATE SCHEMA.t SET id = 202 WHERE id = 21")
    wanted = "SELECT json_object_agg(id, json_build_object('id', id, 'n', n)) FROM SCHEMA.t WHERE id % 2 = 0"

    def has_all() -> bool:
        return streams(source) and rows(source, "t") == {int(key): row for key, row in source.sql(wanted).items()}

    source.until(has_all)
    source.sql("DELETE FROM SCHEMA.t WHERE id IN (30, 31)")
    source.until(has_all)


def test_generated_column_is_in_no_record(source: Source) -> None:
    source.sql("CREATE TABLE SCHEMA.g (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS (2 * n) STORED)")
    source.sql("INSERT INTO SCHEMA.g VALUES (1, 1), (2, 2)")
    source.begin()
    source.until(lambda: streams(source) and len(rows(source, "g")) == 2)
    source.sql("INSERT INTO SCHEMA.g VALUES (3, 3); UPDATE SCHEMA.g SET n = 5 WHERE id = 1")
    source.until(lambda: rows(source, "g") == {1: {"id": 1, "n": 5}, 2: {"id": 2, "n": 2}, 3: {"id": 3, "n": 3}})


def test_heartbeats_come_while_captured_tables_are_idle(source: Source) -> None:
    source.sql("CREATE TABLE SCHEMA.h (id int PRIMARY KEY)")
    source.config["heartbeat.interval.ms"] = "50"
    source.begin()
    topic = f"__debezium-heartbeat.{source.name}"
    source.until(lambda: sum(record.topic == topic for record in source.records) >= 3)
    beats = [record for record in source.records if record.topic == topic]
    assert all(record.key == {"serverName": source.name} for record in beats)
    assert all(set(record.value) == {"ts_ms"} for record in beats)


def test_transaction_metadata_frames_the_records_of_each_transaction(source: Source) -> None:
    source.sql("CREATE TABLE SCHEMA.m (id int PRIMARY KEY); CREATE TABLE SCHEMA.o (id int PRIMARY KEY)")
    source.config["provide.transaction.metadata"] = "true"
    source.begin()
    source.until(lambda: streams(source))
    source.sql("BEGIN; INSERT INTO SCHEMA.m VALUES (1), (2); INSERT INTO SCHEMA.o VALUES (1); COMMIT")
    source.until(lambda: any(record.topic.endswith(".transaction") for record in source.records))
    transaction = next(each for each in source.transactions if each[0].topic.endswith(".transaction"))
    begin, *changes, end = transaction
    assert (begin.value["status"], end.value["status"], end.value["event_count"]) == ("BEGIN", "END", 3)
    ids = {each.value["id"].partition(":")[0] for each in (begin, end)}  # as in Debezium, the LSNs after it differ
    assert ids == {str(changes[0].value["source"]["txId"])}
    assert [each.value["transaction"]["total_order"] for each in changes] == [1, 2, 3]
    counts = {each["data_collection"]: each["event_count"] for each in end.value["data_collections"]}
    assert counts == {f"{source.name}.m": 2, f"{source.name}.o": 1}


@pytest.fixture
def in_a_snapshot(source: Source, monkeypatch: pytest.MonkeyPatch) -> Source:
    """Return a source whose table `b` is not read yet, and whose snapshot nobody keeps."""
    monkeypatch.setattr(SourceSettings, "chunk_bytes", 1 << 16)
    for table in ("a", "b"):
        source.sql(f"CREATE TABLE SCHEMA.{table} (id int PRIMARY KEY, t text)")
        source.sql(f"INSERT INTO SCHEMA.{table} SELECT i, repeat('x', 300) FROM generate_series(1, 2000) i")
    source.begin()
    source.until(lambda: any(record.topic.endswith(".a") for record in source.records))
    source.crash()
    assert not any(record.topic.endswith(".b") for record in source.records)
    return source


def test_table_that_is_dropped_in_a_snapshot_is_left_out(in_a_snapshot: Source) -> None:
    source = in_a_snapshot
    source.sql("DROP TABLE SCHEMA.b")
    source.begin()
    source.until(lambda: streams(source) and rows(source, "a") == source.table("a"))
    source.sql("UPDATE SCHEMA.a SET t = 'new' WHERE id = 1")
    source.until(lambda: rows(source, "a") == source.table("a"))


@pytest.mark.parametrize("statement", ["TRUNCATE SCHEMA.b", "ALTER TABLE SCHEMA.b ALTER id TYPE bigint"])
def test_table_that_is_rewritten_in_a_snapshot_is_read_afterwards(in_a_snapshot: Source, statement: str) -> None:
    source = in_a_snapshot
    source.sql(statement)
    for part in ("0", "1"):
        source.begin(snapshot__part=part, snapshot__parts="2")
        source.until(lambda: not list(source.progress.unread(int(part), 2)))  # noqa: B023
        source.crash()
    assert source.progress.again
    source.sql("DELETE FROM SCHEMA.b WHERE id = 7; INSERT INTO SCHEMA.b VALUES (9000, 'new')")
    source.begin()
    source.until(lambda: streams(source) and not source.progress.again and source.progress.plan is None)
    assert rows(source, "a") == source.table("a")
    found = {
        one.key["id"]: one.value["after"] for one in source.records if one.topic.endswith(".b") and is_read_again(one)
    }
    assert found == source.table("b")
