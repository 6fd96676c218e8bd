"""Tokens of a small issuer, which has keys, a discovery document and a key set, over HTTP where that matters."""

import base64
import hmac
import json
import time
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from fencepost.config import ConfigError
from fencepost.config.rest import RestOidcConfig
from fencepost.rest.access.bearer import KNOWN_FOR_S, LEEWAY_S, BearerTokens
from fencepost.rest.access.principal import Principal, UncheckedError
from support.http_answers import Answer, Asked, HttpAnswers

RSA, OTHER = RSAKey.generate_key(2048, {"kid": "rsa"}), RSAKey.generate_key(2048, {"kid": "rsa"})
EC, ED = ECKey.generate_key("P-256", {"kid": "ec"}), OKPKey.generate_key("Ed25519", {"kid": "ed"})
NOW_S = 1_800_000_000


class Issuer:
    """An OpenID Connect issuer with these keys; `is_away`: it answers with 500."""

    def __init__(self, *keys: Key) -> None:
        self.keys = list(keys)
        self.is_away = False
        self.named: str | None = None
        self.keys_at: str | None = None
        self.others: list[Any] = []
        self._server = HttpAnswers(self._answer)
        self.url = f"{self._server.url}/realms/data"

    def __enter__(self) -> "Issuer":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    @property
    def asked(self) -> list[str]:
        return [each.path.rpartition("/")[2] for each in self._server.asked]

    def _answer(self, asked: Asked) -> Answer:
        if self.is_away:
            return Answer({}, 500)
        if asked.path == "/realms/data/.well-known/openid-configuration":
            return Answer({"issuer": self.named or self.url, "jwks_uri": self.keys_at or f"{self.url}/certs"})
        return Answer({"keys": [*self.others, *(key.as_dict(private=False) for key in self.keys)]})

    def token(self, key: Key = RSA, alg: str = "RS256", header: dict[str, Any] | None = None, **more: Any) -> str:
        claims = {"iss": self.url, "aud": ["fencepost", "other"], "sub": "alice", "exp": NOW_S + 300, **more}
        whole = {"alg": alg, "kid": key.kid, **(header or {})}
        given = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode({k: v for k, v in whole.items() if v is not None}, given, key, algorithms=[alg])


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def tokens_of(issuer: Issuer, clock: Clock | None = None, **more: str) -> BearerTokens:
    config = RestOidcConfig({"rest.oidc.issuer.url": issuer.url, "rest.oidc.audience": "fencepost", **more})
    assert config.oidc_faults() == []
    clock = clock or Clock()
    return BearerTokens(config, wall_s=lambda: NOW_S + clock.now_s, now_s=clock)


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize(
    ("key", "alg"), [(RSA, "RS256"), (RSA, "PS512"), (EC, "ES256"), (ED, "EdDSA"), (ED, "Ed25519")]
)
def test_a_token_of_the_issuer_names_its_caller(key: Key, alg: str) -> None:
    with Issuer(RSA, EC, ED) as issuer:
        checked = tokens_of(issuer).authenticate(issuer.token(key, alg, groups=["ops", 3, "data"]))
    assert checked is not None
    assert (checked.principal, checked.until_s) == (Principal("alice", frozenset({"ops", "data"})), KNOWN_FOR_S)


def test_name_and_groups_come_from_the_configured_claims() -> None:
    more = {"rest.oidc.name.claim": "preferred_username", "rest.oidc.groups.claim": "realm_access.roles"}
    with Issuer(RSA) as issuer:
        token = issuer.token(preferred_username="al", realm_access={"roles": ["ops"]}, groups=["wrong"])
        checked = tokens_of(issuer, **more).authenticate(token)
    assert checked is not None
    assert checked.principal == Principal("al", frozenset({"ops"}))


def changed(token: str, part: int, text: dict[str, Any]) -> str:
    parts = token.split(".")
    parts[part] = base64.urlsafe_b64encode(json.dumps(text).encode()).rstrip(b"=").decode()
    return ".".join(parts)


