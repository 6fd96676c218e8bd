"""What the source takes from a row of the table of signals."""

import logging

import pytest

from fencepost.builtin.postgres.source.signals import asked_for

TABLES = ["public.orders", "public.customers", "a" * 60]


def test_signal_names_tables_by_patterns_of_any_case() -> None:
    data = '{"data-collections": ["\\"Public\\".\\"ord.*\\""]}'
    assert asked_for(["1", "execute-snapshot", data], lambda: TABLES) == ["public.orders"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["1", "execute-snapshot", "no JSON"], "Expecting value"),
        (["1", "execute-snapshot", "[]"], "no JSON object"),
        (["1", "execute-snapshot", None], "no data-collections"),
        (["1", "execute-snapshot", '{"data-collections": []}'], "no data-collections"),
        (["1", "execute-snapshot", '{"data-collections": ["("]}'], "missing )"),
        (["1", "execute-snapshot", '{"data-collections": ["a.b"], "additional-conditions": [{}]}'], "not supported"),
        (["1", "execute-snapshot", '{"data-collections": ["(a|aa)+b"]}'], "repetitions inside of repetitions"),
        (["1", "stop-snapshot", '{"data-collections": ["a.b"]}'], "type stop-snapshot is not supported"),
        (["1", None, None], "type None is not supported"),
        (["1", "execute-snapshot"], "2 columns, not 3"),
        (["1", "log", "[" * 9_999], "recursion"),
        (["1", "execute-snapshot", '{"data-collections": ["(?V0)a"]}'], "VERSION0"),
        (["1", "execute-snapshot", '{"data-collections": ["' + "a" * 10_000 + '"]}'], "more than 10,000 characters"),
        (["1", "execute-snapshot", '{"data-collections": ["shop.public.orders"]}'], "no captured table"),
    ],
)
def test_wrong_signal_asks_for_nothing_and_is_logged(
    values: list[str | None], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert asked_for(values, lambda: TABLES) == []
    assert "signal 1 is not followed" in caplog.text
    assert reason in caplog.text


def test_signal_of_type_log_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert asked_for(["1", "log", '{"message": "half done"}'], lambda: TABLES) == []
    assert "signal 1: half done" in caplog.text
