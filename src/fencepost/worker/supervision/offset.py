"""The committed offsets of sources: read at once or ahead of time, and copied to the worker's topic."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson

from fencepost.config.reference import RawConfig
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.value.position import FORGOTTEN
from fencepost.storage.change import TaskId
from fencepost.storage.internal_topics import READ_S
from fencepost.storage.offset_copies import OffsetCopies, OffsetCopy
from fencepost.storage.offset_topic import KnownOffset, encode_key
from fencepost.storage.offset_view import OffsetTopics, OffsetView
from fencepost.task.channel.message import TaskCopies
from fencepost.worker.channel import RefusedError
from fencepost.worker.plan import Client
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.state import repeat
from fencepost.worker.supervision.task.handle import TaskHandle

log = logging.getLogger(__name__)

_EVERY_S = 10.0
_WRITE_S = 20.0


def read_offsets(
    settings: WorkerSettings,
    topics: OffsetTopics,
    connector: str,
    config: RawConfig,
    timeout_s: float,
    *,
    tasks: Sequence[RawConfig] = (),
    may_be_missing: bool = False,
) -> OffsetView:
    """Read what a connector with this config has committed; waits for open transactions (E3).

    `tasks` are the configs of its tasks: an open transaction may contain the first offset of their partitions.
    `may_be_missing`: its own offsets topic. Raises what `OffsetTopics.read` and `read_stable` raise.
    """
    plan = settings.plan(config)
    held = plan.offsets_in_group(connector)
    view = topics.read(connector, settings.own_offsets(plan), timeout_s, may_be_missing=may_be_missing)
    if held is None:
        return view
    places = held.places(tasks)
    found = read_stable(plan.clients.conf(Client.TASK_ADMIN), held.group, timeout_s, places)
    sources = [
        held.source(place, at.offset, at.metadata) for place, at in sorted(found.items()) if at.metadata != FORGOTTEN
    ]
    known = [KnownOffset(p, o, encode_key(connector, p), 0) for p, o in filter(None, sources)]
    return OffsetView(connector, (), [*known, *(one for one in view.known if held.place(one.partition or {}) is None)])


class OffsetsAhead:
    """Follows the topics from which offsets were read, in a thread of its own."""

    def __init__(self, topics: OffsetTopics, stopping: threading.Event) -> None:
        self._topics = topics
        self._stopping = stopping
        self._is_read = threading.Event()

    def start(self) -> None:
        """Read everything, and then every ten seconds what is new."""
        # A start that needs the offsets retries, and reports the error.
        repeat("offsets", _EVERY_S, self._catch_up, self._stopping, begins_now=True, level=logging.DEBUG)

    def wait_until_read(self, timeout_s: float) -> bool:
        """Wait for the first read. Returns whether it has ended, whether or not it succeeded."""
        return self._is_read.wait(timeout_s)

    def _catch_up(self) -> None:
        try:
            self._topics.catch_up(READ_S)
        finally:
            self._is_read.set()


class OffsetCopying:
    """Writes copies under the keys that the worker's topic has for them. Called on threads of the channel."""

    def __init__(
        self, topics: OffsetTopics, copies: OffsetCopies, starts_of: Callable[[TaskId], Iterable[TaskHandle]]
    ) -> None:
        """`starts_of` returns a task's starts that may be running here; while one is stopping, no other begins."""
        self._topics = topics
        self._copies = copies
        self._starts_of = starts_of

    def handle(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer the channel's `/task/copy`."""
        message = TaskCopies.from_json(body)
        self.copy(TaskId(message.connector, message.task), message.incarnation, message.copies)
        return {}

    def copy(self, task: TaskId, incarnation: str, records: Sequence[OffsetCopy]) -> None:
        """Return once all are acknowledged. Raises RefusedError for a start that was superseded (E7)."""
        if all(start.incarnation != incarnation for start in self._starts_of(task)):
            raise RefusedError(f"a newer start of task {task} has replaced this one")
        spelled = [
            one._replace(key=self._topics.shared_key(task.connector, orjson.loads(one.key)[1])) for one in records
        ]
        self._copies.write(spelled, _WRITE_S)