def signed_with_a_secret(token: str, secret: bytes) -> str:
    text, _, _ = changed(token, 0, {"alg": "HS256", "kid": "rsa"}).rpartition(".")
    signature = hmac.digest(secret, text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


WRONG = {
    "of another issuer": lambda i: i.token(iss="https://evil.example"),
    "of an issuer with a slash": lambda i: i.token(iss=i.url + "/"),
    "without an issuer": lambda i: i.token(iss=None),
    "for another service": lambda i: i.token(aud="other"),
    "for a service that begins alike": lambda i: i.token(aud="fencepost2"),
    "for nobody": lambda i: i.token(aud=None),
    "expired": lambda i: i.token(exp=NOW_S - LEEWAY_S),
    "without an end": lambda i: i.token(exp=None),
    "with an end that is text": lambda i: i.token(exp="never"),
    "not valid yet": lambda i: i.token(nbf=NOW_S + LEEWAY_S + 10),
    "without a name": lambda i: i.token(sub=None),
    "with a name that is empty": lambda i: i.token(sub=""),
    "signed by another key of the same name": lambda i: i.token(OTHER),
    "signed by an unknown key": lambda i: i.token(OTHER, header={"kid": "unknown"}),
    "naming no key where there are several": lambda i: i.token(header={"kid": None}),
    "signed with the public key as a secret": lambda i: signed_with_a_secret(i.token(), RSA.as_pem(private=False)),
    "not signed": lambda i: changed(i.token(), 0, {"alg": "none", "kid": "rsa"}).rpartition(".")[0] + ".",
    "changed": lambda i: changed(i.token(), 1, {"iss": i.url, "aud": "fencepost", "sub": "root", "exp": NOW_S + 9}),
    "with a key in it": lambda i: i.token(OTHER, header={"jwk": OTHER.as_dict(private=False), "kid": None}),
    "cut": lambda i: i.token()[:-10],
    "of two parts": lambda i: i.token().rpartition(".")[0],
    "empty": lambda i: "",
    "not ASCII": lambda i: i.token() + "ä",
    "too long": lambda i: i.token(padding="x" * 20_000),
    "a list": lambda i: changed(i.token(), 0, []),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("kind", WRONG)
def test_any_other_token_is_refused(kind: str) -> None:
    with Issuer(RSA, EC) as issuer:
        tokens = tokens_of(issuer)
        assert tokens.authenticate(WRONG[kind](issuer)) is None
        assert tokens.authenticate(issuer.token()) is not None


def test_token_is_accepted_until_it_expires() -> None:
    clock = Clock()
    with Issuer(RSA) as issuer:
        tokens = tokens_of(issuer, clock)
        checked = tokens.authenticate(issuer.token(exp=NOW_S + 5))
        assert checked is not None
        assert checked.until_s == 5 + LEEWAY_S
        clock.now_s = 36.0
        assert tokens.authenticate(issuer.token(exp=NOW_S + 5)) is None


def test_new_issuer_key_is_found_and_unknown_keys_are_looked_up_rarely() -> None:
    clock, newer = Clock(), ECKey.generate_key("P-256", {"kid": "newer"})
    with Issuer(RSA) as issuer:
        tokens = tokens_of(issuer, clock)
        assert tokens.authenticate(issuer.token()) is not None
        clock.now_s = 20.0
        for _ in range(50):
            assert tokens.authenticate(issuer.token(newer, "ES256")) is None
        assert issuer.asked.count("certs") == 2
        issuer.keys = [newer]
        clock.now_s = 31.0
        assert tokens.authenticate(issuer.token(newer, "ES256")) is not None
        assert tokens.authenticate(issuer.token()) is None  # its key was withdrawn


def test_token_check_fails_while_the_issuer_is_away_and_recovers_later() -> None:
    clock = Clock()
    with Issuer(RSA) as issuer:
        issuer.is_away = True
        tokens = tokens_of(issuer, clock)
        with pytest.raises(UncheckedError, match="cannot be checked"):
            tokens.authenticate(issuer.token())
        issuer.is_away = False
        clock.now_s = 11.0
        assert tokens.authenticate(issuer.token()) is not None
        issuer.is_away, clock.now_s = True, 700.0
        assert tokens.authenticate(issuer.token(exp=NOW_S + 1000)) is not None


def test_absent_issuer_is_not_called_again_for_every_token() -> None:
    clock = Clock()
    with Issuer(RSA) as issuer:
        issuer.is_away = True
        tokens = tokens_of(issuer, clock)
        for _ in range(5):
            with pytest.raises(UncheckedError, match="cannot be checked"):
                tokens.authenticate(issuer.token())
        assert len(issuer.asked) == 1
        issuer.is_away, clock.now_s = False, 2.0
        assert tokens.authenticate(issuer.token()) is not None


def test_a_discovery_document_of_another_issuer_is_not_believed() -> None:
    with Issuer(RSA) as issuer:
        issuer.named = "https://evil.example"
        with pytest.raises(UncheckedError, match="does not describe"):
            tokens_of(issuer).authenticate(issuer.token())


@pytest.mark.parametrize(
    "other",
    [{"kty": "OKP", "crv": "X999", "x": "AAAA", "kid": "new"}, {"kty": "FUTURE", "kid": "new"}, {"kid": "new"}, "key",
     {"kty": "RSA", "use": "enc", "n": "!", "e": "AQAB", "kid": "damaged"}, {"kty": "EC", "crv": "P-256", "kid": "x"}],
)  # fmt: skip
def test_key_that_is_not_understood_is_skipped(other: Any) -> None:
    with Issuer(RSA) as issuer:
        issuer.others = [other]
        assert tokens_of(issuer).authenticate(issuer.token()) is not None
        issuer.keys = []
        with pytest.raises(UncheckedError, match="no keys that this worker can read"):
            tokens_of(issuer).authenticate(issuer.token())


def test_keys_are_not_read_over_plain_http() -> None:
    with Issuer(RSA) as issuer:
        issuer.keys_at = "http://issuer.example/certs"
        with pytest.raises(UncheckedError, match=r"jwks_uri http://issuer.example/certs .* must be an https URL"):
            tokens_of(issuer).authenticate(issuer.token())


def test_answer_of_an_issuer_has_a_largest_size() -> None:
    with Issuer(RSA) as issuer:
        issuer.others = ["x" * 2_000_000]
        with pytest.raises(UncheckedError, match="more than 1048576 bytes"):
            tokens_of(issuer).authenticate(issuer.token())


def test_keys_are_read_from_the_configured_jwks_url() -> None:
    with Issuer(RSA) as issuer:
        tokens = tokens_of(issuer, **{"rest.oidc.jwks.url": f"{issuer.url}/keys"})
        assert tokens.authenticate(issuer.token()) is not None
        assert issuer.asked == ["keys"]


@pytest.mark.parametrize("url", ["http://issuer.example", "ftp://x", "issuer.example", "http://127.0.0.1.example"])
def test_plain_http_issuer_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="https"):
        RestOidcConfig({"rest.oidc.issuer.url": url})


def test_oidc_settings_that_contradict_each_other_are_refused() -> None:
    [alone] = RestOidcConfig({"rest.oidc.issuer.url": "https://i"}).oidc_faults()
    assert "rest.oidc.audience" in alone
    [useless] = RestOidcConfig({"rest.oidc.audience": "a"}).oidc_faults()
    assert "rest.oidc.issuer.url" in useless


def test_token_expiry_is_compared_with_the_wall_clock() -> None:
    with Issuer(RSA) as issuer:
        config = RestOidcConfig({"rest.oidc.issuer.url": issuer.url, "rest.oidc.audience": "fencepost"})
        tokens = BearerTokens(config)
        assert tokens.authenticate(issuer.token(exp=int(time.time()) + 300)) is not None
        assert tokens.authenticate(issuer.token(exp=int(time.time()) - 300)) is None
