"""A connector's tasks on a real Kafka, in a process that may be killed."""

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import IO, Any, Self

from fencepost.api import Connector
from fencepost.cluster.errors import BadRequestError
from fencepost.config import ConfigError
from fencepost.config.worker import WorkerConfig
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.plugin import PluginRegistry
from fencepost.plugin.directory import public_name
from fencepost.testing.reader import read_committed
from fencepost.testing.source import Item, TestingSource, TestingSourceConnector
from fencepost.testing.source_run import properties_of
from fencepost.testing.verdict import Observation, eventually

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_STRING = "org.apache.kafka.connect.storage.StringConverter"
_TIMEOUT_S = 60.0
_STOP_S = 45.0
_MOST_CRASHES = 20


class Pipeline:
    """Runs the tasks of a connector with the runtime's own loops, transactions and groups. A context manager.

    The tasks are in a process of their own; if it ends, it is started again. There is no worker: nothing is asked over
    REST, and no leader fences. `kafka` is a Kafka that runs already; without it one is started, which takes a few
    seconds. Values are JSON without schemas and keys are text, unless the config names converters. The class must be at
    the top of a module, or of a test file. DataFrame connectors need Spark, and so a worker (`fencepost dev`).

    >>> from fencepost.builtin.connector.generator import VerifiableSourceConnector
    >>> from fencepost.testing import Pipeline
    >>> with Pipeline(VerifiableSourceConnector, {"topic": "n", "throughput": 500}) as pipeline:
    ...     pipeline.wait_for(5, "n")[0].value
    ...     pipeline.crash()  # kill -9; the process is started again
    ...     seen = pipeline.wait_for(100, "n")
    b'0'
    >>> [int(one.value) for one in seen] == list(range(len(seen)))
    True
    """

    def __init__(
        self,
        connector: type[Connector],
        config: Mapping[str, object] | None = None,
        *,
        kafka: EmbeddedKafka | None = None,
        tasks: int = 1,
    ) -> None:
        from fencepost.testing.pipeline_process import ClassPlace

        if getattr(connector, "is_dataframe", False):
            raise ValueError(f"{connector.__name__} needs Spark: run it in a worker, such as `fencepost dev`")
        self._place = ClassPlace.of(connector)
        self._connector = connector
        self._config = {"name": f"testing-{uuid.uuid4().hex[:8]}", **properties_of(config, {})}
        self._kafka = kafka
        self._tasks = tasks
        self._cleanup = contextlib.ExitStack()
        self._life = _Life()
        self.script = TestingSource()
        """What `of_script` has made."""

    @classmethod
    def of_script(cls, *scripts: Sequence[Item], kafka: EmbeddedKafka | None = None) -> "Pipeline":
        """Return a pipeline whose source follows scripts, one for each task, and writes to a topic of its own."""
        made = cls(TestingSourceConnector, kafka=kafka, tasks=len(scripts))
        made.script = TestingSource(*scripts, topic=made._config["name"])
        made._config = {**made.script.properties(), "name": made._config["name"]}
        return made

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            if self._kafka is None:
                self._kafka = stack.enter_context(EmbeddedKafka())
            self._check_config()
            errors = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))
            self._life = _Life(self._spec(), errors)
            stack.callback(self._life.stop)
            self._life.start()
            self._cleanup = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    @property
    def bootstrap_servers(self) -> str:
        """Return the address of Kafka, for clients."""
        assert self._kafka is not None, "the pipeline is not started: use it in a with statement"
        return self._kafka.bootstrap_servers

    def crash(self) -> None:
        """Kill the process of the tasks with SIGKILL. It is started again at once."""
        self._life.kill()

    def produce(self, topic: str, values: Iterable[Any], *, key: str | None = None) -> None:
        """Write values to a topic, as JSON unless they are bytes, and wait until they are there."""
        client = LibrdkafkaProducer({"bootstrap.servers": self.bootstrap_servers, "acks": "all"})
        Admin({"bootstrap.servers": self.bootstrap_servers}).topics.ensure(topic, partitions=1, replication=1)
        for value in values:
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            client.produce(topic, data, **({} if key is None else {"key": key.encode()}))
        client.flush(_TIMEOUT_S)
        client.drop()

    def committed(self, topic: str | None = None) -> list[Observation]:
        """Return the records of a topic (a script's, if None) that are committed now; none if it does not exist yet."""
        topic = self.script.topic if topic is None else topic
        conf = {"bootstrap.servers": self.bootstrap_servers}
        return [] if Admin(conf).topics.partitions(topic) is None else read_committed(conf, topic, _TIMEOUT_S)

    def wait_for(self, count: int, topic: str | None = None, *, within_s: float = 60.0) -> list[Observation]:
        """Return the committed records of a topic (a script's, if None) once there are so many.

        Raises AssertionError if a task has failed.
        """

        found: list[Observation] = []

        def is_there() -> bool:
            found[:] = self.committed(topic)
            return len(found) >= count or bool(self._life.failure)

        eventually(is_there, within_s=within_s)
        self.ensure_runs()
        return found

    def ensure_runs(self) -> None:
        """Raise AssertionError, with the trace, if a task has failed or the process does not stay alive."""
        assert not self._life.failure, self._life.failure

    def wait_for_failure(self, *, within_s: float = 60.0) -> str:
        """Return why a task failed, once one has."""
        return eventually(lambda: self._life.failure, within_s=within_s)

    def _check_config(self) -> None:
        """Raise ConfigError with all faults of the config, as a worker would answer."""
        marks = TestingSourceConnector.key_of("mark_bootstrap_servers")
        if marks in self._config:
            self._config[marks] = self._config[marks] or self.bootstrap_servers
        from fencepost.worker.validation.validation import require_valid, validate_connector

        config = {**self._config, "connector.class": public_name(self._connector)}
        plugins = PluginRegistry(connectors=[self._connector])
        try:
            require_valid(validate_connector(config, plugins=plugins, worker=WorkerConfig(self._worker())))
        except BadRequestError as error:
            raise ConfigError(str(error)) from None

    def _worker(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": "testing-worker",
            "config.storage.topic": "testing-configs",
            "offset.storage.topic": "testing-offsets",
            "offset.storage.replication.factor": "1",
            "status.storage.topic": "testing-status",
            "key.converter": _STRING,
            "value.converter": _JSON,
            "value.converter.schemas.enable": "false",
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "1000",
            "consumer.session.timeout.ms": "6000",  # so long a member that was killed has its partitions
            "consumer.heartbeat.interval.ms": "2000",
        }

    def _spec(self) -> str:
        return json.dumps(
            {
                "path": sys.path,
                "connector": asdict(self._place),
                "config": self._config,
                "worker": self._worker(),
                "tasks": self._tasks,
            }
        )


