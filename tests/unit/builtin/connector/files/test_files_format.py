"""The options of Spark's writer, by format and by the user's settings."""

from fencepost.builtin.connector.files.columns import file_column, writer_options


def test_user_writer_options_override_defaults_in_any_case() -> None:
    assert writer_options("json", 2, {})["ignoreNullFields"] == "false"
    assert writer_options("json", 2, {"IGNORENULLFIELDS": "true"}).keys() == {
        "timestampFormat", "timestampNTZFormat", "IGNORENULLFIELDS",
    }  # fmt: skip
    assert writer_options("parquet", 1, {"compression": "zstd"}) == {"compression": "zstd"}


def test_csv_writer_doubles_any_quote_character_unless_an_escape_is_set() -> None:
    assert writer_options("csv", 2, {})["escape"] == '"'
    assert writer_options("csv", 2, {"quote": "'"})["escape"] == "'"
    assert writer_options("csv", 2, {"quote": "'", "escape": "\\"})["escape"] == "\\"


def test_csv_writer_writes_a_null_in_a_single_column_as_empty_text() -> None:
    assert writer_options("csv", 1, {})["nullValue"] == '""'
    assert writer_options("csv", 1, {"nullValue": "NULL"})["nullValue"] == "NULL"
    assert "nullValue" not in writer_options("csv", 2, {})


def test_binary_columns_are_base64_in_csv_and_unchanged_in_json() -> None:
    assert [file_column(kind, "a`b", "binary") for kind in ("csv", "json")] == ["base64(`a``b`) AS `a``b`", "`a``b`"]
