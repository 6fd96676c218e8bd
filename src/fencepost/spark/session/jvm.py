"""The JVM of Spark's driver: a child process that can be launched long before the rest of Spark is needed.

Nothing here imports PySpark: a worker launches the JVM first, and imports the rest in the meantime.
"""

import collections
import contextlib
import locale
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fencepost.embedded import EmbeddedKafkaError
from fencepost.embedded.class_archive import ClassArchive, is_chosen
from fencepost.embedded.home import default_cache
from fencepost.embedded.java import find_java
from fencepost.secret.known import hide_known
from fencepost.spark.session import SparkError
from fencepost.spark.session.command import gateway_command, gateway_environment, is_plain, needs_home, spark_home
from fencepost.spark.session.conf import (
    is_local,
    is_on_this_machine,
    python_environment,
    spark_properties,
    text_environment,
)

OnLine = Callable[[str], None]

_LAST_LINES_S = 10.0
_NOISE = ("Using incubator modules", "default log4j profile", "Setting default log level", "To adjust logging level")


class Output:
    """Passes on the output, without Spark's greetings, and keeps its end."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._last: collections.deque[str] = collections.deque(maxlen=30)
        self._reader: threading.Thread | None = None

    @contextlib.contextmanager
    def pipe(self) -> Iterator[int]:
        """Yield the file descriptor that a child writes to; our copy is closed afterwards."""
        reading, writing = os.pipe()
        stream = os.fdopen(reading, encoding="utf-8", errors="replace")
        self._reader = threading.Thread(target=self._pass_on, args=(stream,), name="spark-output", daemon=True)
        self._reader.start()
        try:
            yield writing
        finally:
            os.close(writing)

    def tail(self) -> str:
        """Return the last lines of a JVM that has ended. A Python worker of its may still have the pipe."""
        if self._reader is not None:
            self._reader.join(_LAST_LINES_S)
        return "\n".join(self._last)

    def _pass_on(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                if not any(noise in line for noise in _NOISE):
                    shown = hide_known(line.rstrip())  # authors' code may print anything (E11)
                    self._last.append(shown)
                    self._on_line(shown)


@dataclass(frozen=True)
class JvmFigures:
    """Bytes by area, `heap` and `nonheap`, and collections since the start by collector: how many, and seconds.

    An area without a maximum is not in `maximum`.
    """

    used: dict[str, int]
    maximum: dict[str, int]
    collections: dict[str, tuple[int, float]]


def jvm_figures(jvm: Any) -> JvmFigures:
    """Ask a gateway's JVM. Raises what Py4J raises if it does not answer."""
    beans = jvm.java.lang.management.ManagementFactory
    memory = beans.getMemoryMXBean()
    areas = {"heap": memory.getHeapMemoryUsage(), "nonheap": memory.getNonHeapMemoryUsage()}
    return JvmFigures(
        {name: int(area.getUsed()) for name, area in areas.items()},
        {name: int(area.getMax()) for name, area in areas.items() if area.getMax() >= 0},
        {
            str(each.getName()): (int(each.getCollectionCount()), each.getCollectionTime() / 1000)
            for each in beans.getGarbageCollectorMXBeans()
        },
    )


_LOOK_EVERY_S = 0.01
_START_S = 120.0
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CRASHES = (-signal.SIGABRT, -signal.SIGBUS, -signal.SIGSEGV)


class DriverJvm:
    """A JVM with PySpark's gateway, which starts when the object is created.

    It ends when this process does, for whatever reason: it reads a pipe whose other end only this process has.
    `secrets` are in its environment only if executors are in this JVM (E11).
    """

    def __init__(
        self, properties: Mapping[str, str], secrets: Mapping[str, str] | None = None, on_line: OnLine | None = None
    ) -> None:
        """Launch the JVM; `properties` are the user's `spark.*`. Raises SparkError if the command cannot be run."""
        self.properties = spark_properties(properties)
        self.master = self.properties["spark.master"]
        self.output = Output(on_line or (lambda line: print(line, file=sys.stderr, flush=True)))
        self._directory = tempfile.mkdtemp(prefix="fencepost-spark-")
        self._gateway_file = Path(self._directory, "gateway")
        try:
            self.process = self._launch(dict(secrets or {}))
        except OSError as error:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise SparkError(f"Spark's JVM cannot be started: {error}") from error

    def gateway(self) -> tuple[int, str]:
        """Wait for the gateway; return its port and its secret. Raises SparkError if the JVM ends before."""
        deadline = time.monotonic() + _START_S
        try:
            while not self._gateway_file.exists():
                code = self.process.poll()
                if code is not None:
                    if code in _CRASHES and self._has_archive:
                        with contextlib.suppress(EmbeddedKafkaError, OSError):
                            class_archive().discard()
                    raise SparkError(f"the JVM ended with exit code {code}")
                if time.monotonic() > deadline:
                    raise SparkError(f"the JVM did not answer within {_START_S:g} s")
                time.sleep(_LOOK_EVERY_S)
            data = self._gateway_file.read_bytes()  # written under another name first
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
        port, length = struct.unpack_from("!ii", data)
        return port, data[8 : 8 + length].decode()

    def end(self) -> None:
        """Ask the JVM to end, and kill it if it does not. Idempotent."""
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _launch(self, secrets: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        home = spark_home()
        environment = {
            **text_environment(os.environ, locale.nl_langinfo(locale.CODESET)),
            **python_environment(self.master, self.properties),
            **gateway_environment(home),
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._gateway_file),
        }
        if not needs_home(self.properties, os.environ, home, environment.get("PYSPARK_PYTHON")):
            del environment["SPARK_HOME"]
        if is_on_this_machine(self.master):
            environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        if is_local(self.master):
            environment |= secrets  # on a cluster, executors get them with the functions they run
        archived = archive_options(self.properties)
        self._has_archive = bool(archived)
        command = gateway_command(self.properties, os.environ, home, archived)
        with self.output.pipe() as descriptor:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=descriptor,
                stderr=descriptor,
                env=environment,
                # The worker handles Ctrl-C at the terminal, and ends the JVM in good order.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
            )


def archive_options(properties: Mapping[str, str]) -> list[str]:
    """Return the JVM's options that use the archive of Spark's classes; none if there is none, or it cannot be used."""
    try:
        return class_archive().options() if can_use_archive(properties) else []
    except (EmbeddedKafkaError, OSError):
        return []


def can_use_archive(properties: Mapping[str, str]) -> bool:
    """Return whether the JVM is launched straight, with the class path that is archived, and no archive of the user."""
    is_own = is_chosen(properties.get(JAVA_OPTIONS, "").split())
    return not is_own and is_plain(properties, os.environ, spark_home())


def class_archive() -> ClassArchive:
    """Return the archive of Spark's classes, one for each user, Java and installation of Spark (docs/decisions/0086).

    Raises EmbeddedKafkaError without Java, OSError without Spark.
    """
    return ClassArchive.of(default_cache(), "spark-classes", find_java(), sorted((spark_home() / "jars").iterdir()))
