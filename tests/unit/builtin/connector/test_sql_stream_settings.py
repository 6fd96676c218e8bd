"""The settings of SqlStream."""

import pytest

from fencepost.builtin.connector.sql_stream import SqlStream
from fencepost.config import ConfigError

GIVEN = {"sql": "SELECT key FROM orders", "output.topic": "out", "checkpoint.location": "/c"}


def test_complete_mode_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="what is in a topic cannot be replaced: use update"):
        SqlStream({**GIVEN, "output.mode": "complete"})


@pytest.mark.parametrize("mode", ["append", "UPDATE"])
def test_append_and_update_modes_are_taken(mode: str) -> None:
    assert SqlStream({**GIVEN, "output.mode": mode}).output_mode == mode


@pytest.mark.parametrize("text", ["first", "[1]", '{"orders": 3}'])
def test_starting_offsets_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="it must be earliest, latest, or JSON with offsets by topic"):
        SqlStream({**GIVEN, "starting.offsets": text})


def test_each_topic_starts_at_its_own_offsets() -> None:
    stream = SqlStream({**GIVEN, "starting.offsets": '{"orders": {"0": 23}}'})
    assert stream.starting("orders") == '{"orders": {"0": 23}}'
    assert stream.starting("people") == "earliest"
    assert SqlStream({**GIVEN, "starting.offsets": "LATEST"}).starting("orders") == "latest"


def test_query_has_one_task_with_any_maximum() -> None:
    assert len(SqlStream(GIVEN).task_configs(5)) == 1
