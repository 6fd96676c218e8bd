"""The worker's part of the start of a task: steps 1 to 4 of docs/architecture.md."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any

from fencepost.api import RetriableError
from fencepost.cluster.errors import (
    BadRequestError,
    ConflictError,
    FencingRefusedError,
    ForbiddenError,
    NotFoundError,
    OperationError,
)
from fencepost.cluster.fencing import is_covered
from fencepost.cluster.info import ConnectorType
from fencepost.cluster.operations import REQUEST_S
from fencepost.cluster.running import why_not
from fencepost.config.reference import RawConfig
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaUnavailableError, ReadTimeoutError
from fencepost.storage.ids import TaskId
from fencepost.storage.internal_topics import READ_S, ensure_ledger_topic, ensure_own_offsets_topic
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.worker.connector_classes import type_of
from fencepost.worker.plan import Client, looked_up
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.task.handle import TaskHandle
from fencepost.worker.supervision.task.specs import task_spec

log = logging.getLogger(__name__)

_PAUSES_S = (0.1, 0.5, 1.0)


def ensure_own_topic(settings: WorkerSettings, config: RawConfig, ledger: str) -> None:
    """Create the connector's own topics, if it has any, as its principal (KIP-618); refuse ones that lose data.

    `ledger` is the topic of its ledger (`ledger_topic`); empty if it has none.
    Raises ConfigError, KafkaAuthorizationError, or KafkaUnavailableError, which can be retried.
    """
    plan = settings.plan(config)
    has_offsets = settings.has_own_offsets(plan)
    if not has_offsets and not ledger:
        return
    admin = Admin(plan.clients.conf(Client.TASK_ADMIN), timeout_s=15.0)
    if has_offsets:
        ensure_own_offsets_topic(admin, plan.offsets_topic, settings.config)
    if ledger:
        ensure_ledger_topic(admin, ledger, settings.config.offset_storage_replication_factor)


class AbandonedError(Exception):
    """The start is abandoned. This is no failure: a newer generation or assignment brings a newer start."""


class AwayError(AbandonedError):
    """The start is abandoned, and tried again. Its status says why, as somebody may have to do something.

    Its connector's Kafka or a store with values that it needs is away, a transaction that hangs keeps the config topic
    from being read, or a round of fencing does not succeed.
    """


def check_current(snapshot: ClusterSnapshot, settings: WorkerSettings, task: TaskId, generation: int) -> str | None:
    """Return why a start is not, or is no longer, the one to run after it is fenced; None if it is. Pure."""
    reason = why_not(snapshot, (task, generation), settings.incarnation)
    if type_of(snapshot, task.connector) is ConnectorType.SINK:
        return reason  # its group fences predecessors, not a transactional id
    if reason is None and settings.is_exactly_once and not snapshot.is_ready(task.connector):
        return f"connector {task.connector} has task configs without a task-count record after them"
    if reason is None and settings.is_exactly_once and not is_covered(snapshot, task.connector):
        return f"connector {task.connector} writes to another cluster now, and has no task configs for it yet"
    return reason


@dataclass(frozen=True)
class Preparation:
    """Carries out the steps in a thread of the connector's, which the supervisor provides."""

    settings: WorkerSettings
    request_fencing: Callable[[str], "Future[None]"]
    read_to_end: Callable[[float], ClusterSnapshot]
    is_stopping: threading.Event
    remove_members: Callable[[TaskId, Mapping[str, Any], Callable[[], bool]], None]

    def prepare(self, handle: TaskHandle) -> TaskSpec:
        """Return the spec to hand to a host. Raises AbandonedError, or an error that makes the task fail."""
        if self.settings.is_exactly_once and not handle.identity.is_sink:
            self._fence(handle)  # step 2; one task before and after needs no round, as its id fences itself
        try:
            snapshot = self.read_to_end(READ_S)  # step 3
        except RetriableError as error:
            passes = isinstance(error, KafkaUnavailableError) and not isinstance(error, ReadTimeoutError)
            raise (AbandonedError if passes else AwayError)(str(error)) from error
        reason = check_current(snapshot, self.settings, handle.id, handle.generation)
        if reason is not None:
            raise AbandonedError(reason)
        try:
            spec = task_spec(self.settings, snapshot, handle)
            if not handle.identity.is_sink:
                ensure_own_topic(self.settings, spec.connector_config, spec.commits.ledger_topic)  # step 4
        except RetriableError as error:  # of the connector's Kafka, or of a store with secrets
            raise AwayError(str(error)) from error
        if handle.identity.is_sink:  # this start has not joined the group yet
            self.remove_members(handle.id, spec.input.consumer_conf, lambda: handle.is_live)
        return spec

    def why_away(self, config: RawConfig) -> str:
        """Return why the values that a connector's config refers to cannot be looked up now; empty if they can.

        One that does not exist can be looked up: a start says that it is missing.
        """
        known = looked_up(self.settings.config, config)
        return "" if known.away is None else "; ".join(known.faults.values())

    def _fence(self, handle: TaskHandle) -> None:
        """Ask for a fencing round, again while its error may pass; other errors fail the start.

        If it does not pass soon, the start is abandoned and made again: its status then says what it waits for.
        """
        for pause_s in _PAUSES_S:
            try:
                self.request_fencing(handle.id.connector).result(REQUEST_S)
                return
            except (ConflictError, NotFoundError) as error:
                raise AbandonedError(str(error)) from error
            except (FencingRefusedError, ForbiddenError, BadRequestError):
                raise
            except (OperationError, RetriableError, TimeoutError, CancelledError) as error:
                problem = f"the round of fencing before its start: {error or type(error).__name__}"
                log.warning("task %s waits for %s", handle.id, problem)
                if self.is_stopping.wait(pause_s) or not handle.is_live:
                    raise AbandonedError("the start is no longer wanted") from error
        raise AwayError(f"waits for {problem}")
