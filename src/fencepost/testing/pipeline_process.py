"""The process that runs the tasks of a `Pipeline`: the runtime's own runners on a real Kafka, without a worker.

It reads its spec as a line of JSON, prints reports of tasks as lines of JSON, and stops when its input ends.
"""

import importlib
import importlib.util
import json
import sys
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.api import SinkConnector
from fencepost.config.setting import as_text
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.admin.client import Admin
from fencepost.plugin import PluginRegistry, use_registry
from fencepost.plugin.directory import public_name
from fencepost.storage.change import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.channel.message import Admission, LostTask, TaskReport
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.slot.slot import runner_of
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.admission import Admissions
from fencepost.worker.supervision.task.handle import StartIdentity, TaskHandle
from fencepost.worker.supervision.task.specs import ensure_own_topic, task_spec

_STOP_S = 30.0


@dataclass(frozen=True)
class ClassPlace:
    """Where another process finds a class: in a module that it imports, or else in a file."""

    module: str
    name: str
    file: str

    @classmethod
    def of(cls, plugin: type[Any]) -> "ClassPlace":
        """Return the place of a class. Raises ValueError for one that only this process can have."""
        if "<" in plugin.__qualname__:
            raise ValueError(
                f"{plugin.__qualname__} is defined inside a function, where the process of the tasks cannot find it: "
                "define it at the top of a module"
            )
        file = getattr(sys.modules.get(plugin.__module__), "__file__", None)
        return cls(plugin.__module__, plugin.__qualname__, str(file or ""))

    def load(self) -> type[Any]:
        """Return the class."""
        module = None if self.module == "__main__" else _imported(self.module)
        if module is None:
            spec = importlib.util.spec_from_file_location("fencepost_testing_main", self.file)
            if spec is None or spec.loader is None:
                raise ImportError(f"{self.module} cannot be imported, and {self.file or 'nothing'} is not its file")
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        found: Any = module
        for name in self.name.split("."):
            found = getattr(found, name)
        return found  # type: ignore[no-any-return]


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        return None


class TaskProcess:
    """The tasks of one connector, each with its runner."""

    def __init__(self, worker: dict[str, str], config: dict[str, str], connector: type[Any], tasks: int) -> None:
        settings = WorkerSettings(WorkerConfig(worker), "http://127.0.0.1:8083", uuid.uuid4().hex)
        name = config["name"]
        own = [{k: as_text(k, v) for k, v in one.items()} for one in connector(config).task_configs(tasks)]
        self._snapshot = snapshot = ClusterSnapshot(
            connectors={name: config},
            task_configs={name: dict(enumerate(own))},
            task_counts={name: len(own)},
        )
        topic = settings.config.offset_storage_topic
        Admin(settings.admin_conf()).topics.ensure(topic, partitions=1, replication=1)
        self._admissions = Admissions(settings, lambda _: snapshot, lambda _: None)
        self._print = threading.Lock()
        is_sink = issubclass(connector, SinkConnector)
        specs = [
            task_spec(
                settings, snapshot, TaskHandle(StartIdentity(TaskId(name, n), 1, uuid.uuid4().hex, 0, is_sink), "")
            )
            for n in range(len(own))
        ]
        if specs and not is_sink:
            ensure_own_topic(settings, config, specs[0].commits.ledger_topic)
        self._runners = [runner_of(spec, self._admit, self._report) for spec in specs]

    def run(self) -> None:
        """Run all tasks until the input ends."""
        for runner in self._runners:
            runner.thread.start()
        sys.stdin.read()
        for runner in self._runners:
            runner.control.stop()
        for runner in self._runners:
            runner.thread.join(_STOP_S)

    def _admit(self, spec: TaskSpec, *, wants_offsets: bool = True) -> Admission:
        if spec.is_sink or not wants_offsets:
            return Admission(is_admitted=True)
        return self._admissions.with_offsets(
            self._snapshot, TaskId(spec.connector, spec.task), spec.commits.ledger_topic
        )

    def _report(self, last: TaskReport | LostTask) -> None:
        report = last if isinstance(last, TaskReport) else last.report
        line = json.dumps({"task": report.task, "state": str(report.state), "trace": report.trace})
        with self._print:
            print(line, flush=True)


def main(_: Sequence[str]) -> int:
    spec = json.loads(sys.stdin.readline())
    sys.path[:] = spec["path"]
    connector = ClassPlace(**spec["connector"]).load()
    config = {**spec["config"], "connector.class": public_name(connector)}
    use_registry(PluginRegistry(connectors=[connector]))
    TaskProcess(spec["worker"], config, connector, spec["tasks"]).run()
    return 0


if __name__ == "__main__":
    from fencepost.cli.output import end_process

    end_process(main(sys.argv[1:]))