class _Life:
    """The process of the tasks, which is started again whenever it ends."""

    def __init__(self, spec: str = "", errors: IO[str] | None = None) -> None:
        self.failure = ""
        """Why a task failed, or why the process is not started any more."""
        self._spec = spec
        self._errors = errors
        self._process: subprocess.Popen[str] | None = None
        self._is_stopping = False
        self._crashes = 0
        self._changes = threading.Lock()

    def start(self) -> None:
        """Start the process."""
        with self._changes:
            if self._is_stopping:
                return
            command = [sys.executable, "-m", "fencepost.testing.pipeline_process"]
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                encoding="utf-8",
                errors="replace",
            )
            self._process = process
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(self._spec + "\n")
            process.stdin.flush()
        threading.Thread(target=self._follow, args=(process,), daemon=True).start()

    def kill(self) -> None:
        """Kill the process, and wait until it has ended."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """Stop the tasks as the runtime does; a process that does not end is killed."""
        with self._changes:
            self._is_stopping = True
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def _follow(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(ValueError):
                report = json.loads(line)
                if isinstance(report, dict) and report.get("state") == "FAILED":
                    self.failure = f"task {report['task']} failed: {report['trace']}"
        process.wait()
        if self._is_stopping:
            return
        self._crashes += 1
        if self._crashes > _MOST_CRASHES:
            self.failure = f"the process of the tasks has ended {self._crashes} times: {self._last_errors()}"
            return
        self.start()

    def _last_errors(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        return self._errors.read()[-4000:]
