"""The options of Spark's reader for a CSV file."""

import pytest

from fencepost.builtin.connector.spool.csv_layout import (
    HEAD_BYTES,
    QuoteRule,
    ends_in_quotes,
    layout_options,
    layout_settings,
    lines_of,
    quote_rule,
    record_end,
)


def options(data: bytes, *, is_open_later: bool = False, **given: str) -> dict[str, str]:
    asked: list[str] = []
    found = layout_options(given, lambda: data, lambda quote: (asked.append(quote), is_open_later)[1])
    assert bool(asked) == (len(data) >= HEAD_BYTES and "multiline" not in given), "a small file is looked through"
    return found


RFC = {"escape": '"'}


def test_csv_head_is_searched_for_quoted_line_breaks_unless_configured() -> None:
    assert options(b'1,"a ""b"", c"\n') == RFC
    assert options(b'1,"a\r\nb"\n2,c\n') == {**RFC, "multiLine": "true", "lineSep": "\n"}
    assert options(b'1,"a\nb"\n', multiline="false") == RFC
    assert options(b"1,'a\nb'\n", quote="'", escape="\\") == {"multiLine": "true", "lineSep": "\n"}
    assert options(b'1,"a\nb"\n', encoding="UTF-16") == RFC
    assert options(b'1,"a\nb"\n', quote="") == {}
    assert options(b"") == RFC


def test_layout_of_a_large_csv_file_is_left_to_spark() -> None:
    large = b"1,2\r\n" * (HEAD_BYTES // 5 + 1)
    assert options(large) == RFC
    assert options(large, is_open_later=True) == {**RFC, "multiLine": "true", "lineSep": "\r\n"}


@pytest.mark.parametrize(
    ("head", "end"),
    [
        (b"a,b\r\n1,2\n", "\r\n"),
        (b'"a\nb",c\r\n', "\r\n"),
        (b'a,"x\r\ny ""z\r\n"""\nb', "\n"),
        (b'\xef\xbb\xbf"a\rb",c\n', "\n"),
        (b'a,"x"\r', "\r"),
        (b'5" pipe,b\r\n', "\r\n"),
        (b'a,"open\n', "\n"),
        (b"a", "\n"),
        (b'"' + b'""\n' * 100_000 + b'"\r\n', "\r\n"),
    ],
)
def test_csv_record_ends_at_a_line_break_outside_of_quotes(head: bytes, end: str) -> None:
    assert record_end(head, b",", b'"') == end


def test_csv_layout_settings_omit_options_set_by_the_user() -> None:
    assert layout_settings({}) == {"escape": '"', "multiLine": "found in each file"}
    assert layout_settings({"escape": "\\", "multiline": "false"}) == {}
    assert layout_settings({"quote": "'", "encoding": "UTF-16"}) == {"escape": "'"}
    assert layout_settings({"quote": ""}) == {}


COMMA = QuoteRule(b",", b'"', b'"')
BACKSLASH = QuoteRule(b",", b'"', b"\\")


@pytest.mark.parametrize(
    ("data", "is_open", "rule"),
    [
        (b'1,"open\n2,b\n3,c', True, COMMA),
        (b'1,"open\n2,b\n3,c\n', True, COMMA),
        (b'"a\nb",c\n"', True, COMMA),
        (b'a,"b""', True, COMMA),
        (b'a,"b""\r\nc"""\r\n', False, COMMA),
        (b'a,"b""\r\nc""\r\n', True, COMMA),
        (b'a,"b\nc",5" pipe\n', False, COMMA),
        (b'5" pipe,"open\n1,2\n', True, COMMA),
        (b'a,"b\n"x"y,z\n', False, COMMA),
        (b'a,"b\nc","open\n', True, COMMA),
        (b'\xef\xbb\xbf"open\n', True, COMMA),
        (b'a, "b\n', False, COMMA),
        (b"", False, COMMA),
        (b'a;"open,\nb;c', True, COMMA._replace(separator=b";")),
        (b'a||"open\nb||c', True, COMMA._replace(separator=b"||")),
        (b"a,'open\nb", True, COMMA._replace(quote=b"'", escape=b"'")),
        (b'#,"comment\na,b\n', False, COMMA._replace(comment=b"#")),
        (b'a,"\n#"\n', False, COMMA._replace(comment=b"#")),
        (rb'a,"b\"' + b"\n", True, BACKSLASH),
        (rb'a,"b\\"' + b"\n", False, BACKSLASH),
        (b'a,"b\\\nc"\n', False, BACKSLASH),
    ],
)  # fmt: skip
def test_csv_file_that_ends_within_a_quoted_value_is_detected(data: bytes, is_open: bool, rule: QuoteRule) -> None:
    assert ends_in_quotes(lines_of(data), rule) is is_open


def test_quote_rule_exists_only_if_csv_values_may_span_lines() -> None:
    many = {"multiLine": "true"}
    assert quote_rule(many) == COMMA
    assert quote_rule({**many, "SEP": "\\t", "escape": "\\", "comment": "#"}) == QuoteRule(b"\t", b'"', b"\\", b"#")
    assert quote_rule({**many, "encoding": "ISO-8859-1"}) == COMMA
    for other in ({}, {"multiLine": "false"}, {**many, "quote": ""}, {**many, "encoding": "UTF-16"}):
        assert quote_rule(other) is None
