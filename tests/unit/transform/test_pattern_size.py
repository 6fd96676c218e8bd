"""The size of regular expressions: what would be compiled for minutes, or with all memory, is refused at once."""

import re

import pytest

from fencepost.transform.java_regex import compiled
from fencepost.transform.pattern_size import size_fault


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(" * 60 + "a" + "+)" * 60, "more than 10 repetitions inside of each other"),
        ("(?:" * 11 + "a" + "?)" * 11, "more than 10 repetitions"),
        ("((x{200}){200}){200}", "more than 100000 parts"),
        ("([a-z]{1000}){1,1000}", "more than 100000 parts"),
        ("(?<name>a{0,500}b{500,})" * 2 + "(c{10}){100000}", "more than 100000 parts"),
    ],
)
def test_a_pattern_that_is_too_large_is_refused_before_it_is_compiled(pattern: str, reason: str) -> None:
    with pytest.raises(re.error, match=reason):
        compiled(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "[a-z]{1,249}",
        r"(?:[a-z]+\.)*[a-z]+",
        "(" * 10 + "a" + "+)" * 10,
        r"[(]{3}[)*+]+\(\)\*{2}",
        "[a-z&&[^(*]]+" * 40,
        "(?i)(?<dc>[^.]++)[.](?=x)(?!y)(?<=z)(?>a*)x*?",
        "(a+)" * 1000,
    ],
)
def test_patterns_that_people_write_are_taken(pattern: str) -> None:
    assert size_fault(pattern) is None
