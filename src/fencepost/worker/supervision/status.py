"""Statuses in the status topic: this worker's, and the leader's tombstones for what is deleted."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from fencepost.cluster.leader import Leader
from fencepost.config.cluster import GroupConfig
from fencepost.secret.known import hide
from fencepost.storage.change import HeldBackWork, TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import Restart, State, Status, StatusTopic, Subject
from fencepost.worker.supervision.automatic_restart import RestartSchedule
from fencepost.worker.supervision.task_metrics import TaskTotals
from fencepost.worker.topics import WorkerTopics


class StatusBoard:
    """Writes this worker's states, with its group generation. Never waits. Any thread.

    The last status should be the owner's. A former owner that was paused may write late, after the new owner, what it
    read before it lost the connector or task; the owner then writes its status again. While one of them has not read
    the assignment yet, two workers may both believe to be the owner: a worker that sees the other's status in a newer
    generation answers it only once.
    """

    def __init__(
        self,
        topic: StatusTopic,
        worker_id: str,
        generation: Callable[[], int],
        owns: Callable[[Subject], bool],
        *,
        tracks_topics: bool,
        version_of: Callable[[str], str | None],
    ) -> None:
        """`owns`: whether a connector or task is assigned to this worker; `version_of`: the version of the plug-in that
        a connector runs. Both must not wait."""
        self._topic = topic
        self._worker_id = worker_id
        self._generation = generation
        self._owns = owns
        self._lock = threading.Lock()  # so that no older status is written after a newer one
        self._said: dict[Subject, Status] = {}  # the last status written, unless UNASSIGNED
        self._answered: dict[Subject, int] = {}  # the newest generation in which another worker was answered
        self._unanswered: set[Subject] = set()  # their last status is another worker's, in a newer generation
        self._tracks_topics = tracks_topics
        self._version_of = version_of
        topic.listen(self._heard)

    def task(self, task: TaskId, state: State, trace: str | None = None, generation: int | None = None) -> None:
        """Write the state of a task, in an earlier `generation` of the group or the current one."""
        self._put(task, state, trace, generation)

    def connector(self, name: str, state: State, trace: str | None = None) -> None:
        self._put(name, state, trace)

    def failed(self, subject: Subject, trace: str, plan: RestartSchedule | None) -> None:
        """Write that a connector or task has failed, and when it is restarted automatically, if so."""
        self._put(subject, State.FAILED, trace, restart=None if plan is None else _restart(plan))

    def topic(self, connector: str, topic: str, task: int) -> None:
        """Record, once, that a connector uses a topic."""
        if self._tracks_topics and topic not in self._topic.table.topics(connector):
            self._topic.put_topic(connector, topic, task, int(time.time() * 1000))

    def waiting(self, absent: Iterable[HeldBackWork]) -> None:
        """Write that a lost worker's connectors and tasks are not running, and for how long."""
        key = GroupConfig.key_of("scheduled_rebalance_max_delay_ms")
        for each in absent:
            until = datetime.fromtimestamp(each.until_ms / 1000, UTC).isoformat(timespec="seconds")
            trace = f"Waits for worker {each.worker.url} to return, until {until} at the latest ({key})"
            for name in each.worker.connectors:
                self._put(name, State.UNASSIGNED, trace)
            for task in each.worker.tasks:
                self._put(task, State.UNASSIGNED, trace)

    def _put(
        self,
        subject: Subject,
        state: State,
        trace: str | None,
        generation: int | None = None,
        restart: Restart | None = None,
    ) -> None:
        said_in = self._generation() if generation is None else generation
        version = self._version_of(subject if isinstance(subject, str) else subject.connector)
        text = None if trace is None else hide(trace)  # E11
        status = Status(state, self._worker_id, said_in, text, version, restart)
        with self._lock:
            if state is State.UNASSIGNED:
                self._forget(subject)
            else:
                self._said[subject] = status
            if state in (State.UNASSIGNED, State.FAILED):
                self._topic.put_safe(subject, status)
            else:
                self._topic.put(subject, status)

    def _heard(self, subject: Subject, status: Status) -> None:
        with self._lock:
            said = self._said.get(subject)
            if said is None or status.worker_id == self._worker_id:
                return
            if not self._owns(subject):
                self._forget(subject)
            elif status.generation <= self._generation() or self._is_first_answer(subject, status.generation):
                self._say_again(subject, said)
            else:
                self._unanswered.add(subject)

    def assigned(self) -> None:
        """Write statuses again that another worker overwrote before this one had read that it is still the owner."""
        with self._lock:
            for subject in [each for each in self._unanswered if self._answered[each] <= self._generation()]:
                if self._owns(subject):
                    self._say_again(subject, self._said[subject])
                else:
                    self._forget(subject)

    def _say_again(self, subject: Subject, said: Status) -> None:
        self._unanswered.discard(subject)
        self._topic.put(subject, replace(said, generation=self._generation()))

    def _is_first_answer(self, subject: Subject, generation: int) -> bool:
        is_first = generation > self._answered.get(subject, -1)
        self._answered[subject] = max(generation, self._answered.get(subject, -1))
        return is_first

    def _forget(self, subject: Subject) -> None:
        self._said.pop(subject, None)
        self._answered.pop(subject, None)
        self._unanswered.discard(subject)


def _restart(plan: RestartSchedule) -> Restart:
    return Restart(plan.made, None if plan.in_s is None else int((time.time() + plan.in_s) * 1000))


class StatusCleaner:
    """Removes the statuses, topics and metrics of deleted connectors and tasks. Any thread; never waits."""

    def __init__(
        self, topics: WorkerTopics, totals: TaskTotals, leader: Leader, is_overdue: Callable[[], bool]
    ) -> None:
        self._topics = topics
        self._statuses = topics.status
        self._totals = totals
        self._leader = leader
        self._is_overdue = is_overdue

    def look(self) -> None:
        """Clean up according to the latest snapshot of the config topic."""
        self.forget(self._topics.snapshot)

    def forget(self, snapshot: ClusterSnapshot) -> None:
        """Remove the statuses, topics and metrics of what does not exist any more, if this worker is the leader.

        A leader that was paused does nothing: it does not know the tasks that another leader has created since, and the
        statuses that it removed would not be written again.
        """
        if not self._leader.is_leading or self._is_overdue():
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
