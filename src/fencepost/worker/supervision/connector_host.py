"""Connectors on this worker: start them, ask for task configs, follow their target state.

One thread carries out what is due for any connector, in order; a connector that takes long holds up others, not the
tasks. Task configs go to the leader, which writes them if they differ from what runs.
"""

import logging
import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from fencepost.api import SourceConnector
from fencepost.config import ConfigError
from fencepost.config.connector import ConnectorConfig
from fencepost.config.raw import RawConfig
from fencepost.config.setting import as_text
from fencepost.plugin import PluginKind, registry
from fencepost.storage.ids import TargetState
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import State
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.status import StatusBoard

log = logging.getLogger(__name__)

_RETRY_S = 1.0

PutTaskConfigs = Callable[[str, Sequence[RawConfig]], "Future[Any]"]


@dataclass
class _Running:
    """A connector on this worker. `target` is what it was last told to be.

    `is_due` says that task configs are to be published once those that are on the way have arrived.
    """

    config: RawConfig
    target: TargetState | None = None
    instance: SourceConnector | None = None
    is_failed: bool = False
    is_due: bool = False
    publishes_at: float | None = None


class _Context:
    """The `ConnectorContext` of a running connector."""

    def __init__(self, host: "ConnectorHost", name: str) -> None:
        self._host = host
        self._name = name

    def request_task_reconfiguration(self) -> None:
        self._host.reconfigure(self._name)

    def raise_error(self, error: Exception) -> None:
        self._host.failed(self._name, error)

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return self._host.offsets_of(self._name)


