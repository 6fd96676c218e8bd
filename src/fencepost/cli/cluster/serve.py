"""A worker in the foreground: signals, REST, a clean end, and all that is wrong with its file."""

import faulthandler
import ipaddress
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FrameType

from starlette.types import ASGIApp

from fencepost.cluster.operations import ConnectOperations
from fencepost.cluster.tls import peer_context, server_context
from fencepost.config.check import ConfigError, collected
from fencepost.config.rest import ADMIN_HTTPS, LISTENERS_HTTPS, Listener, bracketed, tls_config
from fencepost.config.setting import Type
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.kafka.setting.client_settings import admin_conf, member_conf, producer_conf, reader_conf
from fencepost.plugin import registry
from fencepost.plugin.origins import Origins
from fencepost.rest.access.access import Access, Limits, access_of, exposures
from fencepost.rest.access.origin import HostNames
from fencepost.rest.app import Parts, RestOptions, create_app
from fencepost.rest.response import HeaderRule, parse_header_rules
from fencepost.rest.server import Endpoint, RestServer
from fencepost.telemetry.lock_watch import watch_of_worker
from fencepost.telemetry.plain_line import announce
from fencepost.worker.declaration import Declared
from fencepost.worker.host.driver import Driver
from fencepost.worker.process import WorkerProcess, require_names

_ANY_CLASS = "org.apache.kafka.connect.converters.ByteArrayConverter"


def with_all_faults(error: ConfigError, properties: Mapping[str, str]) -> ConfigError:
    """Return the error for a file whose settings are wrong, with what else is wrong in it."""
    partial = WorkerConfig.unchecked(_right_part(properties))
    return ConfigError([*dict.fromkeys((*error.messages, *partial.check_together(), *faults_of(partial)))])


def faults_of(config: WorkerConfig) -> list[str]:
    """Return what the parts of a worker refuse: protection of REST, certificates, clients of Kafka, named classes."""
    faults: list[str] = []
    clients = config.internal_client_properties
    for check in (
        lambda: access_of(config),
        lambda: _try_certificates(config),
        lambda: reader_conf(clients),
        lambda: admin_conf(clients),
        lambda: producer_conf(clients),
        lambda: member_conf(clients, config.group_id),
        lambda: require_names(config),
    ):
        collected(check, None, faults)
    return [*dict.fromkeys(faults)]


