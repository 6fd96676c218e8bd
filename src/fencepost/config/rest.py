"""The settings of a worker's REST server: its listeners with their TLS, who may use it, and bearer tokens."""

import importlib.util
import ipaddress
import os
import re
import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from fencepost.config.check import Check, ConfigError, at_least, between, each, one_of, parsed_by
from fencepost.config.client import SecurityConfig
from fencepost.config.jaas import login_options
from fencepost.config.setting import LOW, MEDIUM, Config, Type, setting
from fencepost.guide import guide

_LISTENER = re.compile(r"(?P<scheme>[a-zA-Z]+)://(?:\[(?P<v6>[0-9a-fA-F:.%]+)\]|(?P<host>[^:/\[\]]*)):(?P<port>\d+)/?")
_SCHEMES = ("http", "https")
_LARGEST_PORT = 65_535
_EXAMPLE = "write it like http://localhost:8083 (no host: all interfaces)"


@dataclass(frozen=True)
class Listener:
    """A scheme (http or https), a host ("" stands for all interfaces) and a port (0: any free one)."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Listener":
        """Raise ConfigError with the reason."""
        match = _LISTENER.fullmatch(text.strip())
        if match is None:
            raise ConfigError(f"'{text}' is not a listener; {_EXAMPLE}")
        scheme, port = match["scheme"].lower(), int(match["port"])
        if scheme not in _SCHEMES:
            raise ConfigError(f"'{text}' has the protocol {scheme}; listeners speak {' or '.join(_SCHEMES)}")
        if port > _LARGEST_PORT:
            raise ConfigError(f"'{text}' has a port above {_LARGEST_PORT}")
        return cls(scheme, match["v6"] or match["host"] or "", port)

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        return is_loopback(self.host)

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    def __str__(self) -> str:
        return f"{self.scheme}://{bracketed(self.host)}:{self.port}"


def bracketed(host: str) -> str:
    """Return a host as URLs write it: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Return whether a host is an address or name of this machine, for itself alone."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _reason(text: str) -> str | None:
    try:
        Listener.parse(text)
    except ConfigError as error:
        return str(error)
    return None


def listener_urls(*, may_be_empty: bool) -> Check:
    """Return a check for a list of listeners."""

    def test(values: list[str]) -> str | None:
        if not values and not may_be_empty:
            return f"at least one listener is needed; {_EXAMPLE}"
        return next((reason for value in values if (reason := _reason(value)) is not None), None)

    return Check(test, "list of http://host:port or https://host:port")


LISTENERS_HTTPS, ADMIN_HTTPS = "listeners.https.", "admin.listeners.https."
_PROTOCOLS = ("TLSv1.2", "TLSv1.3")


class ListenerTlsConfig(SecurityConfig):
    """The `ssl.*` settings of listeners, without their prefix."""

    client_auth: str = setting(
        "ssl.client.auth",
        default="none",
        check=one_of("required", "requested", "none"),
        importance=LOW,
        doc="Whether callers are asked for a certificate.",
    )
    enabled_protocols: list[str] = setting(
        "ssl.enabled.protocols",
        default=list(_PROTOCOLS),
        check=each(one_of(*_PROTOCOLS, ignore_case=False)),
        importance=LOW,
        doc="Versions of TLS.",
    )

    @property
    def asks_for_certificates(self) -> bool:
        return self.client_auth.lower() != "none"

    @property
    def requires_certificates(self) -> bool:
        return self.client_auth.lower() == "required"


def tls_config(originals: Mapping[str, object], prefix: str) -> ListenerTlsConfig:
    """Return the settings under a prefix; those without one if it has none, as in Kafka Connect.

    Raises ConfigError, with the keys of the file.
    """
    prefixed = {k.removeprefix(prefix): v for k, v in originals.items() if k.startswith(prefix)}
    used, shown = (prefixed, prefix) if prefixed else (dict(originals), "")
    given = {key: value for key, value in used.items() if key in ListenerTlsConfig.settings()}
    try:
        return ListenerTlsConfig(given)
    except ConfigError as error:
        raise ConfigError(
            [text.replace("configuration ssl.", f"configuration {shown}ssl.") for text in error.messages]
        ) from None


