"""Task configs are stored with references."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import ConfigError
from fencepost.config.reference import replaced
from fencepost.reference.providers import restored

STORED = {"password": "${file:/s:password}", "url": "db://me:${file:/s:password}@host", "port": "${env:PORT}", "n": "1"}
FOUND = {"${file:/s:password}": "hunter22", "${env:PORT}": "7"}
VALUES = {key: replaced(key, value, FOUND) for key, value in STORED.items()}


def test_key_with_the_connectors_value_gets_its_reference_back() -> None:
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
def test_restored_references_resolve_to_the_same_config(first: str, second: str, parts: list[str]) -> None:
    found = {"${a:first}": first, "${a:second}": second}
    value = "".join({"first": first, "second": second}.get(part, part) for part in parts)
    stored = restored({"k": value}, {}, {}, found)["k"] or ""
    assert replaced("k", stored, found) == value
    assert first not in stored
    assert second not in stored


def test_white_space_around_a_value_is_ignored_for_its_own_key() -> None:
    stored, found = {"token": "${directory:/d:token}"}, {"${directory:/d:token}": "t0ken\n"}
    assert restored({"token": "t0ken"}, stored, {"token": "t0ken\n"}, found) == stored


def test_text_written_by_a_user_stays_even_if_a_reference_has_its_value() -> None:
    stored, found = {"user": "shop", "password": "${env:P}"}, {"${env:P}": "shop"}
    assert restored({"user": "shop", "password": "shop"}, stored, {"user": "shop", "password": "shop"}, found) == stored


@pytest.mark.parametrize(
    ("looked_up", "made"),
    [
        ("hunter 2/2", f"db://me:{quote('hunter 2/2', safe='')}@host"),
        ('hunter"22', '{"password": "hunter\\"22"}'),
        ("hunter22\n", "db://me:hunter22@host"),
        ('x.PlainLoginModule required username="u" password="hunter22";', "hunter22"),
    ],
    ids=["URL", "JSON", "trimmed", "JAAS"],
)
def test_secret_in_another_form_is_refused_and_not_shown(looked_up: str, made: str) -> None:
    with pytest.raises(ConfigError, match="dsn of a task's config") as refused:
        restored({"dsn": made}, {"password": "${env:P}"}, {"password": looked_up}, {"${env:P}": looked_up})
    assert "hunter" not in str(refused.value)


def test_values_without_secrets_are_not_refused() -> None:
    made = {"n": "7", "at": "host=h", "none": None}
    assert restored(made, STORED, VALUES, FOUND) == made
