"""The leader's cleaning of the status topic: tombstones for connectors and tasks that are deleted."""

from typing import Protocol

from fencepost.cluster.leadership import Leadership
from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.supervision.task_metrics import TaskTotals
from fencepost.worker.topics import WorkerTopics


class Seen(Protocol):
    """The part of `Lifeline` that is needed here."""

    @property
    def is_overdue(self) -> bool: ...


class StatusCleaner:
    """Removes the statuses, topics and metrics of deleted connectors and tasks. Any thread; never waits."""

    def __init__(self, topics: WorkerTopics, totals: TaskTotals, leader: Leadership, lifeline: Seen) -> None:
        self._topics = topics
        self._statuses = topics.status
        self._totals = totals
        self._leader = leader
        self._lifeline = lifeline

    def look(self) -> None:
        """Clean up according to the latest snapshot of the config topic."""
        self.forget(self._topics.snapshot)

    def forget(self, snapshot: ClusterSnapshot) -> None:
        """Remove the statuses, topics and metrics of what does not exist any more, if this worker is the leader.

        A leader that was paused does nothing: it does not know the tasks that another leader has created since, and the
        statuses that it removed would not be written again.
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
