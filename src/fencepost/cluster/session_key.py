"""Signatures of requests between workers (KIP-507, wider): method, path, body, time and nonce.

A request that is signed over its body alone, as Kafka Connect does, is accepted only by a cluster whose
`connect.protocol` is `sessioned` and that has workers of both kinds; ours never sends one.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping

from fencepost.cluster.operations import BadRequestError, ForbiddenError, NotReadyError
from fencepost.storage.change import SessionKey

SIGNATURE = "x-connect-authorization"
ALGORITHM = "x-connect-request-signature-algorithm"

_HASHES = {"HmacSHA256": hashlib.sha256, "HmacSHA384": hashlib.sha384, "HmacSHA512": hashlib.sha512}


def body_signature(key: SessionKey, algorithm: str, body: bytes) -> str:
    """Return the base64 MAC of a body, as Kafka Connect signs it."""
    return base64.b64encode(hmac.new(key.key, body, _HASHES[algorithm]).digest()).decode()


def verify_body_signature(
    key: SessionKey | None, body: bytes, headers: Mapping[str, str], algorithms: tuple[str, ...]
) -> None:
    """Check the signature of an internal request. Header names are lower case.

    Raises:
        BadRequestError: there is no signature, or its algorithm is not one of `algorithms`.
        NotReadyError: this worker does not know the key yet.
        ForbiddenError: the signature is wrong.
    """
    signature, algorithm = headers.get(SIGNATURE), headers.get(ALGORITHM)
    if not signature or not algorithm:
        raise BadRequestError("Internal request missing required signature")
    if algorithm not in algorithms or algorithm not in _HASHES:
        raise BadRequestError(
            f"This worker does not support the '{algorithm}' key signing algorithm used by other workers."
        )
    if key is None:
        raise NotReadyError("This worker is still reading the session key; try again.")
    if not hmac.compare_digest(body_signature(key, algorithm, body), signature):
        raise ForbiddenError("Internal request signature did not match.")
