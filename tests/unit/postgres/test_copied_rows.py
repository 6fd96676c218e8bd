"""The text of COPY, against the rules of the Postgres manual."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.postgres import ProtocolError
from fencepost.postgres.copy import _line, columns_of

text = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
special = st.text("\ufeff\\\t\n\r\b\f\vNnatx.\"'#, ")
rows = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.lists(st.none() | text | special, min_size=width, max_size=width), min_size=1, max_size=5)
)

_AS_THE_SERVER = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def _sent(value: str | None) -> str:
    return "\\N" if value is None else "".join(_AS_THE_SERVER.get(each, each) for each in value)


def _read(block: bytes) -> list[list[str | None]]:
    return [list(row) for row in zip(*(column.to_pylist() for column in columns_of(block)), strict=True)]


@given(rows)
def test_rows_are_read_as_the_server_writes_them(given: list[list[str | None]]) -> None:
    block = "".join("\t".join(map(_sent, row)) + "\n" for row in given).encode()

    assert _read(block) == given


@given(rows)
def test_rows_are_written_so_that_they_are_read_back(given: list[list[str | None]]) -> None:
    lines = [_line(row) for row in given]

    assert all(line.count("\n") == 1 and line.count("\t") == len(given[0]) - 1 and "\r" not in line for line in lines)
    assert _read("".join(lines).encode()) == given


def test_value_that_is_not_utf8_is_refused_with_its_place() -> None:
    with pytest.raises(ProtocolError, match=r"not UTF-8 \(near b'.*before"):
        columns_of(b"1\tbefore\xff\n2\tafter\n")
