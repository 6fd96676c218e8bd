"""The port of access: a principal, how its credentials are checked, its roles, and the rules that grant them.

A rule is a line such as `user:alice edit orders-*`. It has three columns: who, the role, and a pattern of connector
names, in which `*` stands for any characters and `?` for one. Who is `user:NAME`, `group:NAME`, or `anyone` for every
caller who is known. Columns that contain blanks are quoted, and `#` begins a comment. What no line grants is refused.
"""

import shlex
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from fencepost.config.check import ConfigError
from fencepost.config.version import matches


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


_ALL = "*"
_ANYONE = "anyone"
_USER, _GROUP = "user:", "group:"
_FORM = "write it as WHO ROLE CONNECTORS, such as `user:alice edit orders-*`"


@dataclass(frozen=True)
class Grant:
    """A role for connectors whose names match a pattern. `who` is `user:NAME`, `group:NAME` or `anyone`."""

    who: str
    role: Role
    pattern: str = _ALL

    def is_for(self, principal: Principal) -> bool:
        return self.who in (_ANYONE, _USER + principal.name) or (
            self.who.startswith(_GROUP) and self.who.removeprefix(_GROUP) in principal.groups
        )

    def covers(self, connector: str) -> bool:
        return matches(connector, self.pattern)

    @property
    def covers_all(self) -> bool:
        return self.pattern == _ALL


@dataclass(frozen=True)
class Rules:
    """The grants of a worker."""

    grants: tuple[Grant, ...]

    def allow(self, principal: Principal, role: Role, connector: str) -> bool:
        """Return whether a principal has a role, or a higher one, for a connector."""
        return any(grant.covers(connector) for grant in self._of(principal, role))

    def allow_somewhere(self, principal: Principal, role: Role) -> bool:
        """Return whether it has the role for any connectors."""
        return any(True for _ in self._of(principal, role))

    def allow_everywhere(self, principal: Principal, role: Role) -> bool:
        """Return whether it has the role for all connectors, by one grant."""
        return any(grant.covers_all for grant in self._of(principal, role))

    def _of(self, principal: Principal, role: Role) -> Iterable[Grant]:
        return (grant for grant in self.grants if grant.role >= role and grant.is_for(principal))


EVERYTHING = Rules((Grant(_ANYONE, Role.ADMIN),))
"""The rules of a worker without a file of roles: whoever is known may do everything, as in Kafka Connect."""


def parse_rules(text: str, source: str) -> Rules:
    """Return the rules of a file. Raises ConfigError, which names `source` and the line of each fault."""
    grants: list[Grant] = []
    faults: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            columns = shlex.split(line, comments=True)
            if columns:
                grants.append(_grant(columns))
        except ValueError as error:
            faults.append(f"{source}, line {number}: {error}")
    if not grants and not faults:
        faults = [f"{source}: it grants nothing, so nobody could use the REST API; {_FORM}"]
    if faults:
        raise ConfigError(faults)
    return Rules(tuple(grants))


def _grant(columns: list[str]) -> Grant:
    if len(columns) != 3:
        raise ValueError(f"it has {len(columns)} columns instead of three; {_FORM}")
    who, role, pattern = columns
    is_named = any(who.startswith(prefix) and who != prefix for prefix in (_USER, _GROUP))
    if who != _ANYONE and not is_named:
        raise ValueError(f"'{who}' is not user:NAME, group:NAME or anyone")
    if role.upper() not in Role.__members__:
        raise ValueError(f"'{role}' is not a role; give view, operate, edit or admin")
    return Grant(who, Role[role.upper()], pattern)


PEER = "fencepost.peer"
"""The key in a connection's state under which its server keeps the principal of the client's certificate."""


def principal_of(tls: "ssl.SSLObject | None") -> Principal | None:
    """Return the principal of a connection; None without TLS, without a certificate, or without a subject in it.

    Its name is the certificate's subject, as Kafka's brokers name it, such as `CN=alice,OU=ops,O=Acme`. The certificate
    was verified in the handshake.
    """
    encoded = tls.getpeercert(binary_form=True) if tls is not None else None
    if not encoded:
        return None
    from cryptography.x509 import load_der_x509_certificate  # only where callers have certificates

    name = load_der_x509_certificate(encoded).subject.rfc4514_string()
    return Principal(name) if name else None