_ACCEPTED = "accepted"
BASIC_EXTENSION = "BasicAuthSecurityRestExtension"
_NO_PROTECTION = ("DebeziumConnectRestExtension", "ReplicatorMonitoringExtension")  # they only add resources


class RestConfig(Config):
    """Listeners, the advertised address, CORS; and extensions that protect the API only in Kafka Connect."""

    listeners: list[str] = setting(
        "listeners",
        default=["http://:8083"],
        check=listener_urls(may_be_empty=False),
        importance=LOW,
        doc="Addresses of the REST API, separated by commas. Without a host: all interfaces.",
    )
    rest_advertised_host_name: str | None = setting(
        "rest.advertised.host.name", default=None, importance=LOW, doc="The host that other workers shall use."
    )
    rest_advertised_port: int | None = setting(
        "rest.advertised.port",
        type=Type.INT,
        default=None,
        check=between(0, 65_535),
        importance=LOW,
        doc="The port that other workers shall use.",
    )
    rest_advertised_listener: str | None = setting(
        "rest.advertised.listener",
        default=None,
        check=one_of("http", "https"),
        importance=LOW,
        doc="Which of the listeners other workers shall use: http or https.",
    )
    admin_listeners: list[str] | None = setting(
        "admin.listeners",
        default=None,
        check=listener_urls(may_be_empty=True),
        importance=LOW,
        doc="Addresses of `/admin`. Empty: it is nowhere; unset: at the addresses of `listeners`. Their TLS is under "
        "`admin.listeners.https.`.",
    )
    rest_extension_classes: list[str] = setting(
        "rest.extension.classes",
        default=[],
        importance=LOW,
        doc="Extensions of Kafka Connect's REST API. BasicAuthSecurityRestExtension is built in; a file that names any "
        "other is refused, unless `rest.unprotected` accepts it. Debezium's and Replicator's protect nothing: they are "
        "ignored.",
    )
    rest_unprotected: str = setting(
        "rest.unprotected",
        default="refused",
        check=one_of("refused", _ACCEPTED),
        importance=MEDIUM,
        doc="What becomes of a REST API that other machines can reach and that has no authentication, and of "
        "`rest.extension.classes` that there are not here. refused: the worker does not start. accepted: a proxy or a "
        "firewall protects it.",
    )
    access_control_allow_origin: str = setting(
        "access.control.allow.origin",
        default="",
        importance=LOW,
        doc="The other origin that may use the API; * for any.",
    )
    access_control_allow_methods: str = setting(
        "access.control.allow.methods", default="", importance=LOW, doc="The methods that another origin may use."
    )
    response_http_headers: str = setting(
        "response.http.headers.config",
        default="",
        importance=LOW,
        doc="Headers of every answer: `[set|add|setDate|addDate] name:value`, separated by commas.",
    )
    ssl_client_auth: str = setting(
        "ssl.client.auth",
        default="none",
        check=one_of("required", "requested", "none"),
        importance=LOW,
        doc="Whether https listeners ask callers for a certificate, whose subject is then the caller's name; like "
        "every `ssl.` setting, it counts for listeners only if nothing begins with `listeners.https.`.",
    )

    def unprotected(self) -> dict[str, str]:
        """Return the keys that would protect the REST API in Kafka Connect and cannot here, with the reasons."""
        found = {}
        others = [
            name for name in self.rest_extension_classes if _short(name) not in (BASIC_EXTENSION, *_NO_PROTECTION)
        ]
        if others:
            found[RestConfig.key_of("rest_extension_classes")] = f"this worker has no extension {others[0]}"
        return found

    def missing_extensions(self) -> list[str]:
        """Return a text for each extension of the file that protects nothing, and is not here."""
        names = [_short(name) for name in self.rest_extension_classes if _short(name) in _NO_PROTECTION]
        key = RestConfig.key_of("rest_extension_classes")
        return [f"Ignoring '{key}': there is no {name} here" for name in names]

    def unprotected_faults(self) -> list[str]:
        """Return a fault for each of them, unless the file accepts it."""
        if self.accepts_unprotected:
            return []
        return [
            f"Configuration {key} protects the REST API in Kafka Connect, but has no effect here: {why}. Protect the "
            f"API with a proxy and set {RestConfig.key_of('rest_unprotected')}={_ACCEPTED}, or remove {key}"
            for key, why in self.unprotected().items()
        ]

    @property
    def accepts_unprotected(self) -> bool:
        return self.rest_unprotected.lower() == _ACCEPTED

    @property
    def rest_listeners(self) -> tuple[Listener, ...]:
        """Return the addresses to listen at, in the order given."""
        return tuple(Listener.parse(text) for text in self.listeners)

    @property
    def admin_rest_listeners(self) -> tuple[Listener, ...] | None:
        """Return the addresses of the admin resources; None: those of `rest_listeners`, empty: switched off."""
        if self.admin_listeners is None:
            return None
        return tuple(Listener.parse(text) for text in self.admin_listeners)

    @property
    def all_listeners(self) -> tuple[Listener, ...]:
        """Return the addresses of the API and, if they are others, of the admin resources."""
        return (*self.rest_listeners, *(self.admin_rest_listeners or ()))

    def advertised_url(self, *, default_host: str, bound_port: int | None = None) -> str:
        """Return the URL for other workers, with a slash at its end as Kafka Connect writes it.

        `default_host` counts where neither setting nor listener has a host; `bound_port` where the listener has 0.
        """
        wanted = (self.rest_advertised_listener or "").lower()
        chosen = next((one for one in self.rest_listeners if one.scheme == wanted), self.rest_listeners[0])
        host = self.rest_advertised_host_name or chosen.host
        if host in ("", "0.0.0.0", "::"):
            host = default_host
        port = self.rest_advertised_port or chosen.port or bound_port or 0
        return f"{chosen.scheme}://{bracketed(host)}:{port}/"


