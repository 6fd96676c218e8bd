"""How the callers of a worker are identified, and what they may do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from fencepost.rest.access.principal import Authenticator
from fencepost.rest.access.rules import EVERYTHING, Rules

_NONE: Mapping[str, Authenticator] = MappingProxyType({})


def _everything() -> Rules:
    return EVERYTHING


@dataclass(frozen=True)
class Access:
    """The protection of the API; without arguments there is none.

    `authenticators` are by scheme. With `has_certificates`, a client certificate identifies a caller as well. Callers
    of `open_paths` are not asked who they are.
    """

    authenticators: Mapping[str, Authenticator] = field(default_factory=lambda: _NONE, repr=False)
    has_certificates: bool = False
    rules: Callable[[], Rules] = field(default=_everything, repr=False)
    open_paths: frozenset[str] = frozenset()

    @property
    def asks(self) -> bool:
        """Return whether callers have to say who they are."""
        return bool(self.authenticators) or self.has_certificates


UNPROTECTED = Access()
