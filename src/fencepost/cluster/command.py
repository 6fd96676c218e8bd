"""Requests to the leader to write something, one class for each. `decide` is pure: it maps a snapshot to records."""

import hashlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from fencepost.cluster.assignment import Member, assign, kept_back, same_work, wanted
from fencepost.cluster.errors import AlreadyExistsError, BadRequestError, ConflictError, NotFoundError
from fencepost.cluster.fencing import fenced, kept, plan_fencing, targets, with_target
from fencepost.config.reference import RawConfig
from fencepost.storage import records
from fencepost.storage.assigned import changes
from fencepost.storage.change import Assignment, RestartRequested, SessionKey, TargetState, TaskId, WorkerAssignment
from fencepost.storage.fold import after
from fencepost.storage.records import Encoded
from fencepost.storage.snapshot import ClusterSnapshot

GROUP = "consumer.override.group.id"
_PLACE = (GROUP, "consumer.override.bootstrap.servers")
_OF_CONNECTORS = "connect-"
_MOST_IN_ONE = 900_000  # bytes of an assignment in one record; the smallest usual limit is 1,000,000


def ensure_own_group(snapshot: ClusterSnapshot, name: str, config: RawConfig) -> None:
    """Raise BadRequestError if a config would make a connector join a group of another one.

    Groups that are named after connectors are theirs also while there is no such connector: its offsets may be kept.
    The brokers of the two are not compared: one cluster has many names. A connector keeps the group that it has.
    """
    own = snapshot.connectors.get(name)
    if own is not None and all(own.get(key) == config.get(key) for key in _PLACE):
        return
    group = _group(name, config)
    if group.startswith(_OF_CONNECTORS) and group != f"{_OF_CONNECTORS}{name}":
        raise BadRequestError(
            f"Invalid value {group} for configuration {GROUP}: groups that begin with {_OF_CONNECTORS} belong to the "
            "connectors that they are named after; choose another name"
        )
    for other, stored in snapshot.connectors.items():
        if (GROUP in stored or GROUP in config) and other != name and _group(other, stored) == group:
            raise BadRequestError(
                f"Invalid value {group} for configuration {GROUP}: another connector has this group; choose another "
                "name"
            )


def _group(name: str, config: RawConfig) -> str:
    return (config.get(GROUP) or "").strip() or f"{_OF_CONNECTORS}{name}"


class StaleConfigError(ConflictError):
    """The stored config is no longer the one on which a change was based. Make the change again."""


@dataclass(frozen=True)
class ConnectorVersion:
    """A connector at one moment. If two versions are equal, no other task generation existed between them."""

    generation: int | None
    config: RawConfig | None

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, connector: str) -> "ConnectorVersion":
        return cls(snapshot.commit_offsets.get(connector), snapshot.connectors.get(connector))

    def ensure_unchanged(self, snapshot: ClusterSnapshot, connector: str) -> None:
        """Raise ConflictError if the connector has got task configs or another config since then."""
        if ConnectorVersion.of(snapshot, connector) != self:
            raise ConflictError(
                f"Connector {connector} was started or reconfigured while its offsets were being modified. Nothing "
                "was changed: stop it, and make the request again"
            )


