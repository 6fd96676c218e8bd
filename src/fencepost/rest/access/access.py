"""How the callers of a worker are identified, what they may do, and how much: from the worker's file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from fencepost.config.check import ConfigError, collected
from fencepost.config.file import WatchedFiles, read_text
from fencepost.config.rest import ADMIN_HTTPS, LISTENERS_HTTPS, Listener, RestAccessConfig, RestConfig, tls_config
from fencepost.rest.access.basic import UserFile
from fencepost.rest.access.bearer import BearerTokens
from fencepost.rest.access.principal import EVERYTHING, Authenticator, Rules, parse_rules


@dataclass(frozen=True, slots=True)
class Limits:
    """`body_bytes` of a request, and its `requests_per_s`; 0: any number."""

    body_bytes: int = 16 * 1024 * 1024
    requests_per_s: int = 0


NO_LIMITS = Limits()


_NONE: Mapping[str, Authenticator] = MappingProxyType({})


@dataclass(frozen=True)
class Access:
    """The protection of the API; without arguments there is none.

    `authenticators` are by scheme. With `has_certificates`, a client certificate identifies a caller as well. Callers
    of `open_paths` are not asked who they are.
    """

    authenticators: Mapping[str, Authenticator] = field(default_factory=lambda: _NONE, repr=False)
    has_certificates: bool = False
    rules: Callable[[], Rules] = field(default=lambda: EVERYTHING, repr=False)
    open_paths: frozenset[str] = frozenset()

    @property
    def asks(self) -> bool:
        """Return whether callers have to say who they are."""
        return bool(self.authenticators) or self.has_certificates


UNPROTECTED = Access()


def access_of(config: RestAccessConfig) -> Access:
    """Return the protection that a file asks for. Raises ConfigError, with all faults of the file and what it names."""
    faults: list[str] = []
    none: dict[str, Authenticator] = {}
    authenticators = collected(lambda: _authenticators(config), none, faults)
    rules = collected(lambda: _rules(config.roles_file), lambda: EVERYTHING, faults)
    nowhere: list[Listener] = []
    certified = collected(lambda: _with_certificates(config), nowhere, faults)
    access = Access(authenticators, bool(certified), rules, config.paths_without_authentication)
    if not faults:
        faults += _together(config, access, certified)
    if faults:
        raise ConfigError(faults)
    return access


def exposures(config: RestAccessConfig, access: Access) -> list[str]:
    """Return a text for each listener that other machines reach and that is less protected than it could be."""
    if not access.asks:
        key = RestConfig.key_of("rest_unprotected")
        risk = f"there is no authentication, which {key} accepts; whoever reaches it may do everything"
        return [f"REST at {one}: {risk}" for one in config.all_listeners if not one.is_loopback]
    return [
        f"REST at {one}: passwords and tokens cross the network unencrypted; use https, or a proxy that does"
        for one in config.all_listeners
        if not one.is_loopback and not one.is_tls
    ]


def _together(config: RestAccessConfig, access: Access, certified: list[Listener]) -> list[str]:
    """Return what is wrong with settings that are right by themselves."""
    if not access.asks:
        roles = RestAccessConfig.key_of("roles_file")
        unused = [f"{roles}: roles need callers who say who they are: {config.remedies()}"] if config.roles_file else []
        return [*unused, *config.exposed_faults()]
    if access.authenticators:
        return []
    return [
        f"{RestConfig.key_of('listeners')}: nobody could use {one}, as callers are known by their certificates alone: "
        f"remove it, or {config.remedies()}"
        for one in config.all_listeners
        if one not in certified
    ]


def _authenticators(config: RestAccessConfig) -> dict[str, Authenticator]:
    found: dict[str, Authenticator] = {}
    if (users := config.users()) is not None:
        found[UserFile.scheme] = UserFile(users)
    if faults := config.oidc_faults():
        raise ConfigError(faults)
    if config.oidc_issuer is not None:
        found[BearerTokens.scheme] = BearerTokens(config)
    return found


def _rules(path: str | None) -> Callable[[], Rules]:
    if path is None:
        return lambda: EVERYTHING
    watched = WatchedFiles([path], lambda: parse_rules(read_text(path), path))
    return lambda: watched.content


def _with_certificates(config: RestConfig) -> list[Listener]:
    admin = config.admin_rest_listeners or ()
    found = [(one, LISTENERS_HTTPS) for one in config.rest_listeners] + [(one, ADMIN_HTTPS) for one in admin]
    return [one for one, prefix in found if one.is_tls and tls_config(config.originals, prefix).asks_for_certificates]
