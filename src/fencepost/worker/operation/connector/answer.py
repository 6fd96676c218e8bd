"""Connectors and tasks as REST answers them, from the config topic and the status topic."""

from collections.abc import Collection, Sequence

from fencepost.cluster.errors import NotFoundError
from fencepost.cluster.info import ConnectorInfo, ConnectorState, ConnectorStatus, RestartInfo, TaskInfo, TaskState
from fencepost.config.reference import RawConfig, is_placeholder
from fencepost.plugin.secret_keys import hold_given_secrets, secret_keys, undecided_keys
from fencepost.secret.known import Secrets
from fencepost.secret.redaction import HIDDEN
from fencepost.storage.change import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import State, Status, StatusTable
from fencepost.worker.plan import type_of


def masked(config: RawConfig, connector: RawConfig | None = None) -> RawConfig:
    """Return a config that may be shown (E11); references to config providers stay, as they reveal nothing.

    Args:
        connector: The config of the connector, if `config` is that of one of its tasks.
    """
    keys, secrets = secret_keys(config, connector) | undecided_keys(connector or config), Secrets()
    if connector is not None:  # it may have made other values of its secrets
        hold_given_secrets(connector, secrets.hold)
    return {key: _shown(value, secrets, is_secret=key in keys) for key, value in config.items()}


def _shown(value: str | None, secrets: Secrets, *, is_secret: bool) -> str | None:
    if not value or is_placeholder(value):
        return value
    return HIDDEN if is_secret else secrets.hide(value)


def unmasked(config: RawConfig, stored: RawConfig | None) -> RawConfig:
    """Return a config with the stored values in place of `[hidden]`: a client may send back what it was shown."""
    if not stored:
        return config
    return {key: stored[key] if value == HIDDEN and stored.get(key) else value for key, value in config.items()}


def info_of(snapshot: ClusterSnapshot, name: str) -> ConnectorInfo:
    """Return a connector, with its secrets masked. Raises NotFoundError."""
    if name not in snapshot.connectors:
        raise NotFoundError(f"Connector {name} not found")
    tasks = [TaskId(name, t.task) for t in snapshot.tasks(name)]
    return ConnectorInfo(name, masked(snapshot.connectors[name]), tasks, type_of(snapshot, name))


def tasks_of(snapshot: ClusterSnapshot, name: str) -> Sequence[TaskInfo]:
    """Return the tasks of a connector, with their secrets masked."""
    found = [(t.task, snapshot.task_config(t) or {}) for t in snapshot.tasks(name)]
    connector = snapshot.connectors[name]
    return [TaskInfo(TaskId(name, number), masked(config, connector)) for number, config in found]


def status_of(snapshot: ClusterSnapshot, table: StatusTable, name: str) -> ConnectorStatus:
    """Return the states of a connector and its tasks. Raises NotFoundError."""
    status = table.status(name)
    if status is None:
        raise NotFoundError(f"No status found for connector {name}")
    state = ConnectorState(status.state.value, status.worker_id, status.trace, status.version, _restart_of(status))
    tasks = [_task_state(number, s) for number, s in table.tasks(name).items()]
    return ConnectorStatus(name, state, tasks, type_of(snapshot, name))


def task_status_of(table: StatusTable, name: str, task: int) -> TaskState:
    """Return the state of a task. Raises NotFoundError."""
    status = table.status(TaskId(name, task))
    if status is None:
        raise NotFoundError(f"No status found for task {name}-{task}")
    return _task_state(task, status)


def with_restarting(
    status: ConnectorStatus, tasks: Collection[int], *, is_connector_restarted: bool
) -> ConnectorStatus:
    """Return the status with RESTARTING for everything that is about to be restarted (KIP-745)."""
    own = status.connector
    restarting = State.RESTARTING.value
    state = ConnectorState(restarting, own.worker_id, None, own.version) if is_connector_restarted else own
    shown = [TaskState(t.id, restarting, t.worker_id, None, t.version) if t.id in tasks else t for t in status.tasks]
    return ConnectorStatus(status.name, state, shown, status.type)


def _task_state(number: int, status: Status) -> TaskState:
    restart = _restart_of(status)
    return TaskState(number, status.state.value, status.worker_id, status.trace, status.version, restart)


def _restart_of(status: Status) -> RestartInfo | None:
    return None if status.restart is None else RestartInfo(status.restart.attempts, status.restart.next_ms)
