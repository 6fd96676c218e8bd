"""One connector on this worker: the calls to its author's code, and what follows from the results."""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from fencepost.api import Connector, RetriableError
from fencepost.cluster.errors import BadRequestError
from fencepost.config import ConfigError
from fencepost.config.connector import ConnectorConfig
from fencepost.config.raw import RawConfig
from fencepost.config.reference import check_references
from fencepost.config.setting import as_text
from fencepost.plugin import PluginKind, registry
from fencepost.storage.ids import TargetState
from fencepost.storage.status_topic import State
from fencepost.telemetry.traces import trace_of
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.automatic_restart import AutomaticRestarts, RestartPolicy
from fencepost.worker.supervision.status import StatusBoard

log = logging.getLogger(__name__)

_RETRY_S = 1.0

PutTaskConfigs = Callable[[str, Sequence[RawConfig]], "Future[Any]"]


class ConnectorServices(Protocol):
    """What a connector's life needs of the worker."""

    settings: WorkerSettings
    board: StatusBoard

    def find(self, connector_class: str) -> type[Connector]: ...

    def put_task_configs(self, connector: str, configs: Sequence[RawConfig]) -> "Future[Any]": ...

    def offsets_of(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any]]]: ...

    def take_turn(self, connector: str, act: Callable[[], None], in_s: float = 0.0) -> object:
        """Run `act` in the connector's own thread, after the work that is queued there."""

    def count_startup(self, outcome: str) -> None: ...


class _Context:
    """The `ConnectorContext` of a running connector."""

    def __init__(self, life: "ConnectorLife", around: ConnectorServices) -> None:
        self._life = life
        self._around = around

    def request_task_reconfiguration(self) -> None:
        self._around.take_turn(self._life.name, self._life.reconfigure)

    def raise_error(self, error: Exception) -> None:
        trace = trace_of(error)
        self._around.take_turn(self._life.name, lambda: self._life.fail(trace))

    def remark(self, text: str | None) -> None:
        self._around.take_turn(self._life.name, lambda: self._life.remark(self, text))

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return self._around.offsets_of(self._life.name)


