"""Ends transactions that the tasks of lost workers may have open: fences many transactional ids, in separate threads.

A caller waits only for clusters that answer: an unreachable target cluster does not delay tasks that write to others.
This is safe for its own tasks, because each start of a task fences its own ids (E2, E3).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fencepost.cluster.fencing import configs_to_fence, task_transactional_ids
from fencepost.config import ConfigError
from fencepost.config.reference import RawConfig
from fencepost.storage.change import TargetState, TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.transaction import TransactionalWriter, WriterOpenError, lock_out

log = logging.getLogger(__name__)

_PARALLEL = 16
_ANSWER_S = 1.0
_SETTLE_BY_S = 10.0
_GIVE_UP_S = 60.0
_RETRY_S = 2.0
_LOOK_S = 0.02


@dataclass(frozen=True)
class HeldId:
    """An id with which a task may have an open transaction, and the producer settings for fencing it."""

    task: TaskId
    transactional_id: str
    conf: Mapping[str, Any]


Fence = Callable[[HeldId, float], object]
"""Locks out the holder of an id within the given seconds. Raises WriterOpenError if that is not possible."""


class FencingContext(Protocol):
    """Knows which ids tasks may hold, and which of them will be fenced in any case."""

    @property
    def group_id(self) -> str: ...

    def has_ids(self, snapshot: ClusterSnapshot, connector: str) -> bool:
        """Say whether a connector's tasks may have transactional ids."""

    def conf(self, config: RawConfig) -> Mapping[str, Any]:
        """Return the producer settings for fencing the ids of a connector with this config. Raises ConfigError."""

    def snapshot(self) -> ClusterSnapshot:
        """Return the current state of the config topic."""


class PendingFences(Protocol):
    """Fences that are in progress."""

    @property
    def tasks(self) -> frozenset[TaskId]: ...

    @property
    def is_settled(self) -> bool:
        """Say whether the wait is over: only ids of unreachable clusters may still be unfenced."""

    def wait(self) -> None:
        """Wait until this is settled, at most 10 s."""


class Settled:
    """The result if there is nothing to fence."""

    is_settled = True

    def __init__(self, tasks: Iterable[TaskId]) -> None:
        self.tasks = frozenset(tasks)

    def wait(self) -> None:
        """Return at once."""


class LeftOpen:
    """Begins to end open transactions of tasks. Thread-safe; no method waits for a broker."""

    def __init__(
        self, surroundings: FencingContext, on_settled: Callable[[], None], stopping: threading.Event, fence: Fence
    ) -> None:
        """`on_settled` is called in another thread whenever fences have settled. `stopping` stops all of them."""
        self._surroundings = surroundings
        self._on_settled = on_settled
        self._stopping = stopping
        self._fence = fence

    def end(self, snapshot: ClusterSnapshot, tasks: Collection[TaskId]) -> PendingFences:
        """Begin to end the open transactions of these tasks, even paused ones: readers of the offsets topic wait.

        The result settles once all ids on clusters that answer are fenced, and after at most 10 s. After that, only the
        ids of tasks that nobody starts are tried again, until a minute has passed: for other tasks a late fence would
        only hit their successor.
        """
        targets = self._targets(snapshot, tasks)
        if not targets:
            return Settled(tasks)
        work = _Work(targets, self._is_idle, self._on_settled, self._stopping, self._fence, frozenset(tasks))
        work.begin()
        return work

    def _targets(self, snapshot: ClusterSnapshot, tasks: Collection[TaskId]) -> "list[_Target]":
        by_servers: dict[str, deque[HeldId]] = {}
        connectors = {task.connector for task in tasks}
        with_ids = {connector for connector in connectors if self._surroundings.has_ids(snapshot, connector)}
        for task in sorted(task for task in tasks if task.connector in with_ids):
            for config in configs_to_fence(snapshot, task.connector):  # E2: also on older generations' clusters
                try:
                    conf = self._surroundings.conf(config)
                except ConfigError as error:  # e.g. valid only in Java: its tasks cannot run here, others can
                    log.warning("task %s is not fenced: %s", task, error)
                    continue
                held = (HeldId(task, id_, conf) for id_ in task_transactional_ids(self._surroundings.group_id, *task))
                by_servers.setdefault(str(conf.get("bootstrap.servers")), deque()).extend(held)
        return [_Target(servers, left) for servers, left in by_servers.items()]

    def _is_idle(self, task: TaskId) -> bool:
        """Say whether nobody starts the task. A start would fence its ids."""
        snapshot = self._surroundings.snapshot()
        return snapshot.target_state(task.connector) is not TargetState.STARTED or not snapshot.has_task(task)


