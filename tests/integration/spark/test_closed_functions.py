"""The SQL of users calls no Java, reads no files and loads no classes, however a name is written."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.config import ConfigError
from fencepost.spark.row.frame import with_sql
from fencepost.spark.session.pyspark_patches import CLOSED
from fencepost.spark.session.session import SparkRuntime

_CALL = "('java.lang.System', 'getProperty', 'user.dir')"
_NO_FUNCTION, _NO_TABLE = "UNRESOLVED_ROUTINE", "TABLE_OR_VIEW_NOT_FOUND"
REFUSED = [
    *((f"SELECT {name}{_CALL} AS value FROM records", _NO_FUNCTION) for name in (
        "java_method", "`Try_Reflect`", "builtin.java_method",
        "IDENTIFIER('java_' || 'method')", "IDENTIFIER('system.builtin.reflect')",
    )),
    (f"SELECT system.builtin.reflect{_CALL} AS value FROM records", "REQUIRES_SINGLE_PART_NAMESPACE"),
    (f"SELECT transform(array(1), x -> reflect{_CALL}) AS value FROM records", _NO_FUNCTION),
    (f"SELECT * FROM records) SELECT reflect{_CALL} FROM (SELECT 1", "PARSE_SYNTAX_ERROR"),
    ("SELECT * FROM text.`{file}`", _NO_TABLE),
    ("SELECT * FROM IDENTIFIER('text.`{file}`')", _NO_TABLE),
    ("SELECT (SELECT max(value) FROM binaryFile.`{file}`) AS value FROM records", _NO_TABLE),
]  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_a_closed_function_of_spark_does_not_exist_in_the_session(runtime: SparkRuntime, name: str) -> None:
    session = runtime.session
    registry = getattr(session._jvm.org.apache.spark.sql.catalyst.analysis, "FunctionRegistry$")
    assert getattr(registry, "MODULE$").expressions().contains(name)
    assert session.catalog.functionExists("builtin.upper")
    assert [n for n in (name, f"builtin.{name}") if session.catalog.functionExists(n)] == []


@pytest.mark.parametrize(("query", "reason"), REFUSED)
def test_query_is_refused_when_it_calls_java_or_reads_a_file(
    runtime: SparkRuntime, tmp_path: Path, query: str, reason: str
) -> None:
    file = tmp_path / "secret.txt"
    file.write_text("a secret\n")
    with pytest.raises(ConfigError, match=rf"transforms\.sql .*{reason}"):
        with_sql(runtime.session, _frame(runtime), query.replace("{file}", str(file)), ("records",))


def test_query_shows_no_settings_and_no_environment_of_the_worker(runtime: SparkRuntime) -> None:
    texts = ["${spark.app.name}", "${env:HOME}", "${system:user.dir}"]
    assert _answer(runtime, ", ".join(f"'{text}' AS c{n}" for n, text in enumerate(texts))) == texts


def test_query_reads_no_file_when_xml_names_one(runtime: SparkRuntime, tmp_path: Path) -> None:
    file = tmp_path / "secret.txt"
    file.write_text("a secret\n")
    xml = f'<!DOCTYPE a [<!ENTITY e SYSTEM "file://{file}">]><a>&e;</a>'
    assert "a secret" not in str(_answer(runtime, f"xpath_string('{xml}', 'a') AS value"))


def test_query_is_accepted_when_it_uses_other_functions(runtime: SparkRuntime) -> None:
    query = "SELECT upper(value) AS value, from_json('{\"a\":1}', 'a INT').a AS a FROM records WHERE value IS NOT NULL"
    assert with_sql(runtime.session, _frame(runtime), query, ("records",)).columns == ["value", "a"]


def _answer(runtime: SparkRuntime, columns: str) -> list[object]:
    (found,) = with_sql(runtime.session, _frame(runtime), f"SELECT {columns} FROM records", ("records",)).collect()
    return list(found)


def _frame(runtime: SparkRuntime) -> Any:
    return runtime.session.sql("SELECT 'v' AS value")  # the driver answers queries of it without a job