class ConnectorLife:
    """Starts and stops the connector and passes on its task configs. Methods are called one at a time, and may wait.

    It outlives the connector's instance: while task configs are on their way to the leader, no others are sent, even if
    the connector was unassigned and assigned again in the meantime.
    """

    def __init__(self, name: str, around: ConnectorServices) -> None:
        self.name = name
        self._around = around
        self._config: RawConfig | None = None  # None: the connector is not assigned here
        self._target: TargetState | None = None
        self._instance: Connector | None = None
        self._is_failed = False
        self._remark: str | None = None
        self._restarts: AutomaticRestarts[str] = AutomaticRestarts()
        self._failure: object = None  # the newest one, to which an automatic restart belongs
        self._began_s = 0.0
        self._is_on_the_way = False
        self._is_due = False  # task configs are to be sent once those on the way have arrived
        self._is_again_soon = False

    def follow(self, config: RawConfig, target: TargetState, *, is_inconsistent: bool) -> None:
        """Apply the state of the config topic."""
        if self._config is not config:  # even if it was stored again unchanged
            self._end()
            self._config, self._is_failed = config, False
            self._go_to(target)
        elif self._target is not target:
            self._go_to(target)
        elif is_inconsistent and not self._is_failed and not self._is_again_soon:
            self.reconfigure()

    def leave(self) -> None:
        """Stop: it is assigned to another worker, or deleted."""
        self._end()
        self._call_off_restarts()
        self._config = self._target = None

    def reconfigure(self) -> None:
        """Ask the connector for task configs, and pass them to the leader; retries if sending fails.

        It also retries after a RetriableError of the connector; the current tasks continue until then. Only one set of
        a
        connector's configs is sent at a time: an older set that arrives late would undo the newer one.
        """
        self._is_due = self._is_on_the_way
        if self._config is None or self._instance is None or self._is_due:
            return
        instance = self._instance
        try:
            configs = self._task_configs(self._config, instance)
            on_the_way = self._around.put_task_configs(self.name, configs)
        except RetriableError as error:
            self._publish_soon(error)
            return
        except BaseException as error:
            self.fail(trace_of(error))
            return
        self._is_on_the_way = True
        on_the_way.add_done_callback(
            lambda done: self._around.take_turn(self.name, lambda: self._published(instance, done))
        )

    def restart(self) -> None:
        """Stop and start it, not its tasks."""
        self._call_off_restarts()
        self._restart()

    def _restart(self) -> None:
        if self._config is None or self._target is not TargetState.STARTED:
            return
        self._end()
        self._around.board.connector(self.name, State.RESTARTING)
        self._begin(self._config)

    def remark(self, context: _Context, text: str | None) -> None:
        """Publish the connector's remark, unless the connector has ended in the meantime."""
        if self._instance is not None and self._instance.context is context and text != self._remark:
            self._remark = text
            self._around.board.connector(self.name, State.RUNNING, text)

    def fail(self, trace: str) -> None:
        if self._config is None:
            return
        self._is_failed = True
        self._end()
        log.error("connector %s failed: %s", self.name, trace.strip())
        lived_s = time.monotonic() - self._began_s
        plan = self._restarts.failed(self.name, RestartPolicy.of(self._config), lived_s)
        self._around.board.failed(self.name, trace, plan)
        failure = self._failure = object()
        if plan is not None and plan.in_s is not None:
            self._around.take_turn(self.name, lambda: self._restart_after(failure), plan.in_s)

    def _restart_after(self, failure: object) -> None:
        """Restart automatically, unless that failure was handled in the meantime."""
        if self._failure is failure:
            self._restarts.made(self.name)
            self._around.count_startup("restarts")
            log.info("connector %s is restarted automatically", self.name)
            self._restart()

    def _call_off_restarts(self) -> None:
        self._failure = None
        self._restarts.forget(self.name)

    def _go_to(self, target: TargetState) -> None:
        self._call_off_restarts()
        self._target = target
        if target is TargetState.STARTED and self._config is not None:
            self._begin(self._config)
        else:
            self._end()
            self._around.board.connector(self.name, State(target.value))

    def _begin(self, config: RawConfig) -> None:
        self._is_failed, self._remark = False, None
        self._began_s = time.monotonic()
        self._around.count_startup("attempts")
        try:
            check_references(config)  # another worker's REST may have accepted it
            cls = self._around.find(str(config["connector.class"]))
            instance = cls({k: v for k, v in config.items() if v is not None})
            instance.context = _Context(self, self._around)
            self._instance = instance
            instance.start()
        except BaseException as error:
            self._around.count_startup("failures")
            self.fail(trace_of(error))
            return
        self._around.count_startup("successes")
        self._around.board.connector(self.name, State.RUNNING)
        self.reconfigure()

    def _published(self, instance: Connector, written: "Future[Any]") -> None:
        """Handle the leader's answer to task configs."""
        self._is_on_the_way = False
        if self._is_due:
            self.reconfigure()
            return
        error = None if written.cancelled() else written.exception()
        if error is None or self._instance is not instance:
            return
        if isinstance(error, BadRequestError):  # the leader would refuse the same configs again
            self.fail(trace_of(error))
        else:
            self._publish_soon(error)

    def _publish_soon(self, error: BaseException) -> None:
        if not self._is_again_soon:
            self._is_again_soon = True
            log.warning("sending the task configs of %s will be retried in %g s: %s", self.name, _RETRY_S, error)
            self._around.take_turn(self.name, self._publish_again, _RETRY_S)

    def _publish_again(self) -> None:
        self._is_again_soon = False
        if not self._is_on_the_way:
            self.reconfigure()

    def _task_configs(self, properties: RawConfig, instance: Connector) -> list[RawConfig]:
        config = ConnectorConfig({k: v for k, v in properties.items() if v is not None})
        configs = instance.task_configs(config.tasks_max)
        if len(configs) > config.tasks_max and config.tasks_max_enforce:
            raise ConfigError(
                f"The connector {config.name} has generated {len(configs)} tasks, which is greater than "
                f"{config.tasks_max}, the maximum number of tasks it is configured to create; raise 'tasks.max'."
            )
        task_class = _task_class(type(instance))
        return [{**{k: as_text(k, v) for k, v in c.items()}, "task.class": task_class} for c in configs]

    def _end(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None:
            try:
                instance.stop()
            except BaseException:
                log.exception("connector %s: an error in stop() is ignored", self.name)


def _task_class(connector: type[Connector]) -> str:
    """Return the name that Kafka Connect writes as `task.class`; built-in ones have Java names."""
    name = registry().name_of(PluginKind.CONNECTOR, connector)
    return f"{name.removesuffix('Connector')}Task"
