"""Finds the slots whose executors are about to be taken away, while there is still time to hand over.

Whoever takes an executor away says so first: a standalone worker that is decommissioned, Kubernetes that deletes a pod,
YARN that decommissions a node, dynamic allocation, or a signal. Spark's driver then starts no task there, and the
executor ends once its last task has. Spark has no event for this, so its scheduler is asked.
"""

from collections.abc import Mapping
from typing import Any

from fencepost.spark.slot.running_jobs import executors_of


class LeavingExecutors:
    """Asks the driver's JVM, whose answer may take long if that hangs. For one thread."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._scheduler = context._jsc.sc().taskScheduler()
        self._leaving = self._scheduler.executorsPendingDecommission()

    def slots(self, groups: Mapping[str, str]) -> frozenset[str]:
        """Return the slots on executors that leave, by their job groups. One call of the JVM if none leaves."""
        if not self._leaving.size():
            return frozenset()
        return frozenset(slot for slot, group in groups.items() if self._leaves(group))

    def _leaves(self, group: str) -> bool:
        state = self._scheduler.getExecutorDecommissionState
        return any(state(executor).isDefined() for executor in executors_of(self._context, group))
