"""A worker in the foreground: signals, REST, and a clean end."""

import faulthandler
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable
from types import FrameType

import typer

from fencepost.config import ConfigError
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.rest.app import RestOptions, create_app
from fencepost.rest.header import HeaderRule, parse_header_rules
from fencepost.rest.server import RestServer
from fencepost.worker.declaration import Declared
from fencepost.worker.host.driver import Driver
from fencepost.worker.process import WorkerProcess

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
    is_over = threading.Event()

    def over(_signal: int, _frame: FrameType | None) -> None:
        is_over.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, over)
    # REST shares the interpreter lock with busy threads: a shorter switch interval keeps its latency low.
    sys.setswitchinterval(_SWITCH_S)
    _warn(config)
    listener = config.rest_listeners[0]
    if listener.scheme != "http":
        raise ConfigError(
            f"listeners: {listener} requires TLS, which the REST server does not support; listen on "
            "http://127.0.0.1:PORT behind a proxy that does"
        )
    process = WorkerProcess(config, config.advertised_url(default_host=_own_host(listener.host)), driver, declared)
    options = RestOptions(
        allow_origin=config.access_control_allow_origin,
        allow_methods=config.access_control_allow_methods,
        header_rules=_header_rules(config.response_http_headers),
        has_admin=config.admin_rest_listeners != (),
    )
    server = RestServer(create_app(process.operations, options=options), listener.host, listener.port)
    try:
        server.start()
    except OSError as error:
        raise ConfigError(f"listeners: cannot listen on {listener}: {error.strerror}; choose another port") from None
    typer.echo(f"REST       http://{listener.host or 'localhost'}:{server.port}/   (API: /docs)")
    process.start()
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


def _own_host(host: str) -> str:
    return host if host not in ("", "0.0.0.0", "::") else socket.gethostname()


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
