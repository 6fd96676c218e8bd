"""Running a worker in the foreground: logs, signals, REST, and a clean end."""

import logging
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

import typer

from fencepost.config import ConfigError
from fencepost.config.properties import read_properties
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.embedded import EmbeddedKafka
from fencepost.embedded.error import EmbeddedKafkaError
from fencepost.embedded.java import find_java
from fencepost.rest.app import RestOptions, create_app
from fencepost.rest.header import HeaderRule, parse_header_rules
from fencepost.rest.server import RestServer
from fencepost.telemetry.logs import configure_logs
from fencepost.worker.process import WorkerProcess

log = logging.getLogger("fencepost.worker")

_SWITCH_S = 0.001

_DEV = {
    "group.id": "fencepost-dev",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "5",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "exactly.once.source.support": "enabled",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "2000",
}


def run_worker(path: Path) -> int:
    """Run a worker from its file until SIGTERM or Ctrl-C. Returns the exit code."""
    configure_logs()
    try:
        find_java()
        properties = read_properties(path)
        return _serve(properties)
    except ConfigError as error:
        return _refused(f"{path}: the worker cannot start with these settings:", error)
    except EmbeddedKafkaError as error:
        typer.echo(str(error), err=True)
        return 1


def run_dev(port: int, kafka_port: int, directory: Path | None, settings: list[str]) -> int:
    """Run an embedded Kafka and a worker beside it until SIGTERM or Ctrl-C. Returns the exit code."""
    configure_logs()
    try:
        with EmbeddedKafka(port=kafka_port, dir=directory) as kafka:
            typer.echo(f"Kafka      {kafka.bootstrap_servers}")
            properties = {
                **_DEV,
                "bootstrap.servers": kafka.bootstrap_servers,
                "listeners": f"http://127.0.0.1:{port}",
                **dict(_pair(s) for s in settings),
            }
            return _serve(properties)
    except ConfigError as error:
        return _refused("The worker cannot start with these settings:", error)
    except EmbeddedKafkaError as error:
        typer.echo(str(error), err=True)
        return 1


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise ConfigError(f"--set {text}: write it as KEY=VALUE")
    return key.strip(), value.strip()


def _refused(title: str, error: ConfigError) -> int:
    typer.echo(title, err=True)
    for message in error.messages:
        typer.echo(f"  - {message}", err=True)
    return 1


def _serve(properties: Mapping[str, object]) -> int:
    is_over = threading.Event()

    def over(_signal: int, _frame: FrameType | None) -> None:
        is_over.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, over)
    # REST answers beside busy threads: a shorter turn of the interpreter lock keeps its latency low.
    sys.setswitchinterval(_SWITCH_S)
    config = WorkerConfig(properties)
    _warn(config)
    listener = config.rest_listeners[0]
    if listener.scheme != "http":
        raise ConfigError(
            f"listeners: {listener} asks for TLS, which the REST server does not speak yet; listen at "
            "http://127.0.0.1:PORT and put a proxy that does in front"
        )
    process = WorkerProcess(config, config.advertised_url(default_host=_own_host(listener.host)))
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
        raise ConfigError(f"listeners: cannot listen at {listener}: {error.strerror}; choose another port") from None
    typer.echo(f"REST       http://{listener.host or 'localhost'}:{server.port}/   (API: /docs)")
    process.start()
    while not is_over.wait(0.2):
        if process.error is not None:
            break
    server.stop(2.0)
    process.stop()
    if process.error is not None:
        messages = process.error.messages if isinstance(process.error, ConfigError) else (str(process.error),)
        return _refused("The worker cannot start:", ConfigError(messages))
    return 0


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
