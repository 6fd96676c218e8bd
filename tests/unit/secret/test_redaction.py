"""Passwords are found in texts by their form, whole, and nothing else is taken for one."""

import time

import pytest

from fencepost.config import Config, ConfigError, setting
from fencepost.config.worker import WorkerConfig
from fencepost.secret.known import Secrets, hide
from fencepost.secret.redaction import has_login, has_password, redacted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no http://me:pw@host:80/path", "no http://me:[hidden]@host:80/path"),
        ("http://me:p@ss@w@host/a@b", "http://me:[hidden]@host/a@b"),  # as a parser of URLs reads it
        ("http://me:p/ss@host, or http://me:p#s?s@host/x", "http://me:[hidden]@host, or http://me:[hidden]@host/x"),
        ("amqp://me@corp.com:pw@host", "amqp://me@corp.com:[hidden]@host"),
        ("redis://:pw@host", "redis://:[hidden]@host"),
        ("me:pw@one,me:p@w@two:27017", "me:[hidden]@one,me:[hidden]@two:27017"),
        ("'http://a:pw@one/','http://b:pw@two/'", "'http://a:[hidden]@one/','http://b:[hidden]@two/'"),
        ("jdbc:oracle:thin:shop/p@ss@//host/db", "jdbc:oracle:thin:shop/[hidden]@//host/db"),
        ("jdbc:x://h/db?user=a&password=p,w&ssl=1", "jdbc:x://h/db?user=a&password=[hidden]&ssl=1"),
        ("jdbc:sqlserver://h;password={a;b};x=1", "jdbc:sqlserver://h;password={[hidden]};x=1"),
        ("jdbc:sqlserver://h;Password=pw;x=1", "jdbc:sqlserver://h;Password=[hidden];x=1"),
        ("jdbc:sqlserver://h;pwd=pw;x=1", "jdbc:sqlserver://h;pwd=[hidden];x=1"),
        ('X required username="me" password="p\\"w; x";', 'X required username="me" password="[hidden]";'),
        ("X required clientSecret='pw';", "X required clientSecret='[hidden]';"),
        ("https.proxyPassword = pw", "https.proxyPassword = [hidden]"),
    ],
)
def test_password_is_hidden_whole_and_other_text_is_kept(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert redacted(shown) == shown
    assert has_password(text)


@pytest.mark.parametrize(
    "value",
    ["mailto:me@host", "jdbc:oracle:thin:@host:1521:x", "https://host/a:b@c", "/data/a:b@c", "C:\\a@b", "me@host",
     "git@host:me/it", '{"to":"me@host"}', "at: me@host", "me:@host", "a:b", "host:9092,host:9093",
     "http://host:8083/a@b", "http://[::1]:8083/a@b", "SELECT 1 WHERE password = 'x' OR secret=1", "(password)=(.*)",
     "jdbc:x://h/db?password=&user=me", "password.encoder.secret", "jdbc:mysql://h/db?passwordCharacterEncoding=UTF-8",
     "jdbc:x://h/db?useSecretless=1"],
)  # fmt: skip
def test_text_resembling_a_login_url_is_not_taken_for_a_login(value: str) -> None:
    assert not has_login(value)


@pytest.mark.parametrize("value", ["x password=${env:SHOP};", 'password=""', "http://host:8083/a@b", "a: b@c = d"])
def test_texts_without_a_password_stay(value: str) -> None:
    assert redacted(value) == value


def test_long_text_is_redacted_quickly() -> None:
    began = time.process_time()
    for text in (
        "a:=" * 50_000, ";" * 200_000, "a" * 200_000 + "@", ":" * 200_000, ",a:b" * 50_000 + "@", "://a:x/" * 30_000,
        "password" * 25_000 + "=", ";pwd=" * 40_000, 'password="' * 20_000, "password={" * 20_000, "jdbc:?" * 30_000,
    ):  # fmt: skip
        has_password(text + "@ ")
        redacted(text + "@ ")
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    "value",
    ["db://shop:hunter@22@host/db", "db://shop:x@one,shop:hunter@22@two/db", "jdbc:oracle:thin:shop/hunter@22@//h/db",
     "jdbc:s://h;user=a;pwd=hunter@22", "password=hunter@22,user=shop"],
)  # fmt: skip
def test_a_password_with_an_at_sign_is_a_secret_as_a_whole(value: str) -> None:
    secrets = Secrets()
    secrets.remember(value)
    assert secrets.hide("hunter@22 is wrong for shop") == "[hidden] is wrong for shop"


@pytest.mark.parametrize(
    "key",
    ["rest.oidc.issuer.url", "rest.oidc.jwks.url", "otel.exporter.otlp.endpoint", "listeners", "admin.listeners"],
)
def test_errors_about_the_workers_settings_show_no_password_of_a_url(key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        WorkerConfig({key: "ftp://me:hun@ter22@host", "otel.traces.exporter": "otlp"})
    (message,) = (each for each in raised.value.messages if key in each and "Missing" not in each)
    assert "[hidden]@host" in message
    assert "ter22" not in str(raised.value)


def test_no_kind_of_setting_shows_a_password_that_it_refuses() -> None:
    class Feed(Config):
        size: int = setting("size")
        fast: bool = setting("fast")

    value = 'X required username="me" password="hunter22";'
    with pytest.raises(ConfigError) as raised:
        Feed({"size": value, "fast": value})
    assert str(raised.value).count("[hidden]") == 2
    assert "hunter22" not in str(raised.value)


def test_unregistered_password_in_an_error_is_hidden() -> None:
    assert hide("OSError: no http://me:hunter22@proxy:3128") == "OSError: no http://me:[hidden]@proxy:3128"
