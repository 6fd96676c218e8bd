"""Connectors on this worker: starts them, asks for task configs, follows their target state.

Each has its own thread while it has work to do, so that a connector whose code takes long, or never returns, delays no
other. Task configs go to the leader, which writes them if they differ from the current ones.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from typing import Any, cast

from fencepost.api import Connector, RetriableError
from fencepost.cluster.errors import BadRequestError
from fencepost.cluster.threads import ThreadsByKey
from fencepost.config import ConfigError
from fencepost.config.cluster import ClosedTopics
from fencepost.config.connector import ConnectorConfig
from fencepost.config.reference import RawConfig, given_values
from fencepost.config.setting import as_text
from fencepost.hook.hosted_task import TASK_CLASS, HostedConnector, NamesTaskClass
from fencepost.plugin import PluginKind, registry
from fencepost.plugin.secret_keys import hold_given_secrets
from fencepost.reference import LookedUp
from fencepost.reference.providers import restored
from fencepost.storage.change import TargetState
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import State
from fencepost.telemetry.loggers import fields_of
from fencepost.telemetry.traces import reason_first, trace_of
from fencepost.worker.plan import refuse_fixed_references
from fencepost.worker.state import RETRY_S
from fencepost.worker.supervision.automatic_restart import AutomaticRestarts, RestartPolicy, reload_in_s
from fencepost.worker.supervision.port import AWAY_S
from fencepost.worker.supervision.status import StatusBoard
from fencepost.worker.supervision.task_metrics import StartupCounts

log = logging.getLogger(__name__)


class ConnectorServices:
    """Any thread may call its methods; only `find`, `look_up`, `closed_topics` and `offsets_of` wait."""

    def __init__(
        self,
        find: Callable[[RawConfig], type[Connector]],
        put_task_configs: Callable[[str, Sequence[RawConfig]], "Future[Any]"],
        board: StatusBoard,
        offsets_of: Callable[[str], list[tuple[dict[str, Any], dict[str, Any]]]],
        look_up: Callable[[RawConfig], LookedUp],
        closed_topics: Callable[[str], ClosedTopics],
    ) -> None:
        """`look_up` replaces the references of a config; `closed_topics` is that of `MirrorContext`."""
        self.find = find
        self.look_up = look_up
        self.closed_topics = closed_topics
        self.put_task_configs = put_task_configs
        self.board = board
        self.offsets_of = offsets_of
        self.startups = StartupCounts()
        self._threads = ThreadsByKey(1, "connector")

    def take_turn(self, connector: str, act: Callable[[], None], in_s: float = 0.0) -> "Future[None]":
        """Run `act` in the connector's own thread, after the work that is queued there, or after `in_s` seconds."""
        if in_s == 0:
            return self._threads.submit(connector, _logging_errors, act)
        later = threading.Timer(in_s, self.take_turn, (connector, act))
        later.daemon = True
        later.start()
        return Future()

    def stop(self) -> None:
        """Take no more turns."""
        self._threads.stop()


def _logging_errors(act: Callable[[], None]) -> None:
    try:
        act()
    except BaseException:
        log.exception("the connector host had an unexpected error")


class ConnectorRestarts:
    """Used in the connector's own thread. `began_s` is when it last started, on the monotonic clock."""

    def __init__(self, name: str, services: ConnectorServices, restart: Callable[[], None]) -> None:
        self._name = name
        self._services = services
        self._restart = restart
        self._restarts: AutomaticRestarts[str] = AutomaticRestarts()
        self._failure: object = None  # the newest one, to which an automatic restart belongs
        self.began_s = 0.0

    def failed(self, config: RawConfig, trace: str) -> None:
        """Write that the connector has failed, and restart it later, if its config asks for that."""
        lived_s = time.monotonic() - self.began_s
        plan = self._restarts.failed(self._name, RestartPolicy.of(config), lived_s)
        self._services.board.failed(self._name, trace, plan)
        failure = self._failure = object()
        if plan is not None and plan.in_s is not None:
            self._services.take_turn(self._name, lambda: self._restart_after(failure), plan.in_s)

    def call_off(self) -> None:
        self._failure = None
        self._restarts.forget(self._name)

    def _restart_after(self, failure: object) -> None:
        """Restart automatically, unless that failure was handled in the meantime."""
        if self._failure is failure:
            self._restarts.made(self._name)
            self._services.startups.add("restarts")
            log.info("connector %s is restarted automatically", self._name)
            self._restart()


