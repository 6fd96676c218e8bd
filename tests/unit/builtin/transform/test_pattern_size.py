"""The size of regular expressions: what would be compiled for minutes, or with all memory, is refused at once."""

import re

import pytest

from fencepost.builtin.transform.java_regex import compiled
from fencepost.config.java_regex import size_fault


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(" * 60 + "a" + "+)" * 60, "more than 10 repetitions inside of each other: write fewer"),
        ("(?:" * 11 + "a" + "?)" * 11, "more than 10 repetitions"),
        ("((x{200}){200}){200}", "more than 100000 parts: use smaller counts"),
        ("([a-z]{1000}){1,1000}", "more than 100000 parts"),
        ("(?<name>a{0,500}b{500,})" * 2 + "(c{10}){100000}", "more than 100000 parts"),
        ("(){20000}", "more than 100000 parts"),
        ("(?:()(())){400}", "more than 100000 parts"),
        ("((){50}a?){50}", "more than 100000 parts"),
        ("(?:" * 11 + "a" + "{0,2})" * 11, "more than 10 repetitions"),
        ("(?:a{1000})(?i){1000}", "more than 100000 parts"),
        (r"(?:a{1000})(?#[\)){1000}", "more than 100000 parts"),
        ("(?:(?:a{1000})[])]){1000}", "more than 100000 parts"),
        ("(?:(?:a{1000})[^])]){1000}", "more than 100000 parts"),
        ("(?:(?:a{1000})[a&&])]){1000}", "more than 100000 parts"),
        ("[(?<a](?:b{1000}){1000}>", "more than 100000 parts"),
        ("[(?#](?:b{1000}){1000})", "more than 100000 parts"),
        ("(?x)(?:a{1000}) #[\n {1 000}", "more than 100000 parts"),
        ("(?:(?x: a #[\n))#(?:a{1000}){1000}", "more than 100000 parts"),
        ("(?x)(?-x:#(?:a{1000}){1000}\n)", "more than 100000 parts"),
        ("(?x)(?-x)#(?:a{1000}){1000}", "more than 100000 parts"),
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
        "(?#(((a+)+)+)+)" * 1000,
        "(?x) # (((((((((((a+)+)+)+)+)+)+)+)+)+)+)+\n a+",
        "a{b}{,c}{}" * 1000,
        "(?:(?:()a){3}|(){2})*",
    ],
)
def test_ordinary_patterns_are_accepted(pattern: str) -> None:
    assert size_fault(pattern) is None
