"""The SQL of users calls no Java, reads no files and loads no classes, however a name is written."""

from pathlib import Path

import pytest

from fencepost.config import ConfigError
from fencepost.spark.row.frame import with_sql
from fencepost.spark.session.session import SparkRuntime

_CALL = "('java.lang.System', 'getProperty', 'user.dir')"
CALLS = [
    *(f"SELECT {name}{_CALL} AS value FROM records" for name in (
        "java_method", "reflect", "try_reflect", "JAVA_METHOD", "`reflect`", "Try_Reflect", "builtin.java_method",
        "system.builtin.reflect", "`SYSTEM`.`builtin`.`try_reflect`", "IDENTIFIER('java_' || 'method')",
        "IDENTIFIER('system.builtin.reflect')",
    )),
    f"SELECT * FROM records WHERE reflect{_CALL} IS NOT NULL",
    f"WITH more AS (SELECT java_method{_CALL} AS value FROM records) SELECT * FROM more",
    f"SELECT * FROM records WHERE value IN (SELECT reflect{_CALL} FROM records)",
    f"SELECT (SELECT max(java_method{_CALL})) AS value FROM records",
    f"SELECT transform(array(1), x -> reflect{_CALL}) AS value FROM records",
    f"SELECT from_json('1', reflect{_CALL}) AS value FROM records",
    f"SELECT CASE WHEN true THEN try_reflect{_CALL} END AS value FROM records",
    f"EXECUTE IMMEDIATE \"SELECT java_method{_CALL}\"",
    f"SELECT * FROM records) SELECT reflect{_CALL} FROM (SELECT 1",
    "SELECT from_protobuf(CAST(value AS BINARY), 'm', '{file}') AS value FROM records",
    "SELECT from_avro(CAST(value AS BINARY), '\"string\"', map('avroSchemaUrl', '{file}')) AS value FROM records",
]  # fmt: skip
FILES = [
    *(
        f"SELECT * FROM {kind}.`{{file}}`"
        for kind in ("text", "csv", "json", "parquet", "binaryFile", "TEXT", "`text`")
    ),
    "SELECT * FROM read_files('{file}')",
    "SELECT (SELECT max(value) FROM text.`{file}`) AS value FROM records",
    "SELECT * FROM records WHERE value IN (SELECT value FROM text.`{file}`)",
    "WITH more AS (SELECT value FROM text.`{file}`) SELECT * FROM more",
    "SELECT * FROM IDENTIFIER('text.`{file}`')",
]


@pytest.mark.parametrize("query", [*CALLS, *FILES])
def test_query_is_refused_when_it_calls_java_or_reads_a_file(runtime: SparkRuntime, tmp_path: Path, query: str) -> None:
    file = tmp_path / "secret.txt"
    file.write_text("a secret\n")
    session = runtime.session
    frame = session.range(1).selectExpr("'v' AS value")
    with pytest.raises(ConfigError, match=r"transforms\.sql") as refused:
        with_sql(session, frame, query.replace("{file}", str(file)), ("records",)).collect()
    assert "a secret" not in str(refused.value)


def test_query_reads_no_file_when_xml_names_one(runtime: SparkRuntime, tmp_path: Path) -> None:
    file = tmp_path / "secret.txt"
    file.write_text("a secret\n")
    xml = f'<!DOCTYPE a [<!ENTITY e SYSTEM "file://{file}">]><a>&e;</a>'
    frame = runtime.session.createDataFrame([(xml,)], "value string")
    query = "SELECT xpath_string(value, 'a') AS value FROM records"
    (found,) = with_sql(runtime.session, frame, query, ("records",)).collect()
    assert "a secret" not in str(found)


def test_query_is_run_when_it_uses_other_functions(runtime: SparkRuntime) -> None:
    frame = runtime.session.createDataFrame([("v",)], "value string")
    query = "SELECT upper(value) AS value, from_json('{\"a\":1}', 'a INT').a AS a FROM records WHERE value IS NOT NULL"
    assert [tuple(row) for row in with_sql(runtime.session, frame, query, ("records",)).collect()] == [("V", 1)]
