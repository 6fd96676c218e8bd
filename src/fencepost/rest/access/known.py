"""Credentials that were right a moment ago."""

import hashlib
import hmac
import os
import time
from collections.abc import Callable

from fencepost.rest.access.principal import Checked

_MOST = 1_000


class KnownCredentials:
    """Remembers credentials for as long as their authenticator says, under a keyed hash. On the event loop only."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._key = os.urandom(32)
        self._checked: dict[bytes, Checked] = {}  # the newest last

    def get(self, header: str) -> Checked | None:
        """Return whose credentials a header has; None if they have to be checked."""
        found = self._checked.get(self._hash(header))
        return None if found is None or found.until_s <= self._now_s() else found

    def were_right(self, header: str) -> bool:
        """Return whether they were right once, though they may have to be checked again."""
        return self._hash(header) in self._checked

    def keep(self, header: str, checked: Checked) -> None:
        """Remember them; the oldest are forgotten when there are too many."""
        key = self._hash(header)
        self._checked.pop(key, None)
        self._checked[key] = checked
        while len(self._checked) > _MOST:
            del self._checked[next(iter(self._checked))]

    def _hash(self, header: str) -> bytes:
        return hmac.digest(self._key, header.encode("utf-8", "surrogateescape"), hashlib.sha256)
