"""Connectors and tasks as REST answers them, from the config topic and the status topic.

Their lineage is what they read and write, as configs and used topics say.
"""

import re
from collections.abc import Collection, Sequence
from urllib.parse import urlsplit, urlunsplit

from fencepost.cluster.errors import NotFoundError
from fencepost.cluster.info import (
    ConnectorInfo,
    ConnectorState,
    ConnectorStatus,
    Lineage,
    LineageEnd,
    RestartInfo,
    TaskInfo,
    TaskState,
)
from fencepost.config.java_regex import SlowPatternError, compiled
from fencepost.config.reference import RawConfig, is_placeholder, names_in
from fencepost.plugin.secret_keys import hold_given_secrets, secret_keys, undecided_keys
from fencepost.secret.known import Secrets
from fencepost.secret.redaction import HIDDEN
from fencepost.storage.change import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import State, Status, StatusTable
from fencepost.worker.plan import kind_of_config, type_of

_SOURCE_ALIAS, _TARGET_ALIAS = "source.cluster.alias", "target.cluster.alias"
# Of built-in connectors, then of others that are in wide use.
_PLACES = (
    "file", "input.path", "path", "url", "connection.url", "database.hostname", "connection.uri", "connection.host",
    "mongodb.connection.string", "s3.bucket.name", "aws.s3.bucket.name", "gcs.bucket.name", "topics.dir", "hosts",
    "http.api.url", "iceberg.tables", "iceberg.catalog.uri", "snowflake.url.name", "cassandra.contact.points",
)  # fmt: skip
_DATABASES = ("database.dbname", "database.names", "database.include.list")
_SELF_SAID = re.compile(r"[\w.+-]+:/|/|\.{1,2}/|jdbc:|mongodb")  # a URL or a path
_ROLE = re.compile(r"(Source|Sink)?(Connector)?$")
_WRITTEN = ("topic", "kafka.topic", "output.topic", "topic.name")


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


def lineage_of(snapshot: ClusterSnapshot, name: str, used: Sequence[str]) -> Lineage:
    """Return the lineage of a connector; `used` are the topics that it has used."""
    config = masked(snapshot.connectors[name])
    kind = kind_of_config(snapshot.connectors[name]) or "unknown"
    if _SOURCE_ALIAS in config:
        return Lineage(name, kind, *_of_mirror(config, used))
    if kind in ("source", "mirror"):
        return Lineage(name, kind, [_external(config)], _written(config, used))
    read = _read(config, used)
    if kind == "stream":
        names = {end.name for end in read}
        return Lineage(name, kind, read, _written(config, [topic for topic in used if topic not in names]))
    return Lineage(name, kind, read, [_external(config)] if kind == "sink" else [])


def _of_mirror(config: RawConfig, used: Sequence[str]) -> tuple[Sequence[LineageEnd], Sequence[LineageEnd]]:
    source = config[_SOURCE_ALIAS]
    patterns = [LineageEnd("pattern", each, source) for each in names_in(config.get("topics") or ".*")]
    target = config.get(_TARGET_ALIAS) if config.get("topics.regex") else None
    return patterns, [LineageEnd("topic", topic, target) for topic in sorted(used)]


def _read(config: RawConfig, used: Sequence[str]) -> Sequence[LineageEnd]:
    named = names_in(config.get("topics"))
    if named:
        return [LineageEnd("topic", topic) for topic in sorted(set(named))]
    pattern = config.get("topics.regex") or ""
    found = [topic for topic in sorted(used) if _matches(pattern, topic)]
    return [LineageEnd("topic", topic) for topic in found] or [LineageEnd("pattern", pattern)] * bool(pattern)


def _matches(pattern: str, topic: str) -> bool:
    try:
        return compiled(pattern).fullmatch(topic) is not None
    except (re.error, SlowPatternError):
        return True


def _written(config: RawConfig, used: Sequence[str]) -> Sequence[LineageEnd]:
    named = [config[key] for key in _WRITTEN if config.get(key)]
    return [LineageEnd("topic", str(topic)) for topic in sorted(used) or named[:1]]


def _external(config: RawConfig) -> LineageEnd:
    """Return the outside system: what the config says of its place, with its name where the place does not say it."""
    key = next((key for key in _PLACES if config.get(key) not in (None, "", HIDDEN)), None)
    name = (config.get("connector.class") or "").rpartition(".")[2]
    if key is None:
        return LineageEnd("external", name)
    place = _without_credentials(str(config[key]))
    if key == "database.hostname":
        port, database = config.get("database.port"), next(filter(None, map(config.get, _DATABASES)), None)
        place += (f":{port}" if port else "") + (f"/{database}" if database else "")
    return LineageEnd("external", place if _SELF_SAID.match(place) else f"{_system(name)} {place}")


def _system(name: str) -> str:
    """Return what a class connects to: Postgres of PostgresConnector."""
    return _ROLE.sub("", name) or name


def _without_credentials(place: str) -> str:
    prefix = "jdbc:" if place.startswith("jdbc:") else ""
    try:
        parts = urlsplit(place.removeprefix(prefix))
    except ValueError:
        return place.partition("@")[2] or place
    if not parts.scheme:
        return place
    return prefix + urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
