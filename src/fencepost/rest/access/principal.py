"""The port of access: a principal, the roles that it can have, and how its credentials are checked."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol


class Role(IntEnum):
    """What a principal may do with a connector; each role includes those before it.

    VIEW: config, status, tasks, figures, topics and offsets. OPERATE: pause, resume, stop, restart, and to read logs,
    which hold what plug-ins print, such as records, and dead letters, which are records. EDIT: create, change and
    delete it, move its offsets, and resend dead letters. ADMIN: the same, and for all connectors also the log levels
    of workers.
    """

    VIEW = 1
    OPERATE = 2
    EDIT = 3
    ADMIN = 4


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody whose credentials were checked: a name, and the groups that an identity provider says."""

    name: str
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Checked:
    """Credentials that are right until `until_s` of the monotonic clock. After that, they are checked again."""

    principal: Principal
    until_s: float


class UncheckedError(Exception):
    """Credentials cannot be checked at the moment, for example because the identity provider does not answer."""


class Authenticator(Protocol):
    """Checks the credentials of one scheme of the Authorization header."""

    @property
    def scheme(self) -> str:
        """Return the scheme in lower case, such as `basic`."""

    @property
    def challenge(self) -> str:
        """Return what an answer 401 says in its header WWW-Authenticate."""

    def guessed_name(self, credentials: str) -> str | None:
        """Return whose password the credentials may be a guess of; None if they cannot be guessed, as a signature."""

    def authenticate(self, credentials: str) -> Checked | None:
        """Return whose credentials they are; None if they are wrong.

        `credentials` is what follows the scheme in the header. Called on threads, several at once. Takes as long for an
        unknown name as for a wrong password. Raises UncheckedError.
        """
