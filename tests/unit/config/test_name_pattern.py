"""Patterns of connectors' names."""

import pytest

from fencepost.config.version import matches


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("orders", "*", True),
        ("orders-eu", "orders-*", True),
        ("orders1", "orders?", True),
        ("orders[1]", "orders[1]", True),
        ("orders1", "orders[1]", False),
        ("Orders", "orders", False),
    ],
)
def test_only_asterisk_and_question_mark_are_wildcards(name: str, pattern: str, expected: bool) -> None:
    assert matches(name, pattern) is expected
