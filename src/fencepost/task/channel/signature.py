"""Signatures of the channel between slots and their worker: method, path, body, time and nonce (KIP-507, wider).

The time is the worker's monotonic clock, whose start no one else knows. A request signed with another time is refused,
and the signed answer contains the worker's time; so no executor needs a correct clock.
"""

import hashlib
import hmac
import os
import threading
import time
from collections.abc import Mapping

from fencepost.secret.redaction import CHANNEL_SECRET

SECRET_VARIABLE = CHANNEL_SECRET
"""The environment variable that carries the channel's secret to executors; Spark redacts it by its name (E11)."""

WINDOW_S = 30.0
_TIME, _NONCE, _SIGNATURE = "X-Fencepost-Time", "X-Fencepost-Nonce", "X-Fencepost-Signature"
_BODY = "X-Fencepost-Body-SHA256"


class SignatureError(Exception):
    """A request of the channel is unsigned, wrongly signed or replayed."""


class StaleError(SignatureError):
    """The signature is right, but its time is not. `headers` of the answer give the signer the worker's time."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__("stale request")
        self.headers = headers


def _digest(secret: bytes, *parts: str) -> str:
    return hmac.new(secret, "\n".join(parts).encode(), hashlib.sha256).hexdigest()


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


class Signer:
    """Signs requests with the worker's time as far as it is known. Safe for many threads."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._ahead_s = 0.0  # difference to this process's clock; zero on the worker's own machine

    def sign(self, method: str, path: str, body: bytes) -> dict[str, str]:
        """Return the headers that sign a request."""
        stamp, nonce, body_hash = f"{time.monotonic() + self._ahead_s:.3f}", os.urandom(12).hex(), _hash(body)
        return {
            _TIME: stamp,
            _NONCE: nonce,
            _BODY: body_hash,
            _SIGNATURE: _digest(self._secret, method, path, stamp, nonce, body_hash),
        }

    def learns(self, sent: Mapping[str, str], answered: Mapping[str, str | None]) -> bool:
        """Take the worker's time from the answer to a request with the headers `sent`. False: the answer has none."""
        stamp, signature = answered.get(_TIME) or "", answered.get(_SIGNATURE) or ""
        if not hmac.compare_digest(_digest(self._secret, sent[_NONCE], stamp).encode(), signature.encode()):
            return False
        self._ahead_s = float(stamp) - time.monotonic()
        return True


class SignatureVerifier:
    """Checks signatures, and remembers nonces as long as their time is accepted. Safe for many threads."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._lock = threading.Lock()
        self._nonces: dict[str, float] = {}

    def verify(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Raise SignatureError; its subclass StaleError if only the time is wrong."""
        self.verify_head(method, path, headers)
        self.ensure_body(body, headers)

    def ensure_body(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Raise SignatureError unless it is the body of a request whose head was verified."""
        if not hmac.compare_digest(_hash(body).encode(), (headers.get(_BODY) or "").encode()):
            raise SignatureError("wrong or missing signature")

    def verify_head(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Verify all but the body, which need not be read yet. Raises as `verify` does."""
        stamp, nonce = headers.get(_TIME) or "", headers.get(_NONCE) or ""
        expected = _digest(self._secret, method, path, stamp, nonce, headers.get(_BODY) or "")
        if not hmac.compare_digest(expected.encode(), (headers.get(_SIGNATURE) or "").encode()):
            raise SignatureError("wrong or missing signature")
        now = time.monotonic()
        if abs(now - float(stamp)) > WINDOW_S:
            time_text = f"{now:.3f}"
            raise StaleError({_TIME: time_text, _SIGNATURE: _digest(self._secret, nonce, time_text)})
        self._remember(nonce, now)

    def _remember(self, nonce: str, now: float) -> None:
        with self._lock:
            if nonce in self._nonces:
                raise SignatureError("replayed request")
            self._nonces[nonce] = now
            if len(self._nonces) > 10_000:
                self._nonces = {n: t for n, t in self._nonces.items() if now - t <= 2 * WINDOW_S}
