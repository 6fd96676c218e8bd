"""Signatures of the channel."""

import time
from collections.abc import Callable

import pytest

from fencepost.task.channel import client
from fencepost.task.channel.client import SignatureError, SignatureVerifier, Signer, StaleError

SECRET = b"secret"
BODY = b'{"slot":"a"}'


def sign(secret: bytes, method: str, path: str, body: bytes) -> dict[str, str]:
    return Signer(secret).sign(method, path, body)


@pytest.fixture
def verifier() -> SignatureVerifier:
    return SignatureVerifier(SECRET)


def test_a_signed_request_is_accepted_and_each_has_a_nonce_of_its_own(verifier: SignatureVerifier) -> None:
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
    verifier: SignatureVerifier, method: str, path: str, body: bytes, secret: bytes
) -> None:
    with pytest.raises(SignatureError, match="wrong or missing"):
        verifier.verify("POST", "/p", BODY, sign(secret, method, path, body))


@pytest.mark.parametrize("name", ["X-Fencepost-Time", "X-Fencepost-Nonce", "X-Fencepost-Signature"])
@pytest.mark.parametrize("value", [None, "", "1", "\u00e4"])
def test_a_missing_or_changed_header_is_refused(verifier: SignatureVerifier, name: str, value: str | None) -> None:
    headers = sign(SECRET, "POST", "/p", BODY)
    if value is None:
        del headers[name]
    else:
        headers[name] = value
    with pytest.raises(SignatureError):
        verifier.verify("POST", "/p", BODY, headers)


def test_a_replayed_request_is_refused(verifier: SignatureVerifier) -> None:
    headers = sign(SECRET, "POST", "/p", BODY)
    verifier.verify("POST", "/p", BODY, headers)
    with pytest.raises(SignatureError, match="replayed"):
        verifier.verify("POST", "/p", BODY, headers)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let this process count its time otherwise from now on."""
    steady = time.monotonic

    def move(by_s: float) -> None:
        monkeypatch.setattr(client.time, "monotonic", lambda: steady() + by_s)

    return move


@pytest.mark.parametrize("drift_s", [-client.WINDOW_S - 1, client.WINDOW_S + 1])
def test_stale_request_is_refused_and_its_signer_learns_the_verifiers_time(
    verifier: SignatureVerifier, elsewhere: Callable[[float], None], drift_s: float
) -> None:
    signer = Signer(SECRET)
    elsewhere(drift_s)
    headers = signer.sign("POST", "/p", BODY)
    elsewhere(0)
    with pytest.raises(StaleError) as refused:
        verifier.verify("POST", "/p", BODY, headers)
    elsewhere(drift_s)
    assert signer.learns(headers, refused.value.headers)
    again = signer.sign("POST", "/p", BODY)
    elsewhere(0)
    verifier.verify("POST", "/p", BODY, again)


def test_delayed_request_is_refused(verifier: SignatureVerifier, elsewhere: Callable[[float], None]) -> None:
    headers = sign(SECRET, "POST", "/p", BODY)
    elsewhere(client.WINDOW_S + 1)
    with pytest.raises(StaleError):
        verifier.verify("POST", "/p", BODY, headers)


def test_signer_takes_the_time_only_from_the_verifiers_answer(elsewhere: Callable[[float], None]) -> None:
    signer, verifier = Signer(SECRET), SignatureVerifier(SECRET)
    headers, others = signer.sign("POST", "/p", BODY), signer.sign("POST", "/p", BODY)
    elsewhere(100)
    with pytest.raises(StaleError) as refused:
        verifier.verify("POST", "/p", BODY, headers)
    told = dict(refused.value.headers)
    assert not signer.learns(headers, {})
    assert not signer.learns(headers, {**told, "X-Fencepost-Time": "1e9"}), "a time that was made up"
    assert not signer.learns(others, told), "the answer to another request"
    assert signer.learns(headers, told)
