"""No text that goes through `hide` shows a secret."""

import io
import json
import logging
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.secret.known import Secrets, hide, protect, remember
from fencepost.telemetry.traces import trace_of

Quote = Callable[[str], str]


def in_utf8(text: str) -> str:
    return repr(text.encode())


def in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def in_url(text: str) -> str:
    return quote(text, safe="")


QUOTES: list[Quote] = [repr, json.dumps, in_json, in_utf8]


@given(
    st.text(min_size=4),
    st.text(),
    st.lists(st.sampled_from(QUOTES), max_size=3) | st.sampled_from([[in_url], [quote_plus]]),
)
@example('it\'s a "secret"\\', "", [repr, json.dumps])
@example("p\u00e4ss w\u00f6rd/\U0001f600", "", [in_utf8, repr])
@example("line\nbreak\\\n", "", [json.dumps, json.dumps])
def test_secret_is_hidden_at_any_depth_of_quoting(secret: str, before: str, quotes: list[Quote]) -> None:
    secrets = Secrets()
    secrets.remember(secret)
    if len(secret.strip()) < 4 or secret.strip().lower() in ("true", "false", "null", "none"):
        return
    text = secret
    for each in quotes:
        text = each(text)
    shown = secrets.hide(before + text)
    assert "[hidden]" in shown
    assert secret not in shown.replace("[hidden]", "")


def test_a_value_that_is_no_utf8_is_hidden_too() -> None:
    secrets = Secrets()
    secrets.remember("caf\udce9 noir")
    assert secrets.hide("caf\udce9 noir or caf\\udce9 noir") == "[hidden] or [hidden]"


def test_long_run_of_backslashes_is_redacted_quickly() -> None:
    secrets = Secrets()
    secrets.remember("\\" * 40 + '"' + "\\" * 40 + "\n")
    began = time.process_time()
    secrets.hide("\\" * 20_000)
    assert time.process_time() - began < 5


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


def test_each_line_of_a_key_is_hidden() -> None:
    secrets = Secrets()
    secrets.remember("-----BEGIN KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END KEY-----\n")
    shown = secrets.hide("bad key near BgkqhkiG9w0B, after -----BEGIN KEY-----")
    assert shown == "bad key near [hidden], after -----BEGIN KEY-----"


@pytest.mark.parametrize(
    "value",
    ['PlainLoginModule required username="shop" password="hunter22";', "clientSecret='hunter22'",
     "jdbc:x://h?user=shop&password=hunter22&ssl=1", "db://shop:hunter22@host/db",
     "shop:hunter22@host:27017", "shop:other@one,shop:hunter22@two", "jdbc:oracle:thin:shop/hunter22@//host/db",
     'x required username="shop" password="hunter\\22";', '{"user": "shop", "private_key": "hunter22\\n"}'],
)  # fmt: skip
def test_passwords_in_a_longer_secret_are_secrets_too(value: str) -> None:
    secrets = Secrets()
    secrets.remember(value)
    assert secrets.hide("hunter22 is wrong for shop") == "[hidden] is wrong for shop"


def test_oldest_secrets_are_forgotten_above_the_limit() -> None:
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


def test_held_secret_is_hidden_until_it_is_released() -> None:
    secrets = Secrets()
    releases = [secrets.hold(["hunter22"]), secrets.hold(["hunter22", "hunter33"])]
    for number in range(2_001):
        secrets.remember(f"secret{number:06}")
    assert secrets.hide("hunter22 hunter33 secret000000 secret002000") == "[hidden] [hidden] secret000000 [hidden]"
    releases[0]()
    releases[0]()
    secrets.remember("another one")
    assert secrets.hide("hunter22 hunter33") == "[hidden] [hidden]"
    releases[1]()
    secrets.remember("and another one")
    assert secrets.hide("hunter22 hunter33") == "hunter22 hunter33"


def test_value_that_is_public_anyway_is_not_held_as_a_secret() -> None:
    secrets = Secrets()
    secrets.hold(
        ["postgres", 'x required username="shop" password="shopkeeper";'], unless_in="io.postgresql.Source shop"
    )
    assert secrets.hide("postgres shop shopkeeper") == "postgres shop [hidden]"


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


def test_text_without_known_secrets_is_unchanged() -> None:
    assert hide("an ordinary text") == "an ordinary text"
