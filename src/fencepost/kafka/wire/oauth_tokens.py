"""Tokens for SASL's OAUTHBEARER, by OAuth 2.0's client credentials (RFC 6749, 4.4; KIP-768).

librdkafka asks for its own; this is for the clients whose protocol is kafka-python's.
https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md: sasl.oauthbearer.*
"""

import base64
import math
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

from fencepost.kafka.kafka_library import AbstractTokenProvider

_ANSWER_S = 10.0
_RENEWED_AFTER = 0.8  # of a token's life, as Java's clients do
_SHORTEST_LIFE_S = 1.0
_ASKED_AGAIN_S = 1.0  # after a refusal: clients that open connections ask far more often
_MOST_PROVIDERS = 64
_PREFIX = "sasl.oauthbearer."
_URL = f"{_PREFIX}token.endpoint.url"


class TokenRefusedError(OSError):
    """The endpoint refuses a token, or cannot be reached. The text has no secrets (E11)."""


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Requests a token, and keeps it for most of its lifetime. Thread-safe."""

    def __init__(
        self,
        url: str,
        client_id: str,
        secret: str,
        scope: str | None = None,
        extensions: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._url = url
        self._shown_url = _shown(url)
        self._access = (client_id, secret)
        self._form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
        self._extensions = dict(extensions or {})
        self._asking = threading.Lock()
        self._token = ""
        self._renew_at_s = self._ends_at_s = 0.0
        self._refused: TokenRefusedError | None = None
        self._ask_at_s = 0.0

    def token(self) -> str:
        """Return a valid token. If it is due for renewal but there is no new one yet, it is used until it expires.

        Raises TokenRefusedError.
        """
        with self._asking:
            if not self._token or time.time() >= self._renew_at_s:
                try:
                    self._renew()
                except TokenRefusedError:
                    if not self._token or time.time() >= self._ends_at_s:
                        raise
            return self._token

    @property
    def newest(self) -> str:
        """Return the last token, without requesting one; empty if there is none."""
        return self._token

    def forget(self, token: str) -> None:
        """Discard a token that a broker has refused, whatever its lifetime, so that the next call requests another.

        A newer token, which another client has requested in the meantime, is kept.
        """
        with self._asking:
            if self._token == token:
                self._token = ""

    def extensions(self) -> dict[str, str]:
        return self._extensions

    def _renew(self) -> None:
        if self._refused is not None and time.monotonic() < self._ask_at_s:
            raise TokenRefusedError(str(self._refused))
        try:
            self._token, self._renew_at_s, self._ends_at_s = self._asked()
            self._refused = None
        except TokenRefusedError as error:
            self._refused, self._ask_at_s = error, time.monotonic() + _ASKED_AGAIN_S
            raise

    def _asked(self) -> tuple[str, float, float]:
        now_s = time.time()
        try:
            answer = httpx.post(self._url, data=self._form, auth=self._access, timeout=_ANSWER_S)
        except httpx.InvalidURL:
            raise TokenRefusedError(f"{self._shown_url} gives no token: it is not a valid URL") from None
        except httpx.HTTPError as error:
            raise TokenRefusedError(f"{self._shown_url} gives no token: {error or type(error).__name__}") from None
        if not answer.is_success:
            raise TokenRefusedError(f"{self._shown_url} gives no token: it answered with status {answer.status_code}")
        try:
            said = orjson.loads(answer.content)
            token = _text(said["access_token"])
            life_s = _finite(said["expires_in"]) if "expires_in" in said else _finite(_ends_s(token)) - now_s
        except (ValueError, LookupError, TypeError):
            raise TokenRefusedError(
                f"{self._shown_url} gives no token: its answer has no access_token, or no expiry time"
            ) from None
        life_s = max(_SHORTEST_LIFE_S, life_s)
        return token, now_s + life_s * _RENEWED_AFTER, now_s + life_s


def token_provider(conf: Mapping[str, Any]) -> TokenProvider:
    """Return the provider for librdkafka's settings. Clients with the same settings share it and its token."""
    names = ("token.endpoint.url", "client.id", "client.secret", "scope", "extensions")
    return _provider(*(str(conf.get(_PREFIX + name) or "") for name in names))


@lru_cache(_MOST_PROVIDERS)
def _provider(url: str, client_id: str, secret: str, scope: str, extensions: str) -> TokenProvider:
    pairs = (pair.partition("=") for pair in extensions.split(",") if pair)
    return TokenProvider(url, client_id, secret, scope, {key.strip(): text for key, _, text in pairs})


def _text(value: object) -> str:
    """Return a text that is not empty. Raises ValueError for anything else: brokers would get null as a token."""
    if not isinstance(value, str) or not value:
        raise ValueError("no token")
    return value


def _finite(value: Any) -> float:
    """Return a finite number. Raises ValueError otherwise: with infinity a token would never be renewed."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("not a number of seconds")
    return number


def _shown(url: str) -> str:
    """Return a URL without parts that may be secret (user, query); for an invalid one, the name of the setting."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return _URL
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else _URL


def _ends_s(token: str) -> float:
    payload = token.split(".")[1]
    return float(orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
