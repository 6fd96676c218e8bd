"""Basic authentication (RFC 7617) against a file of users, in the format of Kafka Connect's PropertyFileLoginModule.

A line is `name=password`, where the password may be a hash (`fencepost hash-password`). An empty file, with which Kafka
Connect lets everybody in, is refused.
"""

import base64
import time
from collections.abc import Callable

from fencepost.config.errors import ConfigError
from fencepost.config.properties import read_properties
from fencepost.config.watched import WatchedFiles
from fencepost.rest.access.password import KeptPassword, kept
from fencepost.rest.access.principal import Checked, Principal

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
