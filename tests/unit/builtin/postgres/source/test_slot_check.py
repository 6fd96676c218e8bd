"""A stream is refused, by name, where server or slot do not have everything after the position."""

from dataclasses import replace

import pytest

from fencepost.builtin.postgres.source.progress import Position, Server
from fencepost.builtin.postgres.source.slot_check import server_refusal, slot_refusal
from fencepost.postgres.slots import SlotState

HERE = Server("7316", 1)
STATE = SlotState("s", "pgoutput", "d", False, None, 100, 90, "reserved", None, 0, 0, 0, False, False, False)


PROMOTED = Server("7316", 2)


@pytest.mark.parametrize(
    ("at", "known", "server", "fork_lsn", "words"),
    [
        (100, HERE, HERE, None, None),
        (100, Server(), HERE, None, None),  # Debezium's offsets do not name the server
        (150, HERE, PROMOTED, 150, None),  # a standby with everything was promoted
        (150, HERE, PROMOTED, 149, "the position's, 1, was left at 0/95"),
        (150, HERE, PROMOTED, 0, "is not in its history"),
        (100, PROMOTED, HERE, None, "former primary"),
        (100, HERE, Server("9999", 1), None, "system identifier 7316"),
        (501, HERE, HERE, None, "beyond the end of the server's log"),
    ],
)
def test_stream_continues_only_on_a_server_with_all_before_it(
    at: int, known: Server, server: Server, fork_lsn: int | None, words: str | None
) -> None:
    found = server_refusal(Position(at, server=known), server, 500, fork_lsn)
    assert found is None if words is None else words in (found or "")


def test_standby_may_have_less_log_than_the_position() -> None:
    assert server_refusal(Position(501, server=HERE), HERE, None) is None


@pytest.mark.parametrize(("at", "is_refused"), [(100, False), (150, False), (99, True)])
def test_stream_continues_only_where_the_slot_has_not_passed(at: int, is_refused: bool) -> None:
    found = slot_refusal(Position(at, server=HERE), replace(STATE, confirmed_flush_lsn=100))
    assert ("beyond the committed position" in found) if found else not is_refused