def _short(class_name: str) -> str:
    return class_name.rpartition(".")[2]


def ensure_secure_url(text: str) -> None:
    """Raise ValueError unless a URL is https, or on this machine."""
    parts = urlsplit(text)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme != "http" or not is_loopback(parts.hostname or ""):
        raise ValueError("must be an https URL: whoever can change its answers can issue tokens")


_URL = parsed_by(ensure_secure_url, "an https URL")


class RestOidcConfig(Config):
    """Whose tokens are taken, and what they say about callers."""

    oidc_issuer: str | None = setting(
        "rest.oidc.issuer.url",
        default=None,
        check=_URL,
        importance=MEDIUM,
        doc="The issuer of bearer tokens (OpenID Connect), exactly as tokens name it in `iss`. Its keys are found by "
        "its `/.well-known/openid-configuration`. Needs the extra `oidc`.",
    )
    oidc_audience: str | None = setting(
        "rest.oidc.audience",
        default=None,
        importance=MEDIUM,
        doc="What tokens for this API have in `aud`; required with an issuer, whose other tokens are for other "
        "services.",
    )
    oidc_jwks_url: str | None = setting(
        "rest.oidc.jwks.url",
        default=None,
        check=_URL,
        importance=LOW,
        doc="Where the issuer's keys are, if it does not say so itself.",
    )
    oidc_name_claim: str = setting(
        "rest.oidc.name.claim", default="sub", importance=LOW, doc="The claim that is the name of the caller."
    )
    oidc_groups_claim: str = setting(
        "rest.oidc.groups.claim",
        default="groups",
        importance=LOW,
        doc="The claim that has the caller's groups; `a.b` is the field `b` of `a`, as in `realm_access.roles`.",
    )

    def oidc_faults(self) -> list[str]:
        """Return what is wrong with these settings together."""
        issuer, audience = RestOidcConfig.key_of("oidc_issuer"), RestOidcConfig.key_of("oidc_audience")
        if self.oidc_issuer is None:
            jwks = RestOidcConfig.key_of("oidc_jwks_url")
            given = {audience: self.oidc_audience, jwks: self.oidc_jwks_url}
            return [f"{key}: it has no effect without {issuer}; set that too" for key, value in given.items() if value]
        if not self.oidc_audience:
            return [f"{issuer}: set {audience} too, so that the issuer's tokens for other services are not taken"]
        if importlib.util.find_spec("joserfc") is None:
            return [f"{issuer}: it needs a library that is not installed: `pip install 'fencepost[oidc]'`"]
        return []


