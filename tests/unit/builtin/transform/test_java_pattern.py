"""Patterns of Java: syntax that Python's `re` lacks, and patterns that never end."""

import re

import pytest

from fencepost.api import ConfigError, RecordError, SourceRecord
from fencepost.builtin.transform.java_regex import JavaPattern, compiled
from fencepost.builtin.transform.predicate import TopicNameMatches
from fencepost.builtin.transform.router import RegexRouter
from fencepost.config import java_regex

ENDLESS = ["(a|a)*b", "(a|aa)+b"]
NESTED = ["(a+)+b", "(a*)*b", "(.*a){12}b", "([a-z]+)*1", r"(\w+\s?)*1", "(x+x+)+y", "(.*){20}b"]


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the usual patience, for tests that use it up."""
    monkeypatch.setattr(java_regex, "LONGEST_MATCH_S", 0.1)


@pytest.mark.parametrize("pattern", ENDLESS)
def test_a_pattern_that_never_ends_is_refused_by_validation(pattern: str, patience: None) -> None:
    with pytest.raises(ConfigError, match="repetitions inside of repetitions"):
        TopicNameMatches({"pattern": pattern})
    with pytest.raises(ConfigError, match="regex"):
        RegexRouter({"regex": pattern, "replacement": "x"})


def test_topic_that_takes_too_long_to_match_is_a_record_error(patience: None) -> None:
    pattern = JavaPattern("(?:ab|a|b|ba)*c")
    with pytest.raises(RecordError, match="takes more than"):
        pattern.fullmatch("ab" * 120 + "\nc")
    assert pattern.fullmatch("ababc") is not None


@pytest.mark.parametrize("pattern", NESTED)
def test_nested_repetitions_are_matched_without_backtracking_for_ever(pattern: str) -> None:
    assert TopicNameMatches({"pattern": pattern}).test(SourceRecord({}, None, "a" * 249 + "b1!")) is False


@pytest.mark.parametrize(
    ("pattern", "text", "is_match"),
    [
        (r"\p{L}+", "orders", True),
        (r"\p{Lu}+", "orders", False),
        (r"\p{script=Latin}+", "orders", True),
        (r"\p{sc=Han}+", "orders", False),
        ("[a-z&&[^o]]+", "a", True),
        ("[a-z&&[^o]]+", "o", False),
        ("[[a-f][0-9]]+", "a0", True),
        ("[a~~b]+", "a~b", True),
        ("[a||b]+", "a|b", True),
        ("[]a||b]+", "]a|b", True),
        ("[^]a||b]+", "x", True),
        ("[^]a||b]+", "|", False),
        ("(?i)ORDERS", "orders", True),
        ("(?>a+)b", "aab", True),
        ("a++a", "aaa", False),
        (r"\Qa.b\E", "a.b", True),
    ],
)
def test_syntax_of_java_is_understood(pattern: str, text: str, is_match: bool) -> None:
    assert (compiled(pattern).fullmatch(text) is not None) is is_match


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "*",
        "[",
        "a{2,1}",
        r"\p{Nope}",
        r"\x{}",
        r"\x{g}",
        r"\x{110000}",
        "[+--]",
        "(?<1>a)",
        "(" * 5000,
        "(?iu)a",
        "a{" + "9" * 5000 + "}",
    ],
)
def test_invalid_pattern_raises_a_pattern_error(pattern: str) -> None:
    with pytest.raises(re.error):
        compiled(pattern)


@pytest.mark.parametrize("pattern", ["x{1,2", "a{,2}", "{", "a{b}"])
def test_a_brace_that_is_no_repetition_is_refused_as_in_java(pattern: str) -> None:
    with pytest.raises(re.error, match="Illegal repetition"):
        compiled(pattern)


def test_braces_that_are_valid_in_java_are_accepted() -> None:
    for pattern, text in (
        (r"\{", "{"),
        ("[{]", "{"),
        ("a{2}", "aa"),
        ("a{1,}", "aaa"),
        (r"\p{L}+", "ab"),
        (r"\x{61}[\x{62}-\x{64}]", "ac"),
    ):
        assert compiled(pattern).fullmatch(text), pattern


def test_the_pattern_of_a_predicate_must_not_be_empty() -> None:
    with pytest.raises(ConfigError, match="non-empty"):
        TopicNameMatches({"pattern": ""})
