"""One connector on this worker: the calls to its author's code, and what follows from the results."""

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, cast

from fencepost.api import Connector
from fencepost.api.hosted_task import TASK_CLASS, HostedConnector, NamesTaskClass
from fencepost.config import ConfigError
from fencepost.config.closed_topics import ClosedTopics
from fencepost.config.connector import ConnectorConfig
from fencepost.config.raw import RawConfig, given_values
from fencepost.config.setting import as_text
from fencepost.plugin import PluginKind, registry
from fencepost.plugin.secret_keys import hold_given_secrets
from fencepost.reference import LookedUp
from fencepost.reference.restored import restored
from fencepost.storage.ids import TargetState
from fencepost.storage.status_topic import State
from fencepost.telemetry.subject import fields_of
from fencepost.telemetry.traces import reason_first, trace_of
from fencepost.worker.fixed_reference import refuse_fixed_references
from fencepost.worker.reload import reload_in_s
from fencepost.worker.supervision.connector.restarts import ConnectorRestarts
from fencepost.worker.supervision.connector.services import ConnectorServices
from fencepost.worker.supervision.connector.task_config_sender import TaskConfigSender

log = logging.getLogger(__name__)

_AWAY_S = 2.0


class _Context:
    """The `ConnectorContext` of a running connector; for a mirror's, its `MirrorContext`."""

    def __init__(self, life: "ConnectorLife", services: ConnectorServices, known: LookedUp, hidden: ExitStack) -> None:
        """`known`: the connector's config, with the values that it refers to: `hidden` until that is closed."""
        self._life = life
        self._services = services
        self.known = known
        self.hidden = hidden
        self.remarked: str | None = None

    def request_task_reconfiguration(self) -> None:
        self._services.take_turn(self._life.name, self._life.reconfigure)

    def raise_error(self, error: Exception) -> None:
        trace = trace_of(error)
        self._services.take_turn(self._life.name, lambda: self._life.raised(self, trace))

    def remark(self, text: str | None) -> None:
        self._services.take_turn(self._life.name, lambda: self._life.remark(self, text))

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return self._services.offsets_of(self._life.name)

    def closed_topics(self, cluster_id: str) -> ClosedTopics:
        return self._services.closed_topics(cluster_id)


