"""Basic authentication (RFC 7617) against a file of users, in the format of Kafka Connect's PropertyFileLoginModule.

A line is `name=password`, where the password may be a hash (`fencepost hash-password`). An empty file, with which Kafka
Connect lets everybody in, is refused.
"""

import base64
import hashlib
import hmac
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fencepost.config.check import ConfigError
from fencepost.config.file import WatchedFiles, read_properties
from fencepost.rest.access.principal import Checked, Principal

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
    """Return a hash of a password as files keep it: `{scrypt}N$r$p$salt$hash`, the last two in base64 (RFC 7914)."""
    used = salt(_SALT_BYTES)
    digest = _digest(password, used, (_N, _R, _P))
    return f"{_PREFIX}{_N}${_R}${_P}${base64.b64encode(used).decode()}${base64.b64encode(digest).decode()}"


def _digest(password: str, salt: bytes, costs: tuple[int, int, int] | None) -> bytes:
    secret = password.encode("utf-8", "surrogateescape")
    if costs is None:
        return hmac.new(salt, secret, hashlib.sha256).digest()
    n, r, p = costs
    return hashlib.scrypt(secret, salt=salt, n=n, r=r, p=p, maxmem=_MOST_BYTES, dklen=32)


KNOWN_FOR_S = 5.0
"""How long a password that was right is not checked again: a changed file takes effect within this time."""


class UserFile:
    """The `Authenticator` of a file, which is read again when it changes. Raises ConfigError."""

    scheme = "basic"
    challenge = 'Basic realm="fencepost", charset="UTF-8"'

    def __init__(self, path: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._users = WatchedFiles([path], lambda: read_users(path))
        self._now_s = now_s

    def guessed_name(self, credentials: str) -> str:
        return _decoded(credentials).partition(":")[0]

    def authenticate(self, credentials: str) -> Checked | None:
        name, separator, password = _decoded(credentials).partition(":")
        users = self._users.content
        found = users.get(name)
        is_right = False
        # A check of each cost in the file: an unknown name takes as long as any that is known.
        for costs, example in {each.costs: each for each in users.values()}.items():
            if found is not None and found.costs == costs:
                is_right = found.is_same(password)
            else:
                example.is_same(password)
        if found is None or not is_right or not separator:
            return None
        return Checked(Principal(name), self._now_s() + KNOWN_FOR_S)


def read_users(path: str) -> dict[str, KeptPassword]:
    """Return the passwords of a file by user. Raises ConfigError, which contains no password."""
    users: dict[str, KeptPassword] = {}
    faults: list[str] = []
    for name, text in read_properties(path).items():
        try:
            if not name or not text:
                raise ValueError("name or password is empty; write it as name=password")
            users[name] = kept(text)
        except ValueError as error:
            faults.append(f"{path}: user '{name}': {error}")
    if not users and not faults:
        faults = [f"{path}: it has no users; add a line name=password"]
    if faults:
        raise ConfigError(faults)
    return users


def _decoded(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode()
    except ValueError:
        return ""
