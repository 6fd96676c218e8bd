"""What the catalogs of a real server say about tables, columns and types."""

from slot_stage import Stage

from fencepost.postgres import tables, types
from fencepost.postgres.catalog import table


def test_columns_have_their_types_and_those_below(stage: Stage) -> None:
    stage.sql(
        "CREATE TYPE mood AS ENUM ('sad', 'fine')",
        "CREATE DOMAIN price AS numeric(10,2) NOT NULL",
        "CREATE DOMAIN low_price AS price",
        """CREATE TABLE a (
            id bigint GENERATED ALWAYS AS IDENTITY, m mood, ms mood[], p low_price, n numeric(5,1)[],
            v varchar(20) NOT NULL DEFAULT 'x', dropped int, d double precision GENERATED ALWAYS AS (id * 2) STORED)""",
        "ALTER TABLE a DROP COLUMN dropped",
    )
    (found,) = tables(stage.connection)
    by_name = {each.name: each for each in found.columns}

    assert list(by_name) == ["id", "m", "ms", "p", "n", "v", "d"]
    assert (by_name["id"].type_name, by_name["id"].type_oid, by_name["id"].not_null) == ("int8", 20, True)
    assert (by_name["m"].type_name, by_name["m"].enum_values, by_name["m"].is_array) == ("mood", ("sad", "fine"), False)
    array = by_name["ms"]
    assert (array.type_name, array.is_array, array.element_name) == ("_mood", True, "mood")
    assert (array.element_oid, array.enum_values) == (by_name["m"].type_oid, ("sad", "fine"))
    price = by_name["p"]
    assert (price.type_name, price.domain_base_name, price.domain_base_oid) == ("low_price", "numeric", 1700)
    assert (price.domain_base_modifier, price.not_null) == ((10 << 16) + 2 + 4, False)
    assert (by_name["n"].element_oid, by_name["n"].type_modifier) == (1700, (5 << 16) + 1 + 4)
    assert (by_name["v"].type_modifier, by_name["v"].default) == (24, "'x'::character varying")
    assert (by_name["d"].is_generated, by_name["d"].default) == (True, None)
    assert by_name["d"].position == 8


def test_tables_have_their_keys_and_partitions(stage: Stage) -> None:
    stage.sql(
        "CREATE SCHEMA other",
        "CREATE TABLE other.a (b int, a int, c int NOT NULL, d int, PRIMARY KEY (a, b))",
        "CREATE UNIQUE INDEX with_c ON other.a (c) INCLUDE (d)",
        "CREATE UNIQUE INDEX partial ON other.a (d) WHERE d > 0",
        "ALTER TABLE other.a REPLICA IDENTITY USING INDEX with_c",
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE UNLOGGED TABLE unlogged (id int)",
        "CREATE TEMPORARY TABLE passing (id int)",
        "CREATE VIEW seen AS SELECT 1",
        "INSERT INTO p SELECT 1",
    )
    a, p, p1 = tables(stage.connection)

    assert (a.schema, a.name, a.key, a.replica_identity) == ("other", "a", ("a", "b"), "i")
    assert (a.identity_key, a.unique_keys) == (("c",), (("c",),))
    assert (p.is_partitioned, p.filenode, p.pages, p.root_oid) == (True, None, 0, None)
    assert (p1.is_partitioned, p1.root_oid, p1.pages, p1.key) == (False, p.oid, 1, ("id",))
    assert [each.name for each in tables(stage.connection, lambda schema, name: name == "p1")] == ["p1"]
    assert tables(stage.connection, lambda schema, name: False) == []


def test_table_is_found_by_oid_with_another_filenode_once_rewritten(stage: Stage) -> None:
    stage.sql("CREATE TABLE a (id int)")
    (before,) = tables(stage.connection)
    stage.sql("VACUUM FULL a")
    after = table(stage.connection, before.oid)

    assert after is not None
    assert (after.oid, after.filenode == before.filenode) == (before.oid, False)
    assert table(stage.connection, 1) is None


def test_types_are_found_with_their_schemas(stage: Stage) -> None:
    stage.sql("CREATE SCHEMA other", "CREATE TYPE other.pair AS (a int, b int)")
    (oid,) = stage.sql("SELECT 'other.pair'::regtype::oid::bigint")[0]
    found = types(stage.connection, [oid, 1007])

    assert (found[oid].schema, found[oid].name, found[oid].kind) == ("other", "pair", "c")
    assert (found[1007].element_oid, found[23].name) == (23, "int4")
    assert types(stage.connection, []) == {}
