"""The text of COPY, against the rules of the Postgres manual."""

from hypothesis import given
from hypothesis import strategies as st

from fencepost.postgres.copy import _line, _rows

text = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
special = st.text("\\\t\n\r\b\f\vNnatx.")
rows = st.lists(st.lists(st.one_of(st.none(), text, special), min_size=3, max_size=3), max_size=5)

_AS_THE_SERVER = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def _sent(value: str | None) -> str:
    return "\\N" if value is None else "".join(_AS_THE_SERVER.get(each, each) for each in value)


@given(rows)
def test_rows_are_read_as_the_server_writes_them(given: list[list[str | None]]) -> None:
    block = "".join("\t".join(map(_sent, row)) + "\n" for row in given).encode()

    assert _rows(block) == given


@given(rows)
def test_rows_are_written_so_that_they_are_read_back(given: list[list[str | None]]) -> None:
    lines = [_line(row) for row in given]

    assert all(line.count("\n") == 1 and line.count("\t") == 2 and "\r" not in line for line in lines)
    assert _rows("".join(lines).encode()) == given
