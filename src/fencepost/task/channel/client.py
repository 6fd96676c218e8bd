"""The channel between slots and their worker: small signed HTTP requests with JSON bodies, with the executor's end.

Signatures are of method, path, body, time and nonce (KIP-507, wider). The time is the worker's monotonic clock, whose
start no one else knows. A request signed with another time is refused, and the signed answer contains the worker's
time; so no executor needs a correct clock.
"""

import hashlib
import hmac
import http.client
import os
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson

from fencepost.api import FencedError
from fencepost.secret.redaction import CHANNEL_SECRET
from fencepost.storage.offset_copies import OffsetCopy
from fencepost.task.channel.message import Path
from fencepost.task.channel.split_message import (
    RunRequest,
    SplitAdmission,
    SplitCopies,
    SplitExpiry,
    SplitReport,
    SplitRun,
    SplitUnchanged,
    TemporaryFailure,
)

SECRET_VARIABLE = CHANNEL_SECRET
"""The environment variable that carries the channel's secret to executors; Spark redacts it by its name (E11)."""

WINDOW_S = 30.0
_TIME, _NONCE, _SIGNATURE = "X-Fencepost-Time", "X-Fencepost-Nonce", "X-Fencepost-Signature"
_BODY = "X-Fencepost-Body-SHA256"

CA_VARIABLE = "FENCEPOST_CHANNEL_CA"
"""The environment variable with the PEM text of the authority that signed the channel's certificate."""


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


class ChannelError(Exception):
    """The worker could not be reached, or refused the request."""


class ChannelFailedError(ChannelError):
    """The worker failed while it answered, or the request could not be written. A later call may succeed."""


class ChannelRefusedError(ChannelError):
    """The worker answered with a refusal: it does not know this slot or run, or does so no longer."""


class ChannelClient:
    """Calls the worker. Safe for many threads: each has its own connection."""

    def __init__(self, url: str, secret: bytes | None = None, ca_pem: str | None = None) -> None:
        self._url = urlsplit(url)
        self._signer = Signer(secret if secret is not None else os.environ.get(SECRET_VARIABLE, "").encode())
        self._ca_pem = ca_pem if ca_pem is not None else os.environ.get(CA_VARIABLE)
        self._local = threading.local()

    def call(self, path: str, body: dict[str, Any], *, timeout_s: float = 30.0) -> dict[str, Any]:
        """POST `body` and return the answer.

        Raises ChannelError: ChannelRefusedError if the worker refuses, ChannelFailedError if it fails.
        """
        try:
            data = orjson.dumps(body)
        except TypeError as error:
            raise ChannelFailedError(f"{path}: the request cannot be written as JSON: {error}") from error
        for is_last in (False, True):
            try:
                return self._exchange(path, data, timeout_s)
            except (OSError, http.client.HTTPException) as error:
                self._forget()
                # A kept connection may have been closed since; the failure of a new one is final.
                if is_last or isinstance(error, TimeoutError):
                    raise ChannelError(f"{self._url.geturl()}{path}: {error!r}") from error
        raise AssertionError("unreachable")

    def release(self) -> None:
        """Close the calling thread's connection until its next call, which may be far away."""
        self._forget()

    def _exchange(self, path: str, data: bytes, timeout_s: float) -> dict[str, Any]:
        """Send a request, and repeat it once if the worker's clock differs from what we assumed."""
        signed, response, answer = self._post(path, data, timeout_s)
        if response.status == 403 and self._signer.learns(signed, dict(response.headers)):
            _, response, answer = self._post(path, data, timeout_s)
        if response.status != 200:
            kind = ChannelFailedError if response.status >= 500 else ChannelRefusedError
            raise kind(f"{path}: {response.status} {answer.decode(errors='replace')}")
        result: dict[str, Any] = orjson.loads(answer)
        return result

    def _post(self, path: str, data: bytes, timeout_s: float) -> tuple[dict[str, str], http.client.HTTPResponse, bytes]:
        connection = self._connection(timeout_s)
        signed = self._signer.sign("POST", path, data)
        connection.request("POST", path, body=data, headers={"Content-Type": "application/json", **signed})
        response = connection.getresponse()
        return signed, response, response.read()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect(timeout_s)
            self._local.connection = connection
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        return connection

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = str(self._url.hostname), self._url.port
        if self._url.scheme == "https":
            context = ssl.create_default_context(cadata=self._ca_pem or None)
            return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(host, port, timeout=timeout_s)

    def _forget(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None


class SplitClient:
    """The worker as the executor of a split sees it. Calls raise ChannelError."""

    def __init__(self, channel_url: str, run: str) -> None:
        self._channel = ChannelClient(channel_url)
        self._run = run

    def _call(self, path: Path, body: dict[str, Any]) -> dict[str, Any]:
        return self._channel.call(path, body, timeout_s=120)

    def _ask(self, path: Path) -> dict[str, Any]:
        return self._call(path, RunRequest(self._run).to_json())

    def spec(self) -> SplitRun:
        return SplitRun.from_json(self._ask(Path.SPLIT_SPEC))

    def admit(self) -> SplitAdmission:
        """Ask to write, after every `init_transactions` (steps 6 and 7 of docs/architecture.md). Raises FencedError."""
        answer = SplitAdmission.from_json(self._ask(Path.SPLIT_ADMIT))
        if not answer.is_admitted:
            raise FencedError(f"split run {self._run} is not admitted: {answer.reason}")
        return answer

    def is_unchanged(self) -> bool:
        """Say whether the splits still are as planned; called before every commit."""
        return SplitUnchanged.from_json(self._ask(Path.SPLIT_UNCHANGED)).is_unchanged

    def copy(self, copies: Sequence[OffsetCopy]) -> None:
        """Let the worker copy offsets to its own topic; returns once they are acknowledged."""
        self._call(Path.SPLIT_COPY, SplitCopies(self._run, tuple(copies)).to_json())

    def report(self, rows: Sequence[int], *, skipped: bool, commit_s: float) -> None:
        """Report that the splits are committed, with their numbers of rows, or were found already done (`skipped`)."""
        self._call(Path.SPLIT_REPORT, SplitReport(self._run, tuple(rows), skipped, commit_s).to_json())

    def expired(self, after_s: float) -> None:
        """Report that the broker ended the transaction because it was open for longer than its timeout."""
        self._call(Path.SPLIT_EXPIRED, SplitExpiry(self._run, after_s).to_json())

    def temporary_failure(self, reason: str) -> None:
        """Report that the run ends with a passing error, so that it is retried without a limit."""
        self._call(Path.SPLIT_TEMPORARY_FAILURE, TemporaryFailure(self._run, reason).to_json())
