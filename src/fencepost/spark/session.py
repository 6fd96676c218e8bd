"""One JVM and one Spark session, owned by a worker process."""

import collections
import contextlib
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from fencepost.spark.conf import is_local, is_on_this_machine, is_secret, python_environment, spark_properties
from fencepost.spark.datasource import FencepostDataSource

OnExit = Callable[[str], None]

_NOISE = ("Using incubator modules", "default log4j profile", "Setting default log level", "To adjust logging level")
_WATCH_EVERY_S = 0.5


class SparkError(RuntimeError):
    """Spark could not be started, or has gone; the text says why and what to look at."""


class SparkRuntime:
    """Starts Spark for this process, and stops it.

    `properties` are the user's `spark.*`; `secrets` become environment variables of the executors' Python processes
    and stand in no plan, closure, UI or command line (E11). One runtime at a time in a process: PySpark keeps its JVM
    in a module variable. The JVM ends when this process does, however it ends.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        secrets: Mapping[str, str] | None = None,
        py_files: Sequence[str] = (),
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self.properties = spark_properties(properties)
        self.master = self.properties["spark.master"]
        self._secrets = dict(secrets or {})
        self._py_files = list(py_files)
        self._output = _Output(on_line or _to_stderr)
        self._listeners: list[OnExit] = []
        self._gateway: Any = None
        self._context: Any = None
        self._session: Any = None
        self._is_stopping = threading.Event()

    def start(self) -> None:
        """Start the JVM and the session; blocks for some seconds. Raises SparkError."""
        if SparkContext._active_spark_context is not None or SparkContext._gateway is not None:
            raise SparkError("this process already runs Spark; a worker needs a process of its own")
        try:
            self._launch()
        except Exception as error:
            self.stop()
            said = self._output.tail()
            raise SparkError(
                f"Spark did not start with spark.master={self.master}: {error}\n{said}".rstrip()
            ) from error
        threading.Thread(target=self._watch, name="spark-watch", daemon=True).start()

    def on_exit(self, listener: OnExit) -> None:
        """Call `listener(reason)` once, from a thread of its own, if Spark goes without `stop`."""
        self._listeners.append(listener)

    @property
    def session(self) -> Any:
        """The SparkSession. Raises SparkError before `start` and after `stop`."""
        if self._session is None:
            raise SparkError("Spark is not running")
        return self._session

    def adopt_thread(self) -> None:
        """Make the session the calling thread's own: Spark finds data sources by the session of the thread."""
        session = self.session
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)

    @property
    def context(self) -> Any:
        """The SparkContext."""
        return self.session.sparkContext

    @property
    def cores(self) -> int:
        """How many Spark tasks can run at once: nominal in local mode, those of all executors on a cluster."""
        scala = self.context._jsc.sc()
        return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))

    @property
    def jvm_pid(self) -> int:
        return int(self._gateway.proc.pid)

    @property
    def is_alive(self) -> bool:
        return self._gone() is None

    def stop(self) -> None:
        """Stop Spark and end the JVM. Idempotent; cancels whatever runs."""
        self._is_stopping.set()
        context, self._context, self._session = self._context, None, None
        if context is not None:
            with contextlib.suppress(Exception):
                context.stop()
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            _end(gateway)
        _forget()

    def _launch(self) -> None:
        """Steps: 1 JVM, with what is not secret; 2 context, with the rest; 3 session.

        PySpark puts every entry that it launches with on the JVM's command line, hence the two steps.
        """
        shown = {k: v for k, v in self.properties.items() if not is_secret(k, v)}
        in_jvm = {"SPARK_LOCAL_IP": "127.0.0.1"} if is_on_this_machine(self.master) else {}
        if is_local(self.master):
            in_jvm |= self._secrets  # executors are this JVM; on a cluster they get them by the conf, in _whole_conf
        os.environ.update(python_environment(self.master, self.properties))  # read when the context is made
        # PySpark's converters load pandas where it is installed, and it remarks on the version; nothing here uses it.
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        with _environment(in_jvm), self._output.pipe() as descriptor:
            self._gateway = launch_gateway(_conf(shown), {"stdout": descriptor, "stderr": descriptor})  # 1
        conf = self._whole_conf()
        self._context = SparkContext(conf=conf, gateway=self._gateway, pyFiles=self._py_files)  # 2
        for name in self._secrets:
            self._context.environment.pop(name, None)
        self._session = SparkSession(self._context)  # 3
        self._session.dataSource.register(FencepostDataSource)

    def _whole_conf(self) -> Any:
        conf = _conf(self.properties)
        if not is_local(self.master):
            for name, value in self._secrets.items():
                conf.setExecutorEnv(name, value)
        return conf

    def _gone(self) -> str | None:
        gateway, context = self._gateway, self._context
        if gateway is None or context is None:
            return "Spark was stopped"
        code = gateway.proc.poll()
        if code is not None:
            return f"Spark's JVM has ended with exit code {code}"
        try:
            return "Spark stopped the application" if context._jsc.sc().isStopped() else None
        except Exception as error:
            return f"Spark's JVM does not answer: {error}"

    def _watch(self) -> None:
        while not self._is_stopping.wait(_WATCH_EVERY_S):
            reason = self._gone()
            if reason is not None and not self._is_stopping.is_set():
                for listener in self._listeners:
                    listener(reason)
                return


class _Output:
    """Passes on what the JVM and the Python workers print, without Spark's greetings; remembers the end of it."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._last: collections.deque[str] = collections.deque(maxlen=30)

    @contextlib.contextmanager
    def pipe(self) -> Iterator[int]:
        """Yield the file descriptor that a child writes to; ours is closed afterwards."""
        reading, writing = os.pipe()
        stream = os.fdopen(reading, encoding="utf-8", errors="replace")
        threading.Thread(target=self._pass_on, args=(stream,), name="spark-output", daemon=True).start()
        try:
            yield writing
        finally:
            os.close(writing)

    def tail(self) -> str:
        return "\n".join(self._last)

    def _pass_on(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                if not any(noise in line for noise in _NOISE):
                    self._last.append(line.rstrip())
                    self._on_line(line.rstrip())


def _conf(properties: Mapping[str, str]) -> Any:
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(properties.items()))
    return conf


def _forget() -> None:
    """Clear PySpark's module variables, which it leaves as they are when its JVM was killed."""
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _end(gateway: Any) -> None:
    with contextlib.suppress(Exception):
        gateway.shutdown()
    process = gateway.proc
    with contextlib.suppress(Exception):
        process.stdin.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _environment(additions: Mapping[str, str]) -> Iterator[None]:
    """Add to the environment while a child is started."""
    before = {name: os.environ.get(name) for name in additions}
    os.environ.update(additions)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