class ConnectorHost:
    """Runs the connectors that are assigned to this worker. Public methods queue, from any thread."""

    def __init__(
        self,
        settings: WorkerSettings,
        find: Callable[[str], type[SourceConnector]],
        put_task_configs: PutTaskConfigs,
        board: StatusBoard,
        offsets_of: Callable[[str], list[tuple[dict[str, Any], dict[str, Any]]]],
    ) -> None:
        self._settings = settings
        self._find = find
        self._put_task_configs = put_task_configs
        self._board = board
        self.offsets_of = offsets_of
        self._snapshot = ClusterSnapshot()
        self._running: dict[str, _Running] = {}
        self._on_the_way: set[str] = set()
        self._events: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self.startups = {"attempts": 0, "successes": 0, "failures": 0}
        self._thread = threading.Thread(target=self._run, name="connectors", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop every connector."""
        self._events.put(self._stop_all)
        self._events.put(None)
        self._thread.join(5.0)

    def changed(self, snapshot: ClusterSnapshot) -> None:
        self._events.put(lambda: self._take_snapshot(snapshot))

    def reconfigure(self, name: str) -> None:
        """Ask the connector for task configs again."""
        self._events.put(lambda: self._publish_soon(name))

    def restart(self, name: str) -> "threading.Event":
        """Stop and start the connector, not its tasks. The event is set once that is done."""
        done = threading.Event()

        def act() -> None:
            self._restart(name)
            done.set()

        self._events.put(act)
        return done

    def failed(self, name: str, error: BaseException) -> None:
        trace = "".join(traceback.format_exception(error))
        self._events.put(lambda: self._fail(name, trace))

    def count(self) -> int:
        return len(self._running)

    # the host's thread

    def _run(self) -> None:
        while True:
            try:
                event = self._events.get(timeout=self._until_due_s())
            except queue.Empty:
                event = self._publish_due
            if event is None:
                return
            try:
                event()
                if self._events.empty():
                    self._publish_due()
            except Exception:
                log.exception("the connector host met an error")

    def _until_due_s(self) -> float:
        due = [r.publishes_at for r in self._running.values() if r.publishes_at is not None]
        return max(0.0, min(due) - time.monotonic()) if due else 5.0

    def _take_snapshot(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        mine = snapshot.assignment.of(self._settings.incarnation) if snapshot.assignment else None
        wanted = {c for c in (mine.connectors if mine else ()) if c in snapshot.connectors}
        for name in [n for n in self._running if n not in wanted]:
            self._end(name)
            del self._running[name]
        for name in sorted(wanted):
            self._follow(name)

    def _follow(self, name: str) -> None:
        config, target = self._snapshot.connectors[name], self._snapshot.target_state(name)
        running = self._running.get(name)
        if running is None or running.config is not config:  # also one that was stored again as it was
            if running is not None:
                self._end(name)
            self._running[name] = _Running(config)
            self._go_to(name, target)
        elif running.target is not target:
            self._go_to(name, target)
        elif name in self._snapshot.inconsistent and running.publishes_at is None and not running.is_failed:
            self._publish_soon(name)

    def _go_to(self, name: str, target: TargetState) -> None:
        running = self._running[name]
        running.target = target
        if target is TargetState.STARTED:
            self._begin(name)
        else:
            self._end(name)
            running.publishes_at = None
            self._board.connector(name, State(target.value))

    def _begin(self, name: str) -> None:
        running = self._running[name]
        running.is_failed = False
        self.startups["attempts"] += 1
        try:
            cls = self._find(str(running.config["connector.class"]))
            instance = cls({k: v for k, v in running.config.items() if v is not None})
            instance.context = _Context(self, name)
            running.instance = instance
            instance.start()
        except Exception as error:
            self.startups["failures"] += 1
            self._fail(name, "".join(traceback.format_exception(error)))
            return
        self.startups["successes"] += 1
        self._board.connector(name, State.RUNNING)
        self._publish(name)

    def _publish_soon(self, name: str) -> None:
        running = self._running.get(name)
        if running is not None and running.target is TargetState.STARTED:
            running.publishes_at = time.monotonic()

    def _publish_due(self) -> None:
        now = time.monotonic()
        for name, running in list(self._running.items()):
            if running.publishes_at is not None and running.publishes_at <= now:
                self._publish(name)

    def _publish(self, name: str) -> None:
        """Ask for task configs and pass them to the leader; an error of the way there is tried again.

        One set of a connector at a time: an older one that is late would undo the newer.
        """
        running = self._running[name]
        running.publishes_at = None
        running.is_due = name in self._on_the_way
        if running.instance is None or running.is_due:
            return
        try:
            configs = self._task_configs(running)
        except Exception as error:
            self._fail(name, "".join(traceback.format_exception(error)))
            return
        self._on_the_way.add(name)
        written = self._put_task_configs(name, configs)
        written.add_done_callback(lambda done: self._events.put(lambda: self._published(name, running, done)))

    def _published(self, name: str, running: _Running, written: "Future[Any]") -> None:
        """The leader has written the task configs, or says why not."""
        self._on_the_way.discard(name)
        newest = self._running.get(name)
        if newest is not None and newest.is_due:
            self._publish(name)
            return
        error = None if written.cancelled() else written.exception()
        if error is not None and self._running.get(name) is running and running.instance is not None:
            log.warning("task configs of %s are published again in %g s: %s", name, _RETRY_S, error)
            running.publishes_at = time.monotonic() + _RETRY_S

    def _task_configs(self, running: _Running) -> list[RawConfig]:
        assert running.instance is not None
        config = ConnectorConfig({k: v for k, v in running.config.items() if v is not None})
        configs = running.instance.task_configs(config.tasks_max)
        if len(configs) > config.tasks_max and config.tasks_max_enforce:
            raise ConfigError(
                f"The connector {config.name} has generated {len(configs)} tasks, which is greater than "
                f"{config.tasks_max}, the maximum number of tasks it is configured to create; raise 'tasks.max'."
            )
        task_class = _task_class(type(running.instance))
        return [{**{k: as_text(k, v) for k, v in c.items()}, "task.class": task_class} for c in configs]

    def _restart(self, name: str) -> None:
        running = self._running.get(name)
        if running is None or running.target is not TargetState.STARTED:
            return
        self._end(name)
        self._board.connector(name, State.RESTARTING)
        self._begin(name)

    def _fail(self, name: str, trace: str) -> None:
        running = self._running.get(name)
        if running is None:
            return
        running.is_failed = True
        self._end(name)
        log.error("connector %s failed: %s", name, trace.strip().splitlines()[-1])
        self._board.connector(name, State.FAILED, trace)

    def _end(self, name: str) -> None:
        instance, self._running[name].instance = self._running[name].instance, None
        if instance is not None:
            try:
                instance.stop()
            except Exception:
                log.exception("connector %s: an error in stop() is ignored", name)

    def _stop_all(self) -> None:
        for name in list(self._running):
            self._end(name)
            if name in self._snapshot.connectors:
                self._board.connector(name, State.UNASSIGNED)


def _task_class(connector: type[SourceConnector]) -> str:
    """Return what Kafka Connect writes as `task.class`; the built-ins have the Java names."""
    name = registry().name_of(PluginKind.CONNECTOR, connector)
    return f"{name.removesuffix('Connector')}Task"
