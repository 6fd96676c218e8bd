"""Ends what a start of a task has left: an open transaction without a successor, or a member of its sink's group."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fencepost.api import ConfigError, RetriableError
from fencepost.builtin.connector.sql_stream import SqlStream
from fencepost.cluster.fencing import task_transactional_ids
from fencepost.config.reference import given_values
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.group.group_admin import MemberRemoval
from fencepost.kafka.group.transactions import TransactionAdmin
from fencepost.spark.write.checkpoint import Checkpoint
from fencepost.spark.write.decision import transactional_id
from fencepost.spark.write.folder import Folder
from fencepost.storage.change import TaskId
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.transaction import ConfOf, WriterOpenError, fence
from fencepost.transaction.lane import range_ids
from fencepost.worker.plan import is_query_config, sink_client_id
from fencepost.worker.settings import WorkerSettings

log = logging.getLogger(__name__)

_LOCK_OUT_S = 30.0
_REMOVE_S = 5.0
_OPEN = ("Ongoing",)


class TaskFence:
    """Fences transactional ids of tasks, and removes their members from groups.

    Any thread; every method waits for the brokers.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        fence_ids: Callable[[Iterable[str], ConfOf, float], None] = fence,
        removal: MemberRemoval | None = None,
    ) -> None:
        self._settings = settings
        self._fence_ids = fence_ids
        self._removal = removal or MemberRemoval(_REMOVE_S)

    def lock_out(self, spec: TaskSpec) -> None:
        """End what a start of a task has left open, for a connector that is stopped or deleted."""
        if spec.is_sink:
            self.remove_members(TaskId(spec.connector, spec.task), spec.input.consumer_conf, lambda: True)
        if not spec.is_exactly_once:
            return
        ids = _id_of_query(spec) if is_query_config(spec.connector_config) else [*self._ids_of_task(spec)]
        try:
            self._fence_ids(ids, lambda transactional_id: spec.output.producer_conf, _LOCK_OUT_S)
        except WriterOpenError as error:
            log.warning("task %s may have left a transaction open, until its timeout: %s", spec.id, error)

    def _ids_of_task(self, spec: TaskSpec) -> Iterable[str]:
        yield from task_transactional_ids(self._settings.group_id, spec.connector, spec.task)
        if spec.is_stream and spec.input.reader_conf:
            yield from _open_ranges(spec)

    def remove_members(self, task: TaskId, consumer_conf: Mapping[str, Any], is_due: Callable[[], bool]) -> None:
        """Remove the members that earlier starts of a sink's task have left in its group, which are probably dead.

        One that lives is fenced by this. If the user sets the client id, several tasks may share it, and nothing is
        removed. Nor is a static member, whose place its successor takes.
        """
        is_its_own = consumer_conf["client.id"] == sink_client_id(task.connector, task.task)
        if is_its_own and "group.instance.id" not in consumer_conf:
            self._removal.remove(consumer_conf, is_due)


def _id_of_query(spec: TaskSpec) -> list[str]:
    """Return the id under which a streaming query writes; none if it has not begun, or its checkpoint is away."""
    location = given_values(spec.connector_config)[SqlStream.key_of("checkpoint")]
    try:
        return [transactional_id(Checkpoint(Folder(location)).query_id())]
    except (ConfigError, RetriableError, LookupError, ValueError) as error:
        log.info("task %s: its query has no transaction that is known: %s", spec.id, error)
        return []


def _open_ranges(spec: TaskSpec) -> list[str]:
    """Return the ids under which Spark's tasks have open transactions; no list of lost ones is kept."""
    begin = range_ids(str(spec.output.transactional_id))
    try:
        admin = TransactionAdmin(spec.output.producer_conf)
        try:
            return [each.transactional_id for each in admin.list(_OPEN) if each.transactional_id.startswith(begin)]
        finally:
            admin.close()
    except (KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError) as error:
        log.warning("task %s may have left transactions open, until their timeout: %s", spec.id, error)
        return []