class RestLimitConfig(Config):
    """How large and how frequent requests may be."""

    request_max_bytes: int = setting(
        "rest.request.max.bytes",
        type=Type.INT,
        default=16 * 1024 * 1024,
        check=at_least(1024),
        importance=LOW,
        doc="The largest body of a request; larger ones are answered with 413.",
    )
    requests_per_second_max: int = setting(
        "rest.requests.per.second.max",
        type=Type.INT,
        default=200,
        check=at_least(0),
        importance=LOW,
        doc="How many requests a second each caller may send on average, twice as many at once; more are answered with "
        "429. A caller is a name, or an address if callers are not asked who they are. 0: no limit. Health, metrics "
        "in `rest.open.paths`, and requests of other workers do not count.",
    )


class RestUiConfig(Config):
    """Whether there is a web UI."""

    ui_enabled: bool = setting(
        "ui.enabled",
        default=True,
        importance=LOW,
        doc=f"Whether `listeners` have the web UI ({guide('how-to/web-ui')}), at `/ui`, too. It is protected as the "
        "rest of the REST API is, with the same roles.",
    )


_ENTRY, _MODULE = "KafkaConnect", "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
_HOST_NAME = re.compile(r"\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_ANY_NAME = "*"
_JAVA_OPTIONS, _LOGIN_FILE = "KAFKA_OPTS", "-Djava.security.auth.login.config="


def _host_name(text: str) -> None:
    if _HOST_NAME.fullmatch(text) is None:
        raise ValueError("must be names such as connect.example, without http:// and port, or *")


def _network(text: str) -> None:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise ValueError("must be an address or a network, such as 10.0.0.7 or 10.0.0.0/24") from None


class RestAccessConfig(RestConfig, RestLimitConfig, RestOidcConfig, RestUiConfig):
    """Who may call the REST API."""

    users_file: str | None = setting(
        "rest.basic.users.file",
        default=None,
        importance=MEDIUM,
        doc="File with the users of basic authentication: a line `name=password` for each, where the password may be a "
        "hash of `fencepost hash-password`. It is read again when it changes. Kafka Connect's "
        "`rest.extension.classes=…BasicAuthSecurityRestExtension` works as well: the file is then the one that the "
        "JAAS file names, which `KAFKA_OPTS` names with `-Djava.security.auth.login.config=`.",
    )
    roles_file: str | None = setting(
        "rest.roles.file",
        default=None,
        importance=MEDIUM,
        doc="File with the roles of callers, a line `WHO ROLE CONNECTORS` for each, such as "
        "`user:alice edit orders-*`. It is read again when it changes. Unset: whoever is known may do everything.",
    )
    open_paths: list[str] = setting(
        "rest.open.paths",
        default=[],
        check=each(one_of("health", "metrics")),
        importance=LOW,
        doc="What may be read without authentication: `health`, `metrics`, or both.",
    )

    trusted_proxies: list[str] = setting(
        "rest.trusted.proxies",
        default=[],
        check=each(parsed_by(_network, "addresses or networks")),
        importance=LOW,
        doc="Addresses or networks, such as `10.0.0.0/24`, of proxies before this worker: the address of a caller is "
        "then the one that they say in `X-Forwarded-For`, in logs and where wrong passwords and requests are counted.",
    )
    host_names: list[str] = setting(
        "rest.host.names",
        default=[],
        check=each(parsed_by(_host_name, "host names, or *")),
        importance=LOW,
        doc="Names by which callers may reach plain http listeners that ask for no credentials; `*`: any. "
        "`localhost`, addresses, the hosts of `listeners` and `rest.advertised.host.name` always count. Unset: no "
        "others on loopback, and any where other machines can reach the listener. It keeps pages of other sites from "
        "reaching a worker by a name of theirs (DNS rebinding).",
    )

    @property
    def paths_without_authentication(self) -> frozenset[str]:
        return frozenset(f"/{path.lower()}" for path in self.open_paths)

    def names_of(self, listener: Listener) -> frozenset[str] | None:
        """Return by which names a listener that asks for no credentials may be called, in lower case; None: by any.

        Other workers call it by the machine's name if no other is advertised. With https, the browser has compared the
        name with the certificate.
        """
        given = {name.lower() for name in self.host_names}
        if listener.is_tls or _ANY_NAME in given or not (given or listener.is_loopback):
            return None
        own = {self.rest_advertised_host_name or socket.gethostname(), *(one.host for one in self.all_listeners)}
        return frozenset(given | {name.lower() for name in own if name})

    @property
    def has_basic_extension(self) -> bool:
        """Return whether the file names Kafka Connect's extension for basic authentication."""
        return any(name.rpartition(".")[2] == BASIC_EXTENSION for name in self.rest_extension_classes)

    def users(self) -> str | None:
        """Return the file of users, if there is basic authentication. Raises ConfigError if it has no file."""
        if self.users_file is not None or not self.has_basic_extension:
            return self.users_file
        own, extensions = RestAccessConfig.key_of("users_file"), RestConfig.key_of("rest_extension_classes")
        login = _login_file(os.environ.get(_JAVA_OPTIONS, ""))
        if login is None:
            raise ConfigError(
                f"{extensions}: {BASIC_EXTENSION} needs a file of users; set {own}, or as for Kafka Connect "
                f"{_JAVA_OPTIONS}={_LOGIN_FILE}FILE in the environment"
            )
        try:
            file = login_options(login, _ENTRY, _MODULE).get("file")
        except ConfigError as error:
            raise ConfigError([f"{text}. Or set {own}" for text in error.messages]) from None
        if not file:
            raise ConfigError(f'{login}: {_ENTRY} names no file of users; add file="FILE", or set {own}')
        return file

    def remedies(self) -> str:
        """Return how to ask callers who they are, for a message."""
        users, issuer = RestAccessConfig.key_of("users_file"), RestAccessConfig.key_of("oidc_issuer")
        return f"set {users} or {issuer} (see {guide('how-to/protect-rest')})"

    def exposed_faults(self) -> list[str]:
        """Return a fault for each listener that other machines can reach, unless the file accepts that."""
        if self.accepts_unprotected:
            return []
        return [
            f"{RestConfig.key_of('listeners')}: other machines can reach {one}, and the REST API has no "
            f"authentication: whoever calls it can read files and write to Kafka. Either {self.remedies()}; or listen "
            "on http://127.0.0.1:PORT; or, if a proxy or a firewall protects it, set "
            f"{RestConfig.key_of('rest_unprotected')}=accepted"
            for one in self.all_listeners
            if not one.is_loopback
        ]


def _login_file(java_options: str) -> str | None:
    try:
        found = [option for option in shlex.split(java_options) if option.startswith(_LOGIN_FILE)]
    except ValueError:
        return None
    return re.sub(r"^=?(file:(//)?)?", "", found[-1].removeprefix(_LOGIN_FILE)) if found else None
