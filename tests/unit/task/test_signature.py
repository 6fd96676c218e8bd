"""Signatures of the channel."""

import pytest

from fencepost.task import signature
from fencepost.task.signature import SignatureError, Verifier, sign

SECRET = b"secret"
BODY = b'{"slot":"a"}'


@pytest.fixture
def verifier() -> Verifier:
    return Verifier(SECRET)


def test_a_signed_request_is_accepted_and_each_has_a_nonce_of_its_own(verifier: Verifier) -> None:
    for _ in range(3):
        verifier.verify("POST", "/task/admit", BODY, sign(SECRET, "POST", "/task/admit", BODY))


@pytest.mark.parametrize(
    ("method", "path", "body", "secret"),
    [
        ("PUT", "/p", BODY, SECRET),
        ("POST", "/other", BODY, SECRET),
        ("POST", "/p", BODY + b" ", SECRET),
        ("POST", "/p", BODY, b"another"),
    ],
)
def test_a_signature_covers_method_path_and_body(
    verifier: Verifier, method: str, path: str, body: bytes, secret: bytes
) -> None:
    with pytest.raises(SignatureError, match="wrong or missing"):
        verifier.verify("POST", "/p", BODY, sign(secret, method, path, body))


@pytest.mark.parametrize("name", ["X-Fencepost-Time", "X-Fencepost-Nonce", "X-Fencepost-Signature"])
@pytest.mark.parametrize("value", [None, "", "1", "\u00e4"])
def test_a_missing_or_changed_header_is_refused(verifier: Verifier, name: str, value: str | None) -> None:
    headers = sign(SECRET, "POST", "/p", BODY)
    if value is None:
        del headers[name]
    else:
        headers[name] = value
    with pytest.raises(SignatureError):
        verifier.verify("POST", "/p", BODY, headers)


def test_a_replayed_request_is_refused(verifier: Verifier) -> None:
    headers = sign(SECRET, "POST", "/p", BODY)
    verifier.verify("POST", "/p", BODY, headers)
    with pytest.raises(SignatureError, match="replayed"):
        verifier.verify("POST", "/p", BODY, headers)


@pytest.mark.parametrize("drift_s", [-signature.WINDOW_S - 1, signature.WINDOW_S + 1])
def test_a_stale_request_is_refused(verifier: Verifier, monkeypatch: pytest.MonkeyPatch, drift_s: float) -> None:
    headers = sign(SECRET, "POST", "/p", BODY)
    now = signature.time.time()
    monkeypatch.setattr(signature.time, "time", lambda: now + drift_s)
    with pytest.raises(SignatureError, match="stale"):
        verifier.verify("POST", "/p", BODY, headers)
