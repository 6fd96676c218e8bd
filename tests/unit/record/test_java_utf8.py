"""Bytes that are not UTF-8, as Java reads them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.record import BinaryColumn, Utf8Column
from fencepost.record.java_value import java_decoded

# What `new String(bytes, UTF_8)` of Java 17 makes of them: each ? is a U+FFFD.
OF_JAVA = {
    "ff": "?", "80": "?", "c3": "?", "c328": "?(", "c080": "??", "e28281": "\u2081", "e282": "?", "e28228": "?(",
    "eda080": "?", "edbfbf41": "?A", "eda0": "?", "eda041": "?A", "eda080edb080": "??", "ed9fbf": "\ud7ff",
    "e08080": "???", "f09f98": "?", "f09f9841": "?A", "f0808080": "????", "f4908080": "????", "f88888": "???",
    "61c3a9ff62": "a\u00e9?b",
}  # fmt: skip


@pytest.mark.parametrize("data", OF_JAVA)
def test_invalid_utf8_is_replaced_as_often_as_in_java(data: str) -> None:
    assert java_decoded(bytes.fromhex(data)) == OF_JAVA[data].replace("?", "\ufffd")


@given(st.lists(st.one_of(st.binary(max_size=6), st.text(max_size=4).map(str.encode))))
def test_utf8_column_is_encoded_like_its_texts(values: list[bytes]) -> None:
    expected = [java_decoded(value).encode() for value in values]
    for raw in (values, BinaryColumn(pa.array(values, pa.binary()))):
        column = Utf8Column(raw)
        assert list(column.utf8()) == expected
        assert list(column) == [value.decode() for value in expected]


def test_valid_utf8_column_is_written_without_a_copy() -> None:
    for raw in ([b"one", "zw\u00f6lf".encode()], BinaryColumn(pa.array([b"one", b"two"]))):
        assert Utf8Column(raw).utf8() is raw


def test_character_divided_between_two_values_is_replaced_in_both() -> None:
    assert Utf8Column([b"\xc3", b"\xa9"]).utf8() == ["\ufffd".encode()] * 2
