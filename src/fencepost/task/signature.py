"""Signatures of the channel between slots and their worker: method, path, body, time and nonce (KIP-507, wider)."""

import hashlib
import hmac
import os
import threading
import time
from collections.abc import Mapping

SECRET_VARIABLE = "FENCEPOST_CHANNEL_SECRET"
"""The environment variable that carries the channel's secret to executors; Spark redacts it by its name (E11)."""

WINDOW_S = 30.0
_TIME, _NONCE, _SIGNATURE = "X-Fencepost-Time", "X-Fencepost-Nonce", "X-Fencepost-Signature"


class SignatureError(Exception):
    """A request of the channel is unsigned, wrongly signed, stale or replayed."""


def _digest(secret: bytes, method: str, path: str, body: bytes, stamp: str, nonce: str) -> str:
    text = "\n".join((method, path, stamp, nonce, hashlib.sha256(body).hexdigest()))
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


def sign(secret: bytes, method: str, path: str, body: bytes) -> dict[str, str]:
    """Return the headers that sign a request."""
    stamp, nonce = f"{time.time():.3f}", os.urandom(12).hex()
    return {_TIME: stamp, _NONCE: nonce, _SIGNATURE: _digest(secret, method, path, body, stamp, nonce)}


class Verifier:
    """Checks signatures, and remembers nonces for as long as their time is accepted. Safe for many threads."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._lock = threading.Lock()
        self._nonces: dict[str, float] = {}

    def verify(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Raises SignatureError."""
        stamp, nonce = headers.get(_TIME) or "", headers.get(_NONCE) or ""
        expected = _digest(self._secret, method, path, body, stamp, nonce)
        if not hmac.compare_digest(expected.encode(), (headers.get(_SIGNATURE) or "").encode()):
            raise SignatureError("wrong or missing signature")
        now = time.time()
        if abs(now - float(stamp)) > WINDOW_S:
            raise SignatureError("stale request")
        self._remember(nonce, now)

    def _remember(self, nonce: str, now: float) -> None:
        with self._lock:
            if nonce in self._nonces:
                raise SignatureError("replayed request")
            self._nonces[nonce] = now
            if len(self._nonces) > 10_000:
                self._nonces = {n: t for n, t in self._nonces.items() if now - t <= 2 * WINDOW_S}