class ConnectorLife:
    """Starts and stops the connector and passes on its task configs. Methods are called one at a time, and may wait.

    It outlives the connector's instance.
    """

    def __init__(self, name: str, services: ConnectorServices) -> None:
        self.name = name
        self._services = services
        self._config: RawConfig | None = None  # None: the connector is not assigned here
        self._target: TargetState | None = None
        self._instance: Connector | None = None
        self._hurries = 0
        self._restarts = ConnectorRestarts(name, services, self._restart)
        self._sender = TaskConfigSender(name, services, lambda: self._instance, self._task_configs, self.fail)

    def follow(self, config: RawConfig, target: TargetState, *, is_inconsistent: bool) -> None:
        """Apply the state of the config topic."""
        if self._config is not config:  # even if it was stored again unchanged
            self._end()
            self._config = config
            self._go_to(target)
        elif self._target is not target:
            self._go_to(target)
        elif is_inconsistent and not self._sender.is_again_soon:
            self._sender.send()

    def hurry(self) -> None:
        """Let a call of the connector end soon, if that is possible: it is to stop. Any thread."""
        self._hurries += 1
        instance = self._instance
        if isinstance(instance, HostedConnector):
            instance.end_calls()

    def figures(self) -> Sequence[Sequence[str | float]]:
        """Return the metrics that the connector has registered. Any thread."""
        instance = self._instance
        return instance.figures() if isinstance(instance, HostedConnector) else ()

    def leave(self) -> None:
        """Stop: it is assigned to another worker, or deleted."""
        self._end()
        self._restarts.call_off()
        self._config = self._target = None

    def reconfigure(self) -> None:
        """Ask the connector for task configs, and pass them to the leader."""
        self._sender.send()

    def restart(self) -> None:
        """Stop and start it, not its tasks."""
        self._restarts.call_off()
        self._restart()

    def _restart(self) -> None:
        if self._config is None or self._target is not TargetState.STARTED:
            return
        self._end()
        self._services.board.connector(self.name, State.RESTARTING)
        self._begin(self._config)

    def remark(self, context: _Context, text: str | None) -> None:
        """Publish the connector's remark, unless the connector has ended in the meantime."""
        if self._is_of(context) and text != context.remarked:
            context.remarked = text
            self._services.board.connector(self.name, State.RUNNING, text)

    def raised(self, context: _Context, trace: str) -> None:
        """Fail, unless the connector that has raised the error has ended in the meantime."""
        if self._is_of(context):
            self.fail(trace)

    def _is_of(self, context: _Context) -> bool:
        return self._instance is not None and self._instance.context is context

    def fail(self, trace: str) -> None:
        if self._config is None:
            return
        self._end()
        log.error("connector %s failed: %s", self.name, reason_first(trace), extra=fields_of(self.name))
        self._restarts.failed(self._config, trace)

    def _go_to(self, target: TargetState) -> None:
        self._restarts.call_off()
        self._target = target
        if target is TargetState.STARTED and self._config is not None:
            self._begin(self._config)
        else:
            self._end()
            self._services.board.connector(self.name, State(target.value))

    def _begin(self, config: RawConfig) -> None:
        self._restarts.began_s = time.monotonic()
        self._services.count_startup("attempts")
        hidden, hurries = ExitStack(), self._hurries
        try:
            refuse_fixed_references(config)
            known = self._services.look_up(config)
            if known.away is not None:
                self._begin_later(config, known)
                return
            hidden.callback(known.keep_hidden())
            hidden.callback(hold_given_secrets(config))
            cls = self._services.find(config)
            instance = cls(given_values(known.require()))
            instance.context = _Context(self, self._services, known, hidden)
            self._instance = instance
            if hurries != self._hurries:  # meanwhile, when there was nothing that could end soon
                self.hurry()
            instance.start()
        except BaseException as error:
            self._services.count_startup("failures")
            self.fail(trace_of(error))
            hidden.close()
            return
        self._services.count_startup("successes")
        self._services.board.connector(self.name, State.RUNNING)
        self._sender.send()
        if (in_s := reload_in_s(known.values, known.ttl_ms)) is not None:
            self._services.take_turn(self.name, lambda: self._reload(instance), in_s)

    def _begin_later(self, config: RawConfig, known: LookedUp) -> None:
        """Try again soon, as a store with values is away, unless something else has happened by then."""
        text = "\n".join(known.faults.values())
        log.warning("connector %s cannot start yet: %s", self.name, text)
        self._services.board.connector(self.name, State.UNASSIGNED, text)

        def again() -> None:
            if self._config is config and self._target is TargetState.STARTED and self._instance is None:
                self._begin(config)

        self._services.take_turn(self.name, again, _AWAY_S)

    def _reload(self, expired: Connector) -> None:
        """Restart an instance whose values have expired, unless another one runs, or they cannot be looked up now."""
        if self._instance is not expired or self._config is None:
            return
        known = self._services.look_up(self._config)
        if known.away is not None:
            log.warning(
                "connector %s goes on with values that have expired: %s", self.name, "; ".join(known.faults.values())
            )
            self._services.take_turn(self.name, lambda: self._reload(expired), _AWAY_S)
        else:
            log.info("connector %s is restarted: what its config refers to has expired", self.name)
            self._restart()

    def _task_configs(self, instance: Connector) -> list[RawConfig]:
        known = cast(_Context, instance.context).known
        config = ConnectorConfig(given_values(known.values))
        configs = instance.task_configs(config.tasks_max)
        if len(configs) > config.tasks_max and config.tasks_max_enforce:
            raise ConfigError(
                f"The connector {config.name} has generated {len(configs)} tasks, which is greater than "
                f"{config.tasks_max}, the maximum number of tasks it is configured to create; raise 'tasks.max'."
            )
        task_class = _task_class(instance)
        texts = [{k: as_text(k, v) for k, v in c.items()} for c in configs]
        made = [restored(each, self._config or {}, known.values, known.found) for each in texts]
        return [{**each, TASK_CLASS: task_class} for each in made]

    def _end(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None:
            try:
                instance.stop()
            except BaseException:
                log.exception("connector %s: an error in stop() is ignored", self.name)
            cast(_Context, instance.context).hidden.close()


def _task_class(connector: Connector) -> str:
    """Return the name that Kafka Connect writes as `task.class`; built-in ones have Java names."""
    if isinstance(connector, NamesTaskClass):
        return connector.task_class_name
    name = registry().name_of(PluginKind.CONNECTOR, type(connector))
    return f"{name.removesuffix('Connector')}Task"
