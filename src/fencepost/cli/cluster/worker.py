"""Runs a worker in the foreground. Spark's JVM is launched first, and other modules are imported while it starts."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fencepost.cli.client import DEV, plugin_directory, read_worker_file, with_values
from fencepost.config import ConfigError
from fencepost.config.connector_limit import keep_from_connectors
from fencepost.config.worker import WorkerConfig
from fencepost.embedded import EmbeddedKafka
from fencepost.embedded.error import EmbeddedKafkaError, EmbeddedPostgresError, PortInUseError
from fencepost.embedded.java import find_java
from fencepost.embedded.layout import is_free
from fencepost.plugin import PluginKind
from fencepost.secret.known import hide
from fencepost.spark.session import SparkError
from fencepost.spark.session.archive_making import LateArchive
from fencepost.telemetry.measure import lasting_imports
from fencepost.telemetry.plain_line import announce, is_json
from fencepost.worker.host.driver import Driver

if TYPE_CHECKING:
    from fencepost.cli.cluster.pipeline import Pipeline
    from fencepost.worker.declaration import Declared

log = logging.getLogger("fencepost.worker")

_PLUGIN_PATH = WorkerConfig.key_of("plugin_path")
_BOOTSTRAP = WorkerConfig.key_of("bootstrap_servers")
_SECOND_PORT, _SECOND_KAFKA_PORT = 8084, 9093


def run_worker(path: Path) -> int:
    """Run a worker from its file until SIGTERM or Ctrl-C. Returns the exit code."""
    try:
        find_java()
        keep_from_connectors([str(path)])
        return serve_worker(Driver(_worker_config(read_worker_file(path))))
    except ConfigError as error:
        return refused(f"{path}: the worker cannot start with these settings:", error)
    except EmbeddedKafkaError as error:
        return _without_kafka(error)


def run_dev(
    port: int,
    kafka_port: int,
    directory: Path | None,
    settings: list[str],
    plugin_path: Sequence[Path] = (),
    pipeline_file: Path | None = None,
    *,
    is_reloading: bool = False,
    brokers: str | None = None,
) -> int:
    """Run an embedded Kafka and a worker until SIGTERM or Ctrl-C. Returns the exit code.

    Args:
        pipeline_file: Connectors to create; it may ask for an embedded Postgres, too.
        is_reloading: Whether the worker is started again, in a process of its own, when a plug-in changes.
        brokers: The Kafka of a process that reloads, which starts this one: the worker uses it, and ends with that.
    """
    try:
        given = dict(_pair(s) for s in settings)
        if brokers is None:
            _refuse_taken_ports(kafka_port, 0 if WorkerConfig.key_of("listeners") in given else port)
        properties = {
            **DEV,
            "listeners": f"http://127.0.0.1:{port}",
            **given,
            **_plugin_path(given.get(_PLUGIN_PATH, ""), plugin_path),
        }
        if brokers is not None:
            parent = os.getppid()
            driver = Driver(_worker_config({_BOOTSTRAP: brokers, **with_values(properties)}))
            return serve_worker(driver, should_end=lambda: os.getppid() != parent)
        pipeline = None
        if pipeline_file is not None:
            from fencepost.cli.cluster.pipeline import read_pipeline

            pipeline = read_pipeline(pipeline_file, directory)
        kafka = EmbeddedKafka(port=kafka_port, dir=directory)
        if is_reloading:
            return _reload_dev(kafka, port, settings, properties.get(_PLUGIN_PATH, ""))
        return _serve_dev(kafka, with_values(properties), pipeline)
    except ConfigError as error:
        return refused("The worker cannot start with these settings:", error)
    except (EmbeddedKafkaError, EmbeddedPostgresError) as error:
        return _without_kafka(error)


def _worker_config(properties: dict[str, str]) -> WorkerConfig:
    """Return the settings of a worker. Raises ConfigError with all that is wrong, in any part of it."""
    try:
        return WorkerConfig(properties)
    except ConfigError as error:
        from fencepost.cli.cluster.serve import with_all_faults  # and all of a worker, for which no right file waits

        raise with_all_faults(error, properties) from None


def _without_kafka(error: EmbeddedKafkaError | EmbeddedPostgresError) -> int:
    """Print why there is no Java, Kafka or Postgres. Returns the exit code."""
    if is_json():
        return refused("The worker cannot start:", ConfigError(str(error)))
    typer.echo(str(error), err=True)
    return 1


def _serve_dev(kafka: EmbeddedKafka, properties: dict[str, str], pipeline: "Pipeline | None") -> int:
    """Run a worker with a Kafka that starts while Spark's JVM does; the worker's modules are imported meanwhile.

    Raises EmbeddedKafkaError, EmbeddedPostgresError, and ConfigError for settings that it cannot serve.
    """
    # Spark's JVM needs to know nothing about Kafka, whose port is known when it has started.
    with launched(Driver(_worker_config({_BOOTSTRAP: "127.0.0.1:0", **properties}))) as driver:
        threading.Thread(target=_import_serve, name="imports").start()
        with kafka, pipeline.postgres if pipeline and pipeline.postgres else contextlib.nullcontext():
            announce("Kafka", kafka.bootstrap_servers)
            driver.config = WorkerConfig({_BOOTSTRAP: kafka.bootstrap_servers, **properties})
            url = driver.config.advertised_url(default_host="127.0.0.1")
            return _serve(driver, pipeline.begin(kafka.directory, url) if pipeline else None)


def _reload_dev(kafka: EmbeddedKafka, port: int, settings: Sequence[str], plugin_path: str) -> int:
    """Run a Kafka, and a worker in a process of its own that is started again when a plug-in changes."""

    command = [sys.executable, "-m", "fencepost.cli.main", "dev", "--port", str(port)]
    for setting in (*settings, f"{_PLUGIN_PATH}={plugin_path}"):
        command += ["--set", setting]
    with kafka:
        announce("Kafka", kafka.bootstrap_servers)
        return run_reloading([*command, "--at", kafka.bootstrap_servers], plugin_path)


def _plugin_path(given: str, directories: Sequence[Path]) -> dict[str, str]:
    """Return the `plugin.path` of `dev`: what is given, and where `fencepost plugin install` puts plug-ins."""
    own = plugin_directory()
    entries = [*map(str, directories), *([given] if given else []), *([str(own)] if own.is_dir() else [])]
    return {_PLUGIN_PATH: ",".join(entries)} if entries else {}


def _refuse_taken_ports(kafka_port: int, port: int) -> None:
    """Check ports before anything is started; 0 is any free port. Raises PortInUseError."""
    taken = [str(one) for one in (kafka_port, port) if one and not is_free(one)]
    if taken:
        raise PortInUseError(
            f"In use: port {' and port '.join(taken)}, perhaps by another `fencepost dev`. A second one "
            f"needs other ports: fencepost dev --port {_SECOND_PORT} --kafka-port {_SECOND_KAFKA_PORT}"
        )


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise ConfigError(f"--set {text}: write it as KEY=VALUE")
    return key.strip(), value.strip()


def refused(title: str, error: ConfigError) -> int:
    """Print the faults, one in each line, or log each if the log is JSON. Returns the exit code."""
    if is_json():
        from fencepost.telemetry.logs import configure_logs

        configure_logs()
        for message in error.messages:
            log.error("%s %s", title, message)
        return 1
    typer.echo(title, err=True)
    for message in error.messages:
        typer.echo(f"  - {hide(message)}", err=True)
    return 1


@contextlib.contextmanager
def launched(driver: Driver) -> Iterator[Driver]:
    """Launch Spark, which starts while the block runs, and end it there if nobody has used it.

    The log is set up second: what it imports takes a tenth of the time that the JVM does.
    """
    problem: SparkError | None = None
    try:
        driver.launch()
    except SparkError as error:
        problem = error
    from fencepost.telemetry.logs import configure_logs

    configure_logs()
    if problem is not None:
        log.warning("%s", problem)  # the worker retries
    late = LateArchive(driver.config.spark)
    try:
        yield driver
    finally:
        late.cancel()
        driver.discard()


def serve_worker(
    driver: Driver, declared: "Declared | None" = None, should_end: Callable[[], bool] = lambda: False
) -> int:
    """Run the driver's worker, as `serve` does, while Spark's JVM starts. Returns the exit code.

    Raises ConfigError for settings that it cannot serve.
    """
    with launched(driver):
        return _serve(driver, declared, should_end)


def _import_serve() -> None:
    with lasting_imports():
        import_module("fencepost.cli.cluster.serve")


def _serve(driver: Driver, declared: "Declared | None" = None, should_end: Callable[[], bool] = lambda: False) -> int:
    _import_serve()
    from fencepost.cli.cluster.serve import serve

    failure = serve(driver.config, driver, declared, should_end)
    if failure is None:
        return 0
    from fencepost.kafka.group.member import ReplacedError

    title = "The worker had to end:" if isinstance(failure, ReplacedError) else "The worker cannot start:"
    return refused(title, failure if isinstance(failure, ConfigError) else ConfigError(str(failure)))


_LOOK_S = 0.5
_ENDS_WITHIN_S = 60.0
_SUFFIXES = (".py", ".jar")

Files = Mapping[Path, int]
"""When each file was changed, in nanoseconds."""


def run_reloading(command: Sequence[str], plugin_path: str) -> int:
    """Run the command until SIGTERM or Ctrl-C, and again after each change of a plug-in. Returns its exit code."""
    is_over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    return reload(command, lambda: plugin_files(plugin_path), is_over)


def reload(
    command: Sequence[str], files: Callable[[], Files], is_over: threading.Event, look_s: float = _LOOK_S
) -> int:
    """Run the command until `is_over`, and again after each change. Ends with the command if that ends by itself."""
    while True:
        before = files()
        child = subprocess.Popen(command, start_new_session=True)  # Ctrl-C reaches only this process, which ends it
        try:
            changed = _awaited_change(child, before, files, is_over, look_s)
        finally:
            _end(child)
        if changed is None:
            return max(0, child.returncode)
        announce("Reload", str(changed), "has changed")


def plugin_files(plugin_path: str) -> Files:
    """Return the files of directories of plug-ins, and of installed packages that have some."""
    roots = [Path(each.strip()) for each in plugin_path.split(",") if each.strip()]
    found: dict[Path, int] = {}
    for root in (*roots, *_packages()):
        for path in root.rglob("*") if root.is_dir() else (root,):
            if path.suffix in _SUFFIXES:
                try:
                    found[path] = path.stat().st_mtime_ns
                except OSError:
                    continue  # an editor is replacing it
    return found


def _packages() -> Iterator[Path]:
    declared = entry_points()
    of_plugins = [entry for kind in PluginKind for entry in declared.select(group=kind.entry_point_group)]
    for name in sorted({entry.value.partition(":")[0].partition(".")[0] for entry in of_plugins}):
        spec = find_spec(name)
        if spec is not None:
            yield from map(Path, spec.submodule_search_locations or ([spec.origin] if spec.origin else []))


def _awaited_change(
    child: "subprocess.Popen[bytes]",
    before: Files,
    files: Callable[[], Files],
    is_over: threading.Event,
    look_s: float,
) -> Path | None:
    """Return a file that has changed, once no more do; None if the child has ended, or everything is over."""
    while not is_over.wait(look_s) and child.poll() is None:
        now = files()
        if now == before:
            continue
        while not is_over.wait(look_s) and (later := files()) != now:
            now = later
        return next((path for path in sorted({*before, *now}) if before.get(path) != now.get(path)), Path())
    return None


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
