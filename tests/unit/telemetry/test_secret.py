"""No text that goes through `hide` shows a secret."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.telemetry.secret import Secrets, hide, protect, remember
from fencepost.telemetry.traces import trace_of


@given(st.text(min_size=4), st.text(), st.text())
def test_a_secret_is_hidden_however_it_is_quoted(secret: str, before: str, after: str) -> None:
    secrets = Secrets()
    secrets.remember(secret)
    if len(secret.strip()) < 4 or secret.strip().lower() in ("true", "false", "null", "none"):
        return
    for text in (f"{before}{secret}{after}", f"{before}{secret!r}", json.dumps({"a": secret})):
        shown = secrets.hide(text)
        assert "[hidden]" in shown
        assert secret not in shown.replace("[hidden]", "")


def test_short_values_and_words_of_every_text_are_not_hidden() -> None:
    secrets = Secrets()
    for value in ("7", "abc", "true", " none "):
        secrets.remember(value)
    assert secrets.hide("7 abc true none") == "7 abc true none"


def test_a_secret_that_contains_another_is_hidden_as_a_whole() -> None:
    secrets = Secrets()
    secrets.remember("hunter2")
    secrets.remember("hunter22")
    assert secrets.hide("hunter22 hunter2") == "[hidden] [hidden]"


def test_the_lines_of_a_key_are_secrets_each() -> None:
    secrets = Secrets()
    secrets.remember("-----BEGIN KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END KEY-----\n")
    shown = secrets.hide("bad key near BgkqhkiG9w0B, after -----BEGIN KEY-----")
    assert shown == "bad key near [hidden], after -----BEGIN KEY-----"


@pytest.mark.parametrize(
    "value",
    ['PlainLoginModule required username="shop" password="hunter22";', "clientSecret='hunter22'",
     "jdbc:x://h?user=shop&password=hunter22&ssl=1", "db://shop:hunter22@host/db"],
)  # fmt: skip
def test_passwords_in_a_longer_secret_are_secrets_too(value: str) -> None:
    secrets = Secrets()
    secrets.remember(value)
    assert secrets.hide("hunter22 is wrong for shop") == "[hidden] is wrong for shop"


def test_the_oldest_are_forgotten_when_there_are_too_many() -> None:
    secrets = Secrets()
    for number in range(2_001):
        secrets.remember(f"secret{number:06}")
    assert secrets.hide("secret000000 secret002000") == "secret000000 [hidden]"


def test_a_secret_that_is_looked_up_again_is_not_among_the_oldest() -> None:
    secrets = Secrets()
    secrets.remember("hunter22")
    for number in range(3_000):
        secrets.remember(f"secret{number:06}")
        if number == 1_500:
            secrets.remember("hunter22")
    assert secrets.hide("hunter22 secret000000 secret002999") == "[hidden] secret000000 [hidden]"


def test_a_secret_that_is_kept_is_hidden_whatever_comes_later() -> None:
    secrets = Secrets()
    secrets.remember("hunter22", is_kept=True)
    for number in range(2_001):
        secrets.remember(f"secret{number:06}")
    assert secrets.hide("hunter22 secret000000 secret002000") == "[hidden] secret000000 [hidden]"


def test_a_trace_shows_no_secret_of_any_error_in_it() -> None:
    secret = "".join(("correct", " ", "horse"))
    remember(secret)
    try:
        try:
            raise OSError(f"no {secret}")
        except OSError as error:
            raise ValueError(f"battery {secret}") from error
    except ValueError as error:
        trace = trace_of(error)
    assert secret not in trace
    assert trace.count("[hidden]") == 2


@pytest.mark.parametrize("level", [logging.DEBUG, logging.ERROR])
def test_a_protected_handler_prints_neither_secrets_nor_answers_of_stores(level: int) -> None:
    remember("staple battery")
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    protect(handler)
    logger = logging.Logger("test", logging.DEBUG)
    logger.addHandler(handler)
    try:
        raise ValueError("staple battery")
    except ValueError:
        logger.log(level, "it is %s", "staple battery", exc_info=True)
    assert "it is [hidden]" in out.getvalue()
    assert "ValueError: [hidden]" in out.getvalue()
    stores = logging.Logger("botocore.parsers", logging.DEBUG)
    stores.addHandler(handler)
    stores.log(level, "Response body: something new")
    assert ("something new" in out.getvalue()) is (level > logging.DEBUG)


def test_nothing_is_hidden_where_nothing_is_known() -> None:
    assert hide("an ordinary text") == "an ordinary text"
