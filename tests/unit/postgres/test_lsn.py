"""LSNs as Postgres writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.postgres.lsn import format_lsn, parse_lsn


def test_lsn_is_read_and_written_as_postgres_does() -> None:
    assert parse_lsn("0/16B3748") == 0x16B3748
    assert format_lsn(0x16B3748) == "0/16B3748"
    assert parse_lsn("1A/0") == 0x1A << 32
    assert format_lsn(0x1A << 32) == "1A/0"


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_every_lsn_survives_its_text(lsn: int) -> None:
    assert parse_lsn(format_lsn(lsn)) == lsn


@pytest.mark.parametrize("text", ["", "16B3748", "0/", "/1", "0/xyz", "0/123456789", "123456789/0"])
def test_text_that_is_no_lsn_is_refused_with_its_value(text: str) -> None:
    with pytest.raises(ValueError, match="is not an LSN"):
        parse_lsn(text)
