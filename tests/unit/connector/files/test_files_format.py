"""The options of Spark's writer, by format and by the user's settings."""

from fencepost.connector.files.format import file_column, writer_options


def test_what_a_user_sets_goes_first_however_it_is_written() -> None:
    assert writer_options("json", 2, {})["ignoreNullFields"] == "false"
    assert writer_options("json", 2, {"IGNORENULLFIELDS": "true"}).keys() == {
        "timestampFormat", "timestampNTZFormat", "IGNORENULLFIELDS",
    }  # fmt: skip
    assert writer_options("parquet", 1, {"compression": "zstd"}) == {"compression": "zstd"}


def test_quotes_are_doubled_whatever_a_quote_is_unless_another_escape_is_named() -> None:
    assert writer_options("csv", 2, {})["escape"] == '"'
    assert writer_options("csv", 2, {"quote": "'"})["escape"] == "'"
    assert writer_options("csv", 2, {"quote": "'", "escape": "\\"})["escape"] == "\\"


def test_a_null_that_would_be_an_empty_line_is_an_empty_text() -> None:
    assert writer_options("csv", 1, {})["nullValue"] == '""'
    assert writer_options("csv", 1, {"nullValue": "NULL"})["nullValue"] == "NULL"
    assert "nullValue" not in writer_options("csv", 2, {})


def test_bytes_are_base64_where_a_format_has_no_word_for_them() -> None:
    assert [file_column(kind, "a`b", "binary") for kind in ("csv", "json")] == ["base64(`a``b`) AS `a``b`", "`a``b`"]
