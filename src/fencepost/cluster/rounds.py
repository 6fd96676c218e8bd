"""Rounds of zombie fencing: one at a time per connector, shared by all who ask (contract A.9)."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from fencepost.cluster.command import RecordTaskCount
from fencepost.cluster.fencing import ConfOf, fence, plan_fencing
from fencepost.cluster.leader import Leader
from fencepost.cluster.operations import NotFoundError
from fencepost.storage.snapshot import ClusterSnapshot

_FENCE_S = 90.0
_ROUNDS = 32


class FencingRounds:
    """Runs rounds in threads of its own, on the worker that leads."""

    def __init__(
        self,
        group_id: str,
        leader: Leader,
        read_to_end: Callable[[], ClusterSnapshot],
        conf_of: Callable[[ClusterSnapshot, str], ConfOf],
        wait_for_stops: Callable[[str, int | None], None] = lambda connector, generation: None,
    ) -> None:
        """`wait_for_stops(connector, generation)` returns when all workers have ended older tasks, or time is up."""
        self._group_id = group_id
        self._leader = leader
        self._read_to_end = read_to_end
        self._conf_of = conf_of
        self._wait_for_stops = wait_for_stops
        self._lock = threading.RLock()
        self._active: dict[str, Future[None]] = {}
        self._pool = ThreadPoolExecutor(_ROUNDS, thread_name_prefix="fencing")

    def fence(self, connector: str) -> "Future[None]":
        """Start a round, or join the one under way. The future holds None, or the error that the round ended with."""
        with self._lock:
            active = self._active.get(connector)
            if active is None:
                active = self._pool.submit(self._round, connector)
                self._active[connector] = active
                active.add_done_callback(lambda done: self._ended(connector, done))
            return active

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ended(self, connector: str, done: "Future[None]") -> None:
        with self._lock:
            if self._active.get(connector) is done:
                del self._active[connector]

    def _round(self, connector: str) -> None:
        snapshot = self._read_to_end()
        if connector not in snapshot.connectors:
            raise NotFoundError(f"Unknown connector {connector}")
        plan = plan_fencing(snapshot, self._group_id, connector)
        if plan.task_count is None:
            return
        if plan.transactional_ids:
            self._wait_for_stops(connector, snapshot.commit_offsets.get(connector))
        fence(plan.transactional_ids, self._conf_of(snapshot, connector), _FENCE_S)
        record = RecordTaskCount(connector, plan.task_count, snapshot.commit_offsets.get(connector))
        self._leader.submit(record).result(_FENCE_S)
