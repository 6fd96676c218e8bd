"""Names that a pattern matches."""

import re

import pytest

from fencepost.worker.validation import names
from fencepost.worker.validation.names import matching_names


@pytest.mark.parametrize("pattern", ["orders-.*", "(a|b)-[0-9]+", "x{3}(y{2}){2}"])
def test_names_are_names_that_the_pattern_matches(pattern: str) -> None:
    found = matching_names(pattern)
    assert found
    assert all(re.fullmatch(pattern, name) for name in found)


@pytest.mark.parametrize("pattern", ["(x{1000}){1000}", "((x{200}){200}){200}", ".{300}"])
def test_no_name_is_longer_than_that_of_a_topic(pattern: str) -> None:
    assert matching_names(pattern) == []


@pytest.mark.parametrize("pattern", ["", " ?", "a b", "a/b"])
def test_what_no_topic_is_named_is_no_name(pattern: str) -> None:
    assert matching_names(pattern) == []


def test_repetitions_of_repetitions_are_looked_at_once_each() -> None:
    """Twice each would never end."""
    assert matching_names("(" * 10 + "a" + "+)" * 10)
    assert names._of(re._parser.parse("(" * 60 + "a" + "+)" * 60))  # type: ignore[attr-defined]


def test_a_pattern_that_is_too_large_has_no_names() -> None:
    assert matching_names("(" * 60 + "a" + "+)" * 60) == []
