"""Names that a pattern matches."""

import re

import pytest

from fencepost.worker.validation import reader
from fencepost.worker.validation.reader import matching_names


@pytest.mark.parametrize("pattern", ["orders-.*", "(a|b)-[0-9]+", "x{3}(y{2}){2}"])
def test_matching_names_match_the_pattern(pattern: str) -> None:
    found = matching_names(pattern)
    assert found
    assert all(re.fullmatch(pattern, name) for name in found)


@pytest.mark.parametrize("pattern", ["(x{1000}){1000}", "((x{200}){200}){200}", ".{300}"])
def test_matching_names_are_no_longer_than_topic_names(pattern: str) -> None:
    assert matching_names(pattern) == []


@pytest.mark.parametrize("pattern", ["", " ?", "a b", "a/b"])
def test_matching_names_are_legal_topic_names(pattern: str) -> None:
    assert matching_names(pattern) == []


def test_nested_repetitions_in_a_pattern_are_expanded_once() -> None:
    """Twice each would never end."""
    assert matching_names("(" * 10 + "a" + "+)" * 10)
    assert reader._of(re._parser.parse("(" * 60 + "a" + "+)" * 60))  # type: ignore[attr-defined]


def test_too_large_pattern_has_no_matching_names() -> None:
    assert matching_names("(" * 60 + "a" + "+)" * 60) == []
