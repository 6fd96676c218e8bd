"""Roles by connector: `user:alice edit orders-*`, a line for each grant.

A line has three columns: who, the role, and a pattern of connector names, in which `*` stands for any characters and
`?` for one. Who is `user:NAME`, `group:NAME`, or `anyone` for every caller who is known. Columns that contain blanks
are quoted, and `#` begins a comment. What no line grants is refused.
"""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from fencepost.config.errors import ConfigError
from fencepost.config.name_pattern import matches
from fencepost.rest.access.principal import Principal, Role

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
