"""The settings that protect a worker's REST API."""

import ipaddress
import os
import re
import shlex
import socket

from fencepost.config.check import at_least, each, one_of, parsed_by
from fencepost.config.errors import ConfigError
from fencepost.config.jaas import login_options
from fencepost.config.listener import Listener
from fencepost.config.rest import BASIC_EXTENSION, RestConfig
from fencepost.config.rest_oidc import RestOidcConfig
from fencepost.config.setting import LOW, MEDIUM, Config, Type, setting
from fencepost.guide import guide


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