class LeaderCommand(Protocol):
    """Decides from the newest snapshot what to write in one transaction, which may be nothing."""

    def decide(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        """Return the records. Raises OperationError if the command is refused; nothing is then written (E12)."""


EVERY_CONNECTOR = ""
"""Used in place of a name, which is never empty: the command depends on all connectors."""


class ConnectorCommand(LeaderCommand, Protocol):
    """Decides about one connector, from that connector's part of the snapshot alone; or about `EVERY_CONNECTOR`."""

    @property
    def connector(self) -> str: ...


def independent(commands: Sequence[ConnectorCommand], most: int) -> int:
    """Return how many of the first commands are for different connectors, at most `most`. Pure.

    The decision of one does not depend on what another one writes, so one snapshot and one transaction are enough for
    all of them. A command about every connector is decided alone, and so is a second one that names a consumer group,
    as a group belongs to one connector.
    """
    seen: set[str] = set()
    names_group = False
    for command in commands[:most]:
        if seen and (command.connector in seen or EVERY_CONNECTOR in (command.connector, *seen)):
            break
        if isinstance(command, PutConnector) and GROUP in command.config:
            if names_group:
                break
            names_group = True
        seen.add(command.connector)
    return len(seen)


@dataclass(frozen=True)
class PutConnector:
    """Store a connector's config, and before it the `target_state` if there is one (KIP-980).

    `expected` is the config on which the new one is based: the command is refused if another one is stored. With
    `since`, it is refused if a connector with that name has had tasks since then. `other_records` are records for other
    topics (topic, key, value) in the same transaction: the initial offsets of a new connector (KIP-995).
    """

    connector: str
    config: RawConfig
    is_create: bool = False
    target_state: TargetState | None = None
    expected: RawConfig | None = None
    other_records: Sequence[tuple[str, bytes, bytes | None]] = ()
    since: ConnectorVersion | None = None

    def decide(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        if self.is_create and self.connector in snapshot.connectors:
            raise AlreadyExistsError(f"Connector {self.connector} already exists")
        if self.expected is not None and snapshot.connectors.get(self.connector) != self.expected:
            raise StaleConfigError(f"The config of connector {self.connector} was changed meanwhile")
        if self.since is not None:
            self.since.ensure_unchanged(snapshot, self.connector)
        ensure_own_group(snapshot, self.connector, self.config)
        first = [] if self.target_state is None else [records.target_state(self.connector, self.target_state)]
        return [*first, records.connector_config(self.connector, self.config)]


def other_records(
    commands: Sequence[LeaderCommand], decisions: Sequence[Sequence[Encoded] | Exception]
) -> list[tuple[str, bytes, bytes | None]]:
    """Return the records for other topics of all commands that were not refused. Pure."""
    puts = [
        command
        for command, decision in zip(commands, decisions, strict=True)
        if isinstance(command, PutConnector) and not isinstance(decision, Exception)
    ]
    return [record for put in puts for record in put.other_records]


@dataclass(frozen=True)
class RemoveConnector:
    """Remove a connector. Its task configs, task count and offsets are kept."""

    connector: str

    def decide(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        if self.connector not in snapshot.connectors:
            raise NotFoundError(f"Connector {self.connector} not found")
        return [records.connector_removed(self.connector), records.target_state_removed(self.connector)]


@dataclass(frozen=True)
class EnsureStopped:
    """Write nothing. Refuse unless a connector is stopped and has no tasks, so that its offsets may change (KIP-875).

    With `since`, refuse if it was not stopped all the time since then: tasks that ran in between may still be ending,
    and nobody has fenced them.
    """

    connector: str
    since: ConnectorVersion | None = None

    def decide(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        if self.connector not in snapshot.connectors:
            raise NotFoundError(f"Connector {self.connector} not found")
        is_stopped = snapshot.target_state(self.connector) is TargetState.STOPPED
        if not is_stopped or snapshot.task_counts.get(self.connector, 0):
            raise BadRequestError(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{self.connector}/stop' "
                "endpoint"
            )
        if self.since is not None:
            self.since.ensure_unchanged(snapshot, self.connector)
        return []


@dataclass(frozen=True)
class EnsureAbsent:
    """Write nothing. Refuse if a connector with that name exists or, with `since`, has had tasks since then.

    Also refuse if one with this config may not be created: its group is changed before `PutConnector` is decided.
    """

    connector: str
    config: RawConfig
    since: ConnectorVersion | None = None

    def decide(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        if self.connector in snapshot.connectors:
            raise AlreadyExistsError(f"Connector {self.connector} already exists")
        if self.since is not None:
            self.since.ensure_unchanged(snapshot, self.connector)
        ensure_own_group(snapshot, self.connector, self.config)
        return []


@dataclass(frozen=True)
class StopConnector:
    """Write an empty set of tasks, then the target state STOPPED (KIP-875)."""

    connector: str

    def decide(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        if self.connector not in snapshot.connectors:
            raise NotFoundError(f"Unknown connector {self.connector}")
        return [
            *kept(
                snapshot, self.connector, targets(snapshot, self.connector)
            ),  # the commit below applies to the newest config
            records.tasks_commit(self.connector, 0),
            records.target_state(self.connector, TargetState.STOPPED),
        ]


@dataclass(frozen=True)
class PutTaskConfigs:
    """Store a connector's task configs, unless its tasks already run with them and with the connector's own config.

    With `is_exactly_once`, the task count is written too if nothing has to be fenced first.
    """

    connector: str
    configs: Sequence[RawConfig]
    is_exactly_once: bool = False

    def decide(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        if self.connector not in snapshot.connectors:
            raise NotFoundError(f"Connector {self.connector} not found")
        if snapshot.target_state(self.connector) is TargetState.STOPPED:
            return []
        stored = [snapshot.task_config(task) for task in snapshot.tasks(self.connector)]
        is_applied = snapshot.applied_configs.get(self.connector) == snapshot.connectors[self.connector]
        is_same = [dict(c or {}) for c in stored] == [dict(c) for c in self.configs]
        if is_applied and is_same and self.connector not in snapshot.inconsistent:
            return []
        tasks = [records.task_config(TaskId(self.connector, n), c) for n, c in enumerate(self.configs)]
        reached = kept(snapshot, self.connector, with_target(snapshot, self.connector))
        written = [*tasks, *reached, records.tasks_commit(self.connector, len(self.configs))]
        if self.configs and self.is_exactly_once:
            then = after(snapshot.only(self.connector), written)
            plan = plan_fencing(then, "", self.connector)
            if plan.task_count is not None and not plan.transactional_ids:
                written.append(records.task_count(self.connector, plan.task_count))
                written += kept(then, self.connector, fenced(then, self.connector))
        return written


@dataclass(frozen=True)
class RecordTaskCount:
    """Record, for the task generation at `commit_offset`, that earlier ones are fenced (KIP-618)."""

    connector: str
    count: int
    commit_offset: int | None

    def decide(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        if snapshot.commit_offsets.get(self.connector) != self.commit_offset:
            raise ConflictError("Fencing failed because new task configurations were generated for the connector")
        left = kept(snapshot, self.connector, fenced(snapshot, self.connector))
        return [records.task_count(self.connector, self.count), *left]


@dataclass(frozen=True)
class RequestRestart:
    """Ask all workers to restart the connector and tasks that a plan names (KIP-745)."""

    request: RestartRequested

    @property
    def connector(self) -> str:
        return self.request.connector

    def decide(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        if self.request.connector not in snapshot.connectors:
            raise NotFoundError(f"Unknown connector: {self.request.connector}")
        return [records.restart_request(self.request)]


@dataclass(frozen=True)
class RotateSessionKey:
    """Renew the key that signs requests between workers when it is missing or older than `ttl_ms` (KIP-507)."""

    algorithm: str
    ttl_ms: int
    now_ms: int

    def decide(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        key = snapshot.session_key
        if key is not None and key.algorithm == self.algorithm and self.now_ms - key.created_ms < self.ttl_ms:
            return []
        size = 64 if "512" in self.algorithm else hashlib.sha256().digest_size
        return [records.session_key(SessionKey(secrets.token_bytes(size), self.algorithm, self.now_ms))]


@dataclass(frozen=True)
class Reassign:
    """Spread the work over the current members, if that changes anything.

    The work of a lost worker is kept for it for `delay_ms`. Members of an older version read the assignment as one
    record: it is written so while there are such members, and gives them nothing if no record can hold it. Where that
    form begins, nothing moves yet: an older worker waits only for tasks that it has seen with another one.
    """

    members: tuple[Member, ...]
    delay_ms: int = 0
    now_ms: int = 0

    def decide(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        if not self.members:
            return []  # the leader is a member itself, so the group is just changing
        previous = snapshot.assignment
        waiting = kept_back(snapshot, self.members, self.delay_ms, self.now_ms)
        generation = (previous.generation if previous else 0) + 1
        work = wanted(snapshot)
        readers = tuple(m for m in self.members if m.reads_placements)
        if len(readers) < len(self.members):
            moved = assign(self.members, work, previous, generation, waiting)
            is_series = previous is not None and previous.series is not None
            new = replace(previous, generation=generation, series=None) if previous and is_series else moved
            if _fits_in_one(moved) and _fits_in_one(new):
                return [] if same_work(previous, new) else [records.assignment(new)]
        new = assign(readers, work, previous, generation, waiting)
        older = [WorkerAssignment(m.incarnation, m.url) for m in self.members if not m.reads_placements]
        series = previous.series if previous is not None and previous.series is not None else generation
        new = replace(new, workers=tuple(sorted((*new.workers, *older), key=_place)), series=series)
        return [] if same_work(previous, new) else changes(previous, new, is_read_by_older=bool(older))


def _fits_in_one(assignment: Assignment) -> bool:
    key, value = records.assignment(assignment)
    return len(key) + len(value or b"") <= _MOST_IN_ONE


def _place(worker: WorkerAssignment) -> tuple[str, str]:
    return worker.url, worker.incarnation


def now_ms() -> int:
    """Return the time in the format of records."""
    return int(time.time() * 1000)
