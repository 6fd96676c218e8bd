"""Tokens are asked for when they are needed, kept for most of their life, and nothing secret is told."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from fencepost.config import ConfigError
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.group import group_admin
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.setting.translation import translate
from fencepost.kafka.wire import oauth_tokens
from fencepost.kafka.wire.access import kafka_python_conf
from fencepost.kafka.wire.oauth_tokens import TokenProvider, TokenRefusedError
from fencepost.kafka.wire.requests import RequestClient
from support.tokens import LOGIN_MODULE, TokenServer

SECRET = "hush-4720"


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with TokenServer({"alice": SECRET}) as running:
        yield running


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [1_000_000.0]
    monkeypatch.setattr(oauth_tokens.time, "time", lambda: clock[0])
    return clock


def test_token_is_requested_once_for_all_clients_with_the_same_settings(server: TokenServer) -> None:
    given = {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", **server.login("alice")}
    providers = [
        kafka_python_conf(translate(kind, given).conf)["sasl_oauth_token_provider"]
        for kind in (ClientKind.PRODUCER, ClientKind.ADMIN)
    ]
    with ThreadPoolExecutor(8) as threads:
        tokens = set(threads.map(lambda n: providers[n % 2].token(), range(16)))
    assert len(tokens) == 1
    assert server.asked == ["alice"]
    assert server.forms == [{"grant_type": "client_credentials", "scope": "kafka"}]


@pytest.mark.parametrize("says_life", [True, False])
def test_a_token_is_kept_for_most_of_its_life(server: TokenServer, now_s: list[float], *, says_life: bool) -> None:
    server.life_s, server.says_life = 100.0, says_life
    if not says_life:  # its end stands in it, by the server's clock, which is the same
        now_s[0] = 2_000_000_000.0
    provider = TokenProvider(server.url, "alice", SECRET)
    first = provider.token()
    now_s[0] += 79
    assert provider.token() == first
    now_s[0] += 2
    provider.token()
    assert server.asked == ["alice"] * 2


def test_token_refusal_names_the_address_without_secrets_and_expires(
    server: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_s = time.monotonic()
    monkeypatch.setattr(oauth_tokens.time, "monotonic", lambda: before_s)
    wrong = TokenProvider(server.url, "alice", "hush-other")
    with pytest.raises(TokenRefusedError, match=r"/token gives no token: it answered with status 401") as refused:
        wrong.token()
    assert "hush" not in str(refused.value)
    provider = TokenProvider(server.url, "alice", SECRET)
    server.status = 503
    with pytest.raises(TokenRefusedError, match="it answered with status 503"):
        provider.token()
    server.status = 200
    with pytest.raises(TokenRefusedError, match="it answered with status 503"):  # not asked again at once
        provider.token()
    assert len(server.asked) == 2
    monkeypatch.setattr(oauth_tokens.time, "monotonic", lambda: before_s + 3_600)
    assert provider.token()


def test_token_address_is_shown_without_credentials_and_query(server: TokenServer) -> None:
    url = server.url.replace("http://", "http://somebody:hush-4730@") + "?key=hush-4731"
    with pytest.raises(TokenRefusedError, match=r"http://127.0.0.1:\d+/token gives no token") as refused:
        TokenProvider(url, "alice", "hush-4732").token()
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[]",
        b"{}",
        b'{"access_token": "opaque"}',
        b'{"access_token": "a.b"}',
        b'{"access_token": "a.bm8.c"}',
        b'{"access_token": null, "expires_in": 60}',
        b'{"access_token": "", "expires_in": 60}',
        b'{"access_token": "t", "expires_in": "inf"}',
        b'{"access_token": "t", "expires_in": "nan"}',
        b'{"access_token": "t", "expires_in": null}',
    ],
)
def test_answer_without_a_token_or_an_expiry_is_a_refusal(
    server: TokenServer, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    def answered(url: str, **_: object) -> httpx.Response:
        return httpx.Response(200, content=said, request=httpx.Request("POST", url))

    monkeypatch.setattr(oauth_tokens.httpx, "post", answered)
    with pytest.raises(TokenRefusedError, match="its answer has no access_token, or no expiry time"):
        TokenProvider(server.url, "alice", SECRET).token()


def test_token_refused_by_a_broker_is_not_kept(server: TokenServer) -> None:
    provider = TokenProvider(server.url, "alice", SECRET)
    refused = provider.token()
    provider.forget(refused)
    newer = provider.token()
    assert server.asked == ["alice"] * 2
    provider.forget("some other")
    assert provider.token() == provider.newest == newer
    assert server.asked == ["alice"] * 2, "a refusal that came late must not cost what another client has got since"


def test_valid_token_is_used_while_no_newer_one_can_be_obtained(
    server: TokenServer, now_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth_tokens.time, "monotonic", lambda: now_s[0])
    server.life_s = 100.0
    provider = TokenProvider(server.url, "alice", SECRET)
    first = provider.token()
    server.status = 503
    now_s[0] += 90
    assert provider.token() == first
    assert len(server.asked) == 2, "another one is asked for all the same"
    now_s[0] += 11
    with pytest.raises(TokenRefusedError, match="it answered with status 503"):
        provider.token()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/token", "nonsense", "http://[half"])
def test_an_endpoint_that_cannot_be_reached_is_a_refusal(url: str) -> None:
    with pytest.raises(TokenRefusedError, match="gives no token"):
        TokenProvider(url, "alice", SECRET).token()
    assert SECRET not in repr(TokenProvider(url, "alice", SECRET))


def test_sasl_extensions_are_sent_to_the_broker() -> None:
    extensions = 'extension_logicalCluster="lkc-1" extension_pool="p=2"'
    jaas = f'{LOGIN_MODULE} required clientId="a" clientSecret="{SECRET}" {extensions};'
    given = {"sasl.jaas.config": jaas, "sasl.oauthbearer.token.endpoint.url": "http://localhost/token"}
    conf = translate(ClientKind.CONSUMER, given).conf
    assert conf["sasl.oauthbearer.extensions"] == "logicalCluster=lkc-1,pool=p=2"
    provider = kafka_python_conf({"bootstrap.servers": "a:1", **conf})["sasl_oauth_token_provider"]
    assert provider.extensions() == {"logicalCluster": "lkc-1", "pool": "p=2"}


def test_an_extension_with_a_comma_is_refused_by_name() -> None:
    """The client library would take what follows for another extension."""
    jaas = f'{LOGIN_MODULE} required clientId="a" clientSecret="{SECRET}" extension_pool="a,b";'
    given = {"sasl.jaas.config": jaas, "sasl.oauthbearer.token.endpoint.url": "http://localhost/token"}
    with pytest.raises(ConfigError, match="extension_pool has a comma") as refused:
        translate(ClientKind.CONSUMER, given)
    assert SECRET not in str(refused.value)


def test_member_removal_without_a_token_is_a_retriable_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The caller tries again at its next opportunity; any other error would end its thread."""

    def refuse(*_: object) -> None:
        raise TokenRefusedError("http://a/token gives no token: it answered with status 503")

    monkeypatch.setattr(RequestClient, "coordinator", refuse)
    with pytest.raises(KafkaUnavailableError, match="it answered with status 503"):
        group_admin.remove_static_member({"bootstrap.servers": "a:1"}, "g", "i", 1.0)
