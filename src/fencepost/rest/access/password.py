"""Passwords as they are kept: a hash, or the password itself as in Kafka Connect's files.

A hash is `{scrypt}N$r$p$salt$hash`, the last two in base64 (RFC 7914).
"""

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field

_PREFIX = "{scrypt}"
_HASH = re.compile(r"\{scrypt\}(\d+)\$(\d+)\$(\d+)\$([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+)")
# One of the costs that OWASP names as enough: 16 MiB of memory for each check.
_N, _R, _P = 16_384, 8, 5
_MOST_BYTES = 256 * 1024 * 1024
_SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class KeptPassword:
    """A password of a file. `costs` are the N, r and p of its hash, and None if it is kept as it is."""

    costs: tuple[int, int, int] | None
    salt: bytes = field(repr=False)
    expected: bytes = field(repr=False)

    def is_same(self, password: str) -> bool:
        """Compare in a time that does not depend on where they differ."""
        return hmac.compare_digest(_digest(password, self.salt, self.costs), self.expected)


def kept(text: str) -> KeptPassword:
    """Return the password in a line of a file. Raises ValueError, without the password, if its hash is damaged."""
    if not text.startswith(_PREFIX):
        salt = os.urandom(_SALT_BYTES)
        return KeptPassword(None, salt, _digest(text, salt, None))
    match = _HASH.fullmatch(text)
    if match is None:
        raise ValueError("its hash is damaged; make a new one with `fencepost hash-password`")
    n, r, p = (int(match[group]) for group in (1, 2, 3))
    is_power = n > 1 and n & (n - 1) == 0
    if not is_power or not 0 < r * p < 1024 or 128 * r * (n + p) > _MOST_BYTES // 2:
        raise ValueError("its hash takes too long; make a new one with `fencepost hash-password`")
    return KeptPassword((n, r, p), base64.b64decode(match[4] + "=="), base64.b64decode(match[5] + "=="))


def hashed(password: str, salt: Callable[[int], bytes] = os.urandom) -> str:
    """Return a hash of a password as files keep it."""
    used = salt(_SALT_BYTES)
    digest = _digest(password, used, (_N, _R, _P))
    return f"{_PREFIX}{_N}${_R}${_P}${base64.b64encode(used).decode()}${base64.b64encode(digest).decode()}"


def _digest(password: str, salt: bytes, costs: tuple[int, int, int] | None) -> bytes:
    secret = password.encode("utf-8", "surrogateescape")
    if costs is None:
        return hmac.new(salt, secret, hashlib.sha256).digest()
    n, r, p = costs
    return hashlib.scrypt(secret, salt=salt, n=n, r=r, p=p, maxmem=_MOST_BYTES, dklen=32)