def fence_held(held: HeldId, timeout_s: float) -> None:
    """Fence one id, without opening a producer if possible. Raises WriterOpenError."""
    lock_out(TransactionalWriter(held.conf, held.transactional_id), timeout_s)


@dataclass
class _Target:
    """The ids of one target cluster that are not fenced yet."""

    servers: str
    left: deque[HeldId]
    heard_s: float = field(default_factory=time.monotonic)
    is_tried: bool = False

    def holds_up(self, now_s: float) -> bool:
        """Say whether to wait for this cluster: not all its ids were tried yet, and it has answered recently."""
        return not self.is_tried and now_s < self.heard_s + _ANSWER_S


class _Work:
    """The fences of one call. Each cluster has a thread, which gets helpers once the cluster has answered."""

    def __init__(
        self,
        targets: Sequence[_Target],
        is_idle: Callable[[TaskId], bool],
        on_settled: Callable[[], None],
        stopping: threading.Event,
        fence: Fence,
        tasks: frozenset[TaskId],
    ) -> None:
        self.tasks = tasks
        self._settled = threading.Event()
        self._targets = targets
        self._is_idle = is_idle
        self._on_settled = on_settled
        self._stopping = stopping
        self._fence = fence
        self._began_s = time.monotonic()

    @property
    def is_settled(self) -> bool:
        return self._settled.is_set()

    def wait(self) -> None:
        self._settled.wait(_SETTLE_BY_S)

    def begin(self) -> None:
        for target in self._targets:
            _thread(lambda target=target: self._see_to(target))  # type: ignore[misc]
        _thread(self._settle)

    def _settle(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            now_s = time.monotonic()
            if now_s > self._began_s + _SETTLE_BY_S or not any(t.holds_up(now_s) for t in self._targets):
                break
        self._settled.set()
        for target in self._targets:
            if (not target.is_tried or target.left) and not self._stopping.is_set():
                log.warning(
                    "%s does not answer: its tasks fence the lost worker's ids when they start",
                    target.servers,
                )
        self._on_settled()

    def _see_to(self, target: _Target) -> None:
        timeout_s = _ANSWER_S
        while True:
            self._try_all(target, timeout_s)
            target.is_tried = True
            is_over = time.monotonic() > self._began_s + _GIVE_UP_S
            if not target.left or is_over or self._stopping.wait(_RETRY_S):
                return
            timeout_s = _RETRY_S

    def _try_all(self, target: _Target, timeout_s: float) -> None:
        """Try one id first: an unreachable cluster then costs one connection, and can run only one request late."""
        due, target.left = target.left, deque()
        if not self._try_next(target, due, timeout_s):
            target.left.extendleft(reversed(due))  # before the one that was tried, so that another one is tried next
            return
        helpers = [_thread(lambda: self._try_some(target, due, timeout_s)) for _ in range(min(_PARALLEL, len(due)))]
        for helper in helpers:
            helper.join()

    def _try_some(self, target: _Target, due: deque[HeldId], timeout_s: float) -> None:
        while due and not self._stopping.is_set():
            self._try_next(target, due, timeout_s)

    def _try_next(self, target: _Target, due: deque[HeldId], timeout_s: float) -> bool:
        """Fence the next id. Returns False if the cluster did not answer."""
        held = _taken(due)
        if held is None or (self.is_settled and not self._is_idle(held.task)):
            return True
        try:
            self._fence(held, timeout_s)
        except WriterOpenError as error:
            if error.is_passing:
                target.left.append(held)
                return False
            log.warning("a transactional id of a lost worker is not fenced: %s", error)
        target.heard_s = time.monotonic()
        return True


def _taken(due: deque[HeldId]) -> HeldId | None:
    try:
        return due.popleft()
    except IndexError:
        return None  # a helper was faster


def _thread(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, name="left-open", daemon=True)
    thread.start()
    return thread
