"""Positions of lines, which are computed only if one in the middle is asked for."""

from collections.abc import Iterator

from fencepost.builtin.connector.file_stream.lines import LinePositions

LINES = [b"a", b"bcd", b"", b"ef"]


def test_line_positions_are_the_byte_positions_after_each_line() -> None:
    positions = LinePositions(LINES, ending=1, end=110)
    assert list(positions) == [102, 106, 107, 110]
    assert list(reversed(positions)) == [110, 107, 106, 102]
    assert positions[1:3] == [106, 107]


class Unread(list[bytes]):
    """Lines whose lengths nobody may add up."""

    def __iter__(self) -> Iterator[bytes]:
        raise AssertionError("a line was read")


def test_last_line_position_is_known_without_reading_the_lines() -> None:
    positions = LinePositions(Unread(LINES), ending=1, end=110)
    assert (positions[-1], next(reversed(positions))) == (110, 110)
