"""Task configs are stored with references."""

from hypothesis import given
from hypothesis import strategies as st

from fencepost.config.reference import replaced
from fencepost.reference.restored import restored

STORED = {"password": "${file:/s:password}", "url": "db://me:${file:/s:password}@host", "port": "${env:PORT}", "n": "1"}
FOUND = {"${file:/s:password}": "hunter22", "${env:PORT}": "7"}
VALUES = {key: replaced(key, value, FOUND) for key, value in STORED.items()}


def test_a_key_with_the_connectors_value_gets_its_text_back() -> None:
    assert restored({**VALUES, "task": "0"}, STORED, VALUES, FOUND) == {**STORED, "task": "0"}


def test_a_looked_up_text_is_replaced_in_other_keys_too() -> None:
    made = {"dsn": "host=h password=hunter22 port=7", "none": None, "password": "another"}
    assert restored(made, STORED, VALUES, FOUND) == {
        "dsn": "host=h password=${file:/s:password} port=7",
        "none": None,
        "password": "another",
    }


@given(
    st.text("abc", min_size=4, max_size=6),
    st.text("abc", min_size=4, max_size=6),
    st.lists(st.sampled_from(["x", "first", "second", "abca"])),
)
def test_looking_up_what_was_restored_gives_the_same_config(first: str, second: str, parts: list[str]) -> None:
    found = {"${a:first}": first, "${a:second}": second}
    value = "".join({"first": first, "second": second}.get(part, part) for part in parts)
    stored = restored({"k": value}, {}, {}, found)["k"] or ""
    assert replaced("k", stored, found) == value
    assert first not in stored
    assert second not in stored
