"""A stream is refused, by name, where the slot does not have everything after the position."""

from dataclasses import replace

import pytest

from fencepost.builtin.postgres.source.progress import Position, Server
from fencepost.builtin.postgres.source.slot_check import refusal
from fencepost.postgres.slots import SlotState

HERE = Server("7316", 1)
STATE = SlotState("s", "pgoutput", "d", False, None, 100, 90, "reserved", None, 0, 0, 0, False, False, False)


@pytest.mark.parametrize(
    ("position", "server", "confirmed", "words"),
    [
        (Position(100, server=HERE), HERE, 100, None),
        (Position(150, server=HERE), HERE, 100, None),
        (Position(100), HERE, 100, None),  # Debezium's offsets do not name the server
        (Position(150, server=HERE), Server("7316", 2), 100, None),  # a standby with everything was promoted
        (Position(100, server=HERE), Server("9999", 1), 100, "system identifier 7316"),
        (Position(99, server=HERE), HERE, 100, "beyond the committed position 0/63"),
        (Position(501, server=HERE), Server("7316", 2), 100, "beyond the end of the server's log"),
    ],
)
def test_stream_continues_only_where_nothing_is_lost(
    position: Position, server: Server, confirmed: int, words: str | None
) -> None:
    found = refusal(position, server, 500, replace(STATE, confirmed_flush_lsn=confirmed))
    assert found is None if words is None else words in (found or "")


def test_position_beyond_the_fork_of_its_timeline_is_refused() -> None:
    promoted, at = Server("7316", 2), Position(150, server=HERE)
    assert refusal(at, promoted, 500, STATE, fork_lsn=150) is None
    assert "left that timeline" in (refusal(at, promoted, 500, STATE, fork_lsn=149) or "")
