"""The settings of a worker's REST server."""

from fencepost.config.check import between, one_of
from fencepost.config.listener import Listener, bracketed, listener_urls
from fencepost.config.setting import LOW, MEDIUM, Config, Type, setting

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
