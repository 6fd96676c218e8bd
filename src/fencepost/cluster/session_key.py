"""Signs requests between workers (KIP-507, extended): method, path, body, time, nonce, and the receiving process.

Kafka Connect signs only the body, so anyone who sees such a request can send it again, to other paths and other
workers. These signatures are valid for one process, once, and for half a minute. A signature of only the body is
accepted only if the worker's file allows that (docs/decisions).
"""

import base64
import hashlib
import hmac
import re
import threading
from collections.abc import Callable, Mapping

from fencepost.cluster.errors import BadRequestError, ForbiddenError, NotReadyError
from fencepost.storage.change import SessionKey

SIGNATURE = "x-connect-authorization"
ALGORITHM = "x-connect-request-signature-algorithm"
TIME = "x-fencepost-request-time"
NONCE = "x-fencepost-request-nonce"
BODY = "x-fencepost-request-body-sha256"
"""The hash of the body: with it, a signature is verified before the body is read."""

WINDOW_MS = 30_000
_MOST_NONCE = 64
_KAFKAS = re.compile(r"(POST /connectors/[^/?]+/tasks|PUT /connectors/[^/?]+/fence)(\?.*)?")

_HASHES = {"HmacSHA256": hashlib.sha256, "HmacSHA384": hashlib.sha384, "HmacSHA512": hashlib.sha512}
INVALID_SIGNATURE = "Internal request contained invalid signature."


def signed_headers(
    key: SessionKey, algorithm: str, method: str, path: str, body: bytes, *, audience: str, time_ms: int, nonce: str
) -> dict[str, str]:
    """Return the headers with which `audience`, an incarnation of a worker, accepts this request once.

    `path` is the raw path with its query. `nonce` must not have been used before.
    """
    body_hash = hashlib.sha256(body).hexdigest()
    signature = _mac(key, algorithm, _signed(method, path, body_hash, audience, str(time_ms), nonce))
    return {SIGNATURE: signature, ALGORITHM: algorithm, TIME: str(time_ms), NONCE: nonce, BODY: body_hash}


def for_caller(method: str, caller: str | None) -> str:
    """Return what is signed as the method of a request that a worker forwards for somebody."""
    return method if caller is None else f"{method} for {caller}"


def body_signature(key: SessionKey, algorithm: str, body: bytes) -> str:
    """Return the base64 MAC of a body, as Kafka Connect signs it."""
    return _mac(key, algorithm, body)


class RequestVerifier:
    """Verifies the requests to one process. Thread-safe.

    `audience` is this incarnation, and `algorithms` are those that it accepts. With `accepts_body_only` it also accepts
    Kafka Connect's signatures, which can be replayed, for the two requests that Kafka Connect's workers send.
    """

    def __init__(
        self, audience: str, algorithms: tuple[str, ...], now_ms: Callable[[], int], *, accepts_body_only: bool = False
    ) -> None:
        self._audience = audience
        self._algorithms = algorithms
        self._now_ms = now_ms
        self._accepts_body_only = accepts_body_only
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}

    def verify(
        self,
        key: SessionKey | None,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        caller: str | None = None,
    ) -> bool:
        """Verify a request: by its head, if `body` is None, and else as a whole. Header names are lower case.

        Returns False if the head does not have the body's hash, as those of older workers and of Kafka Connect; then it
        has to be verified with its body. A request that was verified by its head must have the body of that hash.

        `caller` is whom the other worker has identified. A signature of only the body, which does not contain that, is
        then never accepted.

        Raises:
            BadRequestError: There is no signature, or its algorithm is not accepted.
            NotReadyError: This worker does not know the key yet.
            ForbiddenError: The signature is wrong, too old, or was used before.
        """
        signature, algorithm = headers.get(SIGNATURE), headers.get(ALGORITHM)
        if not signature or not algorithm:
            raise BadRequestError("Internal request missing required signature")
        if algorithm not in self._algorithms or algorithm not in _HASHES:
            raise BadRequestError(
                f"This worker does not support the '{algorithm}' key signing algorithm used by other workers."
            )
        if key is None:
            raise NotReadyError("This worker is still reading the session key; try again.")
        time_text, nonce = headers.get(TIME, ""), headers.get(NONCE, "")
        if not time_text and not nonce and caller is None and self._accepts_body_only:
            if _KAFKAS.fullmatch(f"{method} {path}") is None:
                raise ForbiddenError(INVALID_SIGNATURE)
            if body is not None:
                _ensure_equal(body_signature(key, algorithm, body), signature)
            return body is not None
        now = self._ensure_current(time_text, nonce)
        if body is None and BODY not in headers:
            return False
        body_hash = headers[BODY] if body is None else hashlib.sha256(body).hexdigest()
        signed = _signed(for_caller(method, caller), path, body_hash, self._audience, time_text, nonce)
        _ensure_equal(_mac(key, algorithm, signed), signature)
        self._ensure_new(nonce, now)  # only now, so that unsigned requests use no memory
        return True

    def _ensure_current(self, time_text: str, nonce: str) -> int:
        now = self._now_ms()
        if not time_text.isascii() or not time_text.isdigit() or not 0 < len(nonce) <= _MOST_NONCE:
            raise ForbiddenError(INVALID_SIGNATURE)
        if abs(now - int(time_text)) > WINDOW_MS:
            raise ForbiddenError(
                "Internal request is too old, or the clocks of the workers differ by more than "
                f"{WINDOW_MS // 1000} seconds; set them right."
            )
        return now

    def _ensure_new(self, nonce: str, now: int) -> None:
        with self._lock:
            while self._seen and self._seen[oldest := next(iter(self._seen))] < now:
                del self._seen[oldest]
            if nonce in self._seen:
                raise ForbiddenError("Internal request was received before.")
            self._seen[nonce] = now + 2 * WINDOW_MS  # until its time is certainly too old


def ensure_body(headers: Mapping[str, str], body: bytes) -> None:
    """Raise ForbiddenError unless it is the body of a request that was verified by its head."""
    _ensure_equal(hashlib.sha256(body).hexdigest(), headers[BODY])


def _signed(method: str, path: str, body_hash: str, audience: str, time_text: str, nonce: str) -> bytes:
    """Return the bytes to sign: a line for each field. Line ends in a field are removed, to keep fields apart."""
    fields = (method, path, audience, time_text, nonce, body_hash)
    return "\n".join(field.replace("\n", "") for field in fields).encode("utf-8", "surrogateescape")


def _mac(key: SessionKey, algorithm: str, text: bytes) -> str:
    return base64.b64encode(hmac.new(key.key, text, _HASHES[algorithm]).digest()).decode()


def _ensure_equal(wanted: str, given: str) -> None:
    if not hmac.compare_digest(wanted.encode(), given.encode("utf-8", "surrogateescape")):
        raise ForbiddenError(INVALID_SIGNATURE)
