"""One JVM and one Spark session, owned by a worker process."""

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from fencepost.spark.datasource import FencepostDataSource
from fencepost.spark.session import SparkError
from fencepost.spark.session.conf import is_local, is_secret, python_environment
from fencepost.spark.session.jvm import DriverJvm, JvmFigures, OnLine, jvm_figures
from fencepost.spark.session.pyspark_patches import (
    ask_numpy_only_for_its_own,
    close_functions,
    leave_exceptions_to_their_catcher,
)

OnExit = Callable[[str], None]

_WATCH_EVERY_S = 0.5
_running: "SparkRuntime | None" = None


def running_spark() -> "SparkRuntime | None":
    """Return the Spark that this process runs; None before it is open and after its end."""
    return _running if _running is not None and _running.is_alive else None


@dataclass
class _Seen:
    """What the thread that watches the JVM has last seen; figures only if somebody `wants` them."""

    cores: int | None = None
    figures: JvmFigures | None = None
    wants_figures: bool = False


@dataclass
class _Opening:
    """One thread at a time opens something; `failure` is why the context could not be opened."""

    turn: threading.RLock = field(default_factory=threading.RLock)
    failure: SparkError | None = None


class SparkRuntime:
    """Starts Spark for this process, and stops it.

    `properties` are the user's `spark.*`; `secrets` become environment variables of the executors' Python processes and
    are in no conf, plan, UI or command line (E11). `jvm` was launched before with the same properties; without it,
    `start` launches one. One runtime at a time in a process: PySpark keeps its JVM in a module variable. The JVM ends
    when this process does, for whatever reason.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        secrets: Mapping[str, str] | None = None,
        py_files: Sequence[str] = (),
        on_line: OnLine | None = None,
        jvm: DriverJvm | None = None,
    ) -> None:
        self._given = dict(properties)
        self._secrets = dict(secrets or {})
        self._py_files = list(py_files)
        self._on_line = on_line
        self._jvm = jvm
        self._listeners: list[OnExit] = []
        self._gateway: Any = None
        self._context: Any = None
        self._session: Any = None
        self._seen = _Seen()
        self._opening = _Opening()
        self._is_stopping = threading.Event()

    def start(self) -> None:
        """Start the JVM and the context, which is all that slots need; takes seconds. Raises SparkError."""
        self.open()
        threading.Thread(target=self._watch, name="spark-watch", daemon=True).start()

    def open(self) -> None:
        """Do what `start` does, but for watching Spark for `on_exit`: another thread may do this before `start`.

        A second call waits for the first, and raises the same SparkError.
        """
        with self._opening.turn:
            if self._opening.failure is not None:
                raise self._opening.failure
            if self._context is None:
                try:
                    self._open()
                except SparkError as error:
                    self._opening.failure = error
                    raise

    def _open(self) -> None:
        if SparkContext._active_spark_context is not None or SparkContext._gateway is not None:
            raise SparkError("this process already runs Spark; a worker needs a process of its own")
        jvm = self._jvm = self._jvm or DriverJvm(self._given, self._secrets, self._on_line)
        global _running
        try:
            self._connect(jvm)
            self._seen.cores = self._count_cores()
            _running = self
        except Exception as error:
            self.stop()
            printed = jvm.output.tail()
            raise SparkError(
                f"Spark did not start with spark.master={jvm.master}: {error}; check the spark.* settings of the "
                f"worker's file against what Spark has printed:\n{printed}".rstrip()
            ) from error

    def on_exit(self, listener: OnExit) -> None:
        """Call `listener(reason)` once, in a thread of its own, if Spark ends without `stop`."""
        self._listeners.append(listener)

    @property
    def session(self) -> Any:
        """Return the SparkSession, created at the first call, which takes seconds: DataFrames need it, slots do not.

        Raises SparkError before `start` and after `stop`.
        """
        with self._opening.turn:
            context = self.context
            if self._session is None:
                self._session = _prepared(SparkSession(context))
            return self._session

    def adopt_thread(self, tag: str) -> None:
        """Make the session that of the calling thread: Spark finds data sources through the session of the thread.

        Its jobs get a tag, by which `RunningJobs` finds them.
        """
        session = self.session
        session.sparkContext.addJobTag(tag)
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)

    def driver_thread(self) -> int:
        """Return the number of the thread in Spark's driver that works for the calling one, always the same."""
        return int(self.session._jvm.java.lang.Thread.currentThread().getId())

    @property
    def context(self) -> Any:
        """Return the SparkContext. Raises SparkError before `start` and after `stop`."""
        context = self._context
        if context is None:
            raise SparkError("Spark is not running")
        return context

    @property
    def cores(self) -> int:
        """Return how many Spark tasks can run at once: nominal in local mode, those of all executors on a cluster.

        This is the last known number: it never waits for the JVM, which may hang. Raises SparkError before `start`.
        """
        if self._seen.cores is None:
            raise SparkError("Spark is not running")
        return self._seen.cores

    def _count_cores(self) -> int:
        scala = self.context._jsc.sc()
        return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))

    @property
    def jvm_pid(self) -> int | None:
        """Return the process id of the newest JVM, which may have ended; None before the first."""
        return None if self._jvm is None else int(self._jvm.process.pid)

    @property
    def jvm_figures(self) -> JvmFigures | None:
        """Return the figures of the JVM, at most a second old; None before the second question.

        This never waits for the JVM, which may hang: whoever asks has them fetched by the thread that watches it.
        """
        self._seen.wants_figures = True
        return self._seen.figures

    @property
    def is_alive(self) -> bool:
        return self._gone() is None

    def stop(self) -> None:
        """Stop Spark and end the JVM. Idempotent; cancels everything that runs."""
        self._is_stopping.set()
        context, self._context, self._session = self._context, None, None
        if context is not None:
            with contextlib.suppress(Exception):
                context.stop()
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            with contextlib.suppress(Exception):
                gateway.shutdown()
        if self._jvm is not None:
            self._jvm.end()
        _forget()

    def _connect(self, jvm: DriverJvm) -> None:
        """Connect: 1 the JVM's gateway; 2 properties that Spark also looks up in the JVM's own; 3 the context."""
        os.environ.update(python_environment(jvm.master, jvm.properties))  # read when the context is made
        # PySpark warns about the version of pandas, if it is installed; nothing here uses it.
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        port, secret = jvm.gateway()  # 1
        with _environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
            self._gateway = launch_gateway()
        ask_numpy_only_for_its_own()
        leave_exceptions_to_their_catcher()
        system = self._gateway.jvm.java.lang.System
        for key, value in jvm.properties.items():  # 2
            if not is_secret(key, value):
                system.setProperty(key, value)
        conf = SparkConf(loadDefaults=False).setAll(list(jvm.properties.items()))
        self._context = SparkContext(conf=conf, gateway=self._gateway, pyFiles=self._py_files)  # 3
        if not is_local(jvm.master):
            # With each function, in Spark's own messages. What spark.executorEnv sets is in scripts and specifications
            # of containers, and in YARN's logs (E11).
            self._context.environment.update(self._secrets)

    def _gone(self) -> str | None:
        jvm, context = self._jvm, self._context
        if jvm is None or context is None:
            return "Spark was stopped"
        code = jvm.process.poll()
        if code is not None:
            return f"Spark's JVM has ended with exit code {code}"
        try:
            return "Spark stopped the application" if context._jsc.sc().isStopped() else None
        except Exception as error:
            return f"Spark's JVM does not answer: {error}"

    def _take_figures(self) -> None:
        if self._seen.wants_figures and self._gateway is not None:
            self._seen.wants_figures = False
            self._seen.figures = jvm_figures(self._gateway.jvm)

    def _watch(self) -> None:
        while not self._is_stopping.wait(_WATCH_EVERY_S):
            reason = self._gone()
            if reason is None:
                with contextlib.suppress(Exception):  # the JVM has just ended: the next check reports it
                    self._seen.cores = self._count_cores()
                    self._take_figures()
            elif not self._is_stopping.is_set():
                for listener in self._listeners:
                    listener(reason)
                return


def new_session(runtime: SparkRuntime) -> Any:
    """Return another session of a Spark, which has views of its own, and make it that of the calling thread.

    Raises SparkError before its start and after its end.
    """
    made = _prepared(runtime.session.newSession())
    made._jvm.SparkSession.setActiveSession(made._jsparkSession)  # Spark finds data sources through it
    return made


def _prepared(session: Any) -> Any:
    session.dataSource.register(FencepostDataSource)
    close_functions(session)
    return session


def _forget() -> None:
    """Clear PySpark's module variables, which it does not do when its JVM was killed."""
    global _running
    _running = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


@contextlib.contextmanager
def _environment(additions: Mapping[str, str]) -> Iterator[None]:
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
