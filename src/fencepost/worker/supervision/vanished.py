"""The leader's last word on connectors and tasks that are gone: tombstones for what the status topic says of them."""

from typing import Protocol

from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.supervision.task_metrics import TaskTotals
from fencepost.worker.topics import WorkerTopics


class Leading(Protocol):
    """What is needed of the `Leader`."""

    @property
    def is_leading(self) -> bool: ...


class Seen(Protocol):
    """What is needed of the `Lifeline`."""

    @property
    def is_overdue(self) -> bool: ...


class Vanished:
    """Any thread; never waits."""

    def __init__(self, topics: WorkerTopics, totals: TaskTotals, leader: Leading, lifeline: Seen) -> None:
        self._topics = topics
        self._statuses = topics.status
        self._totals = totals
        self._leader = leader
        self._lifeline = lifeline

    def look(self) -> None:
        """Forget by what the config topic said last."""
        self.forget(self._topics.snapshot)

    def forget(self, snapshot: ClusterSnapshot) -> None:
        """Have statuses, topics and metrics end of what is no more, where this worker leads.

        Not one that stood still: it knows nothing of tasks that another leader has made since, and what it took away
        nobody would say again.
        """
        if not self._leader.is_leading or self._lifeline.is_overdue:
            return
        table = self._statuses.table
        for subject in table.subjects():
            is_known = snapshot.has_task(subject) if isinstance(subject, TaskId) else subject in snapshot.connectors
            if not is_known:
                self._statuses.remove(subject)
        for connector in table.connectors_with_topics():
            if connector not in snapshot.connectors:
                for topic in table.topics(connector):
                    self._statuses.remove_topic(connector, topic)
        self._totals.keep_only({t for c in snapshot.connectors for t in snapshot.tasks(c)})