def _right_part(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that are right; in place of those that are wrong or missing, the defaults count.

    Where there is none, it is the key, or the converter that leaves bytes as they are.
    """
    wrong = {answer.setting.key: answer.setting for answer in WorkerConfig.validate_values(properties) if answer.errors}
    needed = {key: _ANY_CLASS if one.kind is Type.CLASS else key for key, one in wrong.items() if one.is_required}
    return {**{key: value for key, value in properties.items() if key not in wrong}, **needed}


def _try_certificates(config: WorkerConfig) -> None:
    for listeners, prefix in (
        (config.rest_listeners, LISTENERS_HTTPS), (config.admin_rest_listeners or (), ADMIN_HTTPS),
    ):  # fmt: skip
        if any(one.is_tls for one in listeners):
            server_context(tls_config(config.originals, prefix), prefix)
    peer_context(config)


log = logging.getLogger("fencepost.worker")

_SWITCH_S = 0.001


def serve(
    config: WorkerConfig,
    driver: Driver,
    declared: Declared | None = None,
    should_end: Callable[[], bool] = lambda: False,
) -> Exception | None:
    """Run a worker until SIGTERM or Ctrl-C. Returns why it could not start or continue; None after a clean end.

    Args:
        declared: Connectors to create.
        should_end: Called a few times a second; returns True to end the worker without a signal.

    Raises ConfigError for settings that it cannot serve.
    """
    faulthandler.enable()  # shows Python's stack if Kafka's client crashes
    with watch_of_worker(sys.stderr):
        return _serve(config, driver, declared, should_end)


def _serve(
    config: WorkerConfig, driver: Driver, declared: Declared | None, should_end: Callable[[], bool]
) -> Exception | None:
    is_over = threading.Event()

    def over(_signal: int, _frame: FrameType | None) -> None:
        is_over.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, over)
    # REST shares the interpreter lock with busy threads: a shorter switch interval keeps its latency low.
    sys.setswitchinterval(_SWITCH_S)
    _warn(config)
    url = config.advertised_url(default_host=socket.gethostname())
    faults: list[str] = []
    access = collected(lambda: access_of(config), None, faults)
    process = collected(lambda: WorkerProcess(config, url, driver, declared), None, faults)
    if access is None or process is None:
        raise ConfigError([*dict.fromkeys((*faults, *faults_of(config)))])
    for text in exposures(config, access):
        log.warning("%s", text)
    server = _listening(config, _endpoints(config, access, process.operations))
    process.start()
    threading.Thread(target=_name_changed_plugins, name="changed-plugins", daemon=True).start()
    while not (is_over.wait(0.2) or should_end()):
        if process.error is not None:
            break
    process.leave()
    server.stop(2.0)
    process.stop()
    return process.error


def _header_rules(text: str) -> tuple[HeaderRule, ...]:
    try:
        return parse_header_rules(text)
    except ValueError as error:
        raise ConfigError(f"{WorkerConfig.key_of('response_http_headers')}: {error}") from None


def _endpoints(config: WorkerConfig, access: Access, operations: ConnectOperations) -> dict[Listener, Endpoint]:
    options = RestOptions(
        allow_origin=config.access_control_allow_origin,
        allow_methods=config.access_control_allow_methods,
        header_rules=_header_rules(config.response_http_headers),
        parts=Parts(has_admin=config.admin_rest_listeners is None, has_ui=config.ui_enabled),
        access=access,
        peer_tls=peer_context(config),
        limits=Limits(config.request_max_bytes, config.requests_per_second_max),
        trusted_proxies=[ipaddress.ip_network(each) for each in config.trusted_proxies],
    )
    main = create_app(operations, options=options)
    found = _served(config, main, config.rest_listeners, LISTENERS_HTTPS)
    if config.admin_rest_listeners:
        admin = create_app(operations, options=replace(options, parts=Parts(has_main=False)))
        found |= _served(config, admin, config.admin_rest_listeners, ADMIN_HTTPS)
    return found if access.asks else {one: _named(config, one, endpoint) for one, endpoint in found.items()}


def _served(config: WorkerConfig, app: ASGIApp, listeners: Sequence[Listener], prefix: str) -> dict[Listener, Endpoint]:
    has_tls = any(one.is_tls for one in listeners)
    tls = server_context(tls_config(config.originals, prefix), prefix) if has_tls else None
    return {one: Endpoint(app, one.host, one.port, tls if one.is_tls else None) for one in listeners}


def _named(config: WorkerConfig, listener: Listener, endpoint: Endpoint) -> Endpoint:
    names = config.names_of(listener)
    return endpoint if names is None else replace(endpoint, app=HostNames(endpoint.app, names))


def _listening(config: WorkerConfig, endpoints: dict[Listener, Endpoint]) -> RestServer:
    """Return a server that is started. Raises ConfigError if an address is in use."""
    server = RestServer(*endpoints.values())
    try:
        server.start()
    except OSError as error:
        raise ConfigError(
            f"listeners: cannot listen on {error.filename}: {error.strerror}; choose another port"
        ) from None
    has_ui = ", UI: /ui" if config.ui_enabled else ""
    for listener, port in zip(endpoints, server.ports, strict=True):
        is_admin = listener in (config.admin_rest_listeners or ())
        at = f"{listener.scheme}://{bracketed(listener.host) or 'localhost'}:{port}/"
        announce("Admin" if is_admin else "REST", at, "" if is_admin else f"(API: /docs, guide: /docs/guide{has_ui})")
    return server


def _name_changed_plugins() -> None:
    """Name the plug-ins whose files are not those that were installed. Reading them all takes time."""
    try:
        for text in Origins(registry()).changes():
            log.warning("%s", text)
    except OSError as error:
        log.warning("it cannot be said whether plug-ins are as they were installed: %s", error)


def _warn(config: WorkerConfig) -> None:
    for key, nearest in config.unknown_keys():
        hint = f"; did you mean '{nearest}'?" if nearest else ""
        log.warning("The setting '%s' is unknown and has no effect%s", key, hint)
    for text in config.warnings():
        log.warning("%s", text)
    if config.exactly_once is ExactlyOnceSource.DISABLED:
        log.warning(
            "exactly.once.source.support is disabled (Kafka's default): sources are at-least-once, records may be "
            "written twice after a crash. Set it to 'enabled' for exactly-once."
        )