class TaskConfigSender:
    """Used in the connector's own thread.

    Only one set of task configs is sent at a time, even if the connector was unassigned and assigned again in the
    meantime: an older set that arrives late would undo the newer one.
    """

    def __init__(
        self,
        name: str,
        services: ConnectorServices,
        running: Callable[[], Connector | None],
        configs_of: Callable[[Connector], Sequence[RawConfig]],
        fail: Callable[[str], None],
    ) -> None:
        """`running` returns the running connector, `configs_of` its task configs; `fail` is called with a trace."""
        self._name = name
        self._services = services
        self._running = running
        self._configs_of = configs_of
        self._fail = fail
        self._is_on_the_way = False
        self._is_due = False  # task configs are to be sent once those on the way have arrived
        self.is_again_soon = False

    def send(self) -> None:
        """Ask the connector for task configs, and pass them to the leader; retries if sending fails.

        It also retries after a RetriableError of the connector; the current tasks continue until then.
        """
        self._is_due, connector = self._is_on_the_way, self._running()
        if connector is None or self._is_due:
            return
        try:
            on_the_way = self._services.put_task_configs(self._name, self._configs_of(connector))
        except RetriableError as error:
            self._send_soon(error)
        except BaseException as error:
            self._fail(trace_of(error))
        else:
            self._is_on_the_way = True
            on_the_way.add_done_callback(
                lambda done: self._services.take_turn(self._name, lambda: self._sent(connector, done))
            )

    def _sent(self, connector: Connector, written: "Future[Any]") -> None:
        self._is_on_the_way = False
        if self._is_due:
            self.send()
            return
        error = None if written.cancelled() else written.exception()
        if error is None or self._running() is not connector:
            return
        if isinstance(error, BadRequestError):  # the leader would refuse the same configs again
            self._fail(trace_of(error))
        else:
            self._send_soon(error)

    def _send_soon(self, error: BaseException) -> None:
        if not self.is_again_soon:
            self.is_again_soon = True
            log.warning("sending the task configs of %s will be retried in %g s: %s", self._name, RETRY_S, error)
            self._services.take_turn(self._name, self._send_again, RETRY_S)

    def _send_again(self) -> None:
        self.is_again_soon = False
        if not self._is_on_the_way:
            self.send()


class _Context:
    """The `ConnectorContext` of a running connector; for a mirror's, its `MirrorContext`."""

    def __init__(
        self, connector: "SupervisedConnector", services: ConnectorServices, known: LookedUp, hidden: ExitStack
    ) -> None:
        """`known`: the connector's config, with the values that it refers to: `hidden` until that is closed."""
        self._connector = connector
        self._services = services
        self.known = known
        self.hidden = hidden
        self.remarked: str | None = None

    def request_task_reconfiguration(self) -> None:
        self._services.take_turn(self._connector.name, self._connector.reconfigure)

    def raise_error(self, error: Exception) -> None:
        trace = trace_of(error)
        self._services.take_turn(self._connector.name, lambda: self._connector.raised(self, trace))

    def remark(self, text: str | None) -> None:
        self._services.take_turn(self._connector.name, lambda: self._connector.remark(self, text))

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return self._services.offsets_of(self._connector.name)

    def closed_topics(self, cluster_id: str) -> ClosedTopics:
        return self._services.closed_topics(cluster_id)


class SupervisedConnector:
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
        self._services.startups.add("attempts")
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
            self._services.startups.add("failures")
            self.fail(trace_of(error))
            hidden.close()
            return
        self._services.startups.add("successes")
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

        self._services.take_turn(self.name, again, AWAY_S)

    def _reload(self, expired: Connector) -> None:
        """Restart an instance whose values have expired, unless another one runs, or they cannot be looked up now."""
        if self._instance is not expired or self._config is None:
            return
        known = self._services.look_up(self._config)
        if known.away is not None:
            log.warning(
                "connector %s goes on with values that have expired: %s", self.name, "; ".join(known.faults.values())
            )
            self._services.take_turn(self.name, lambda: self._reload(expired), AWAY_S)
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


_STOP_S = 5.0

_Wanted = tuple[RawConfig, TargetState]


class ConnectorHost:
    """Runs the connectors that are assigned to this worker. Any thread may call its methods.

    Only `stop` waits, and only for a short time.
    """

    def __init__(self, incarnation: str, services: ConnectorServices) -> None:
        self._incarnation = incarnation
        self.services = services
        self._lock = threading.Lock()
        self._snapshot = ClusterSnapshot()
        self._connectors: dict[str, SupervisedConnector] = {}
        self._wanted: dict[str, _Wanted] = {}

    def changed(self, snapshot: ClusterSnapshot) -> None:
        """Follow a new state of the config topic."""
        with self._lock:
            self._snapshot = snapshot
            mine = snapshot.assigned_to(self._incarnation)
            wanted: dict[str, _Wanted] = {
                name: (snapshot.connectors[name], snapshot.target_state(name))
                for name in sorted(mine.connectors if mine else ())
                if name in snapshot.connectors
            }
            before, self._wanted = self._wanted, wanted
            for name in before.keys() - wanted.keys():
                self._connector(name).hurry()
                self.services.take_turn(name, self._connector(name).leave)
            for name, now in wanted.items():
                if name in before and not _is_same(before[name], now):
                    self._connector(name).hurry()
                if not _is_same(before.get(name), now) or name in snapshot.inconsistent:
                    self._have_follow(name, now, is_inconsistent=name in snapshot.inconsistent)

    def restart(self, name: str) -> "threading.Event":
        """Stop and start the connector, not its tasks. The event is set once that is done."""
        done = threading.Event()

        def act() -> None:
            try:
                self._connector(name).restart()
            finally:
                done.set()

        self._connector(name).hurry()
        self.services.take_turn(name, act)
        return done

    def stop(self) -> None:
        """Stop every connector. One that does not end in time is abandoned."""
        with self._lock:
            wanted, self._wanted = self._wanted, {}
            ending = {name: self.services.take_turn(name, self._connector(name).leave) for name in wanted}
        wait(ending.values(), _STOP_S)
        for name, ended in ending.items():
            if not ended.done():
                log.warning(
                    "connector %s is abandoned: its start(), task_configs() or stop() has not returned in time", name
                )
            if name in self._snapshot.connectors:
                self.services.board.connector(name, State.UNASSIGNED)
        self.services.stop()

    def figures(self) -> dict[str, Sequence[Sequence[str | float]]]:
        """Return the metrics that connectors on this worker have registered, by connector."""
        found = {name: connector.figures() for name, connector in list(self._connectors.items())}
        return {name: rows for name, rows in found.items() if rows}

    def count(self) -> int:
        return len(self._wanted)

    def _have_follow(self, name: str, wanted: _Wanted, *, is_inconsistent: bool) -> None:
        config, target = wanted
        connector = self._connector(name)
        self.services.take_turn(name, lambda: connector.follow(config, target, is_inconsistent=is_inconsistent))

    def _connector(self, name: str) -> SupervisedConnector:
        return self._connectors.setdefault(name, SupervisedConnector(name, self.services))


def _is_same(one: _Wanted | None, other: _Wanted) -> bool:
    """Say whether config and target are the same objects; a config that was stored again unchanged counts as new."""
    return one is not None and one[0] is other[0] and one[1] is other[1]
