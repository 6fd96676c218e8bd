"""This worker's place in the group: its leader and members, requests to the leader, joining and leaving."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from fencepost.cluster.balance import LostTasks, Roster
from fencepost.cluster.info import ConnectorType
from fencepost.cluster.leader import CommandQueue, Leader
from fencepost.cluster.left_open import LeftOpen, fence_held
from fencepost.cluster.rounds import FencingRounds
from fencepost.cluster.running import Departures, Start
from fencepost.config import ConfigError
from fencepost.config.reference import RawConfig
from fencepost.config.worker import ExactlyOnceSource
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.group.group_admin import Group, GroupAdmin, GroupMember, remove_static_member
from fencepost.kafka.group.member import GroupMembership, MemberFigures, MemberMeter
from fencepost.storage import records
from fencepost.storage.change import TaskId
from fencepost.storage.config_topic import TopicWriter
from fencepost.storage.records import Encoded
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.telemetry.measure import WindowedRates
from fencepost.worker.membership.leader_line import LeaderLine, LocalLeader
from fencepost.worker.membership.peers import LateClient, Peers, PeerWatch
from fencepost.worker.plan import Client, is_query_config, is_source, is_stream, type_of
from fencepost.worker.settings import WorkerSettings, worker_id
from fencepost.worker.state import RETRY_S, WorkerState, repeat
from fencepost.worker.supervision.fence import TaskFence
from fencepost.worker.supervision.task.supervisor import TaskSupervisor
from fencepost.worker.topics import WorkerTopics

log = logging.getLogger(__name__)

_WRITE_S = 60.0
_LEAVE_S = 5.0
_NO_ANSWER = "no answer came in that time"
_LOOK_S = 2.0


class Attendance:
    """Writes these records, which any worker may write outside of transactions. Thread-safe."""

    def __init__(self, writer: TopicWriter, url: str, incarnation: str, stopping: threading.Event) -> None:
        self._writer = writer
        self._url = url
        self._incarnation = incarnation
        self._stopping = stopping
        self._lock = threading.Lock()
        self._predecessor: str | None = None
        self._is_announced = False
        self._is_ready = False
        self._again: Future[None] = Future()  # of the newest repeated announcement
        self._again.set_result(None)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="attendance")

    def announce(self, newest: str | None) -> None:
        """Announce this incarnation, which may then be assigned work. `newest` is the newest so far at this address.

        Raises KafkaUnavailableError; announcing again is safe.
        """
        with self._lock:
            if not self._is_announced:
                self._predecessor, self._is_announced = newest, True
            is_ready = self._is_ready
        self._writer.write([self._announcement(is_ready)], _WRITE_S)

    def is_followed_by(self, newest: str | None) -> bool:
        """Say whether the newest process at this address has announced itself after this one.

        A process that has not announced itself yet has no successor: it sees its predecessor there.
        """
        with self._lock:
            return self._is_announced and newest not in (None, self._incarnation, self._predecessor)

    def keep_announced(self, newest: str | None) -> None:
        """Announce this incarnation again if `newest` at this address is None, or its predecessor.

        The predecessor's last record, its announcement or (of an older version) its leave, was then delivered late, and
        work would be assigned to a process that is gone, or to none.
        """
        with self._lock:
            is_hidden = self._is_announced and newest != self._incarnation and newest in (None, self._predecessor)
            if not is_hidden or not self._again.done():
                return
            log.warning(
                "a record of this worker's predecessor was delivered late and took its place: announcing it again"
            )
            is_ready = self._is_ready
            self._again = self._soon(lambda: self._announcement(is_ready))

    def be_ready(self) -> None:
        """Announce soon that this worker can run tasks."""
        with self._lock:
            is_new, self._is_ready = not self._is_ready, True
            is_due = is_new and self._is_announced
        if is_due:
            self._soon(lambda: self._announcement(True))

    def announce_ended(self, starts: Sequence[Start]) -> None:
        """Announce soon that these starts of tasks have ended here."""
        self._soon(lambda: records.tasks_stopped(self._url, self._incarnation, starts))

    def leave(self) -> None:
        """Announce that this worker has ended its tasks and leaves. Waits for records in progress; never raises."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._is_announced:
            try:
                self._writer.write([records.worker_left(self._url, self._incarnation)], _LEAVE_S)
            except Exception as error:
                log.warning(
                    "the cluster will notice only after the session timeout that this worker has left: %s", error
                )

    def _announcement(self, is_ready: bool) -> Encoded:
        return records.worker_incarnation(self._url, self._incarnation, is_ready=is_ready)

    def _soon(self, record: Callable[[], Encoded]) -> "Future[None]":
        def write() -> None:
            while not self._stopping.is_set():
                try:
                    self._writer.write([record()], _WRITE_S)
                    return
                except KafkaUnavailableError as error:
                    log.warning("%s; retrying", error)
                    self._stopping.wait(RETRY_S)

        return self._pool.submit(write)


class Lifeline:
    """Checks in a thread of its own whether the group has this worker, and reports when it is lost and when it is back.

    The worker is lost if it was not seen for `session_timeout_s`, counted from the beginning of the last successful
    check: by then the coordinator has removed it, and others may have its tasks. A process that was paused finds this
    time exceeded when it wakes up.
    """

    def __init__(
        self,
        is_member: Callable[[], bool],
        session_timeout_s: float,
        tasks: TaskSupervisor,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`is_member` may raise any error that prevents an answer, and must return in much less than the timeout."""
        self._is_member = is_member
        self._session_timeout_s = session_timeout_s
        self._tasks = tasks
        self._now = now
        self._seen_at = now()
        self._answer = _NO_ANSWER  # of the last check, unless it succeeded
        self.is_lost = False
        self._judging = threading.Lock()  # housekeeping calls `judge`, too
        self._stopping = threading.Event()

    def start(self) -> None:
        self._seen_at = self._now()
        for n, act in enumerate((self.look, self.judge)):
            repeat(f"lifeline-{n}", min(1.0, self._session_timeout_s / 6), act, self._stopping)

    def stop(self) -> None:
        self._stopping.set()

    @property
    def is_overdue(self) -> bool:
        """Say whether this worker is lost, or the next check will find it so, for callers that cannot wait for it."""
        return self.is_lost or self._is_unseen()

    def look(self) -> None:
        """Check once whether the group has this worker."""
        began = self._now()
        try:
            if self._is_member():
                self._seen_at, self._answer = began, _NO_ANSWER
            else:
                self._answer = "the group does not contain it"
        except Exception as error:
            self._answer = f"the group cannot be asked: {error}"

    def judge(self) -> None:
        """Report a change. Separate from `look`, which may block for as long as its requests."""
        with self._judging:
            is_lost = self._is_unseen()
            if is_lost == self.is_lost:
                return
            self.is_lost = is_lost
            if is_lost:
                log.error(
                    "this worker has not been seen in its group for %g s: its tasks are stopped, because other "
                    "workers may run them (%s)",
                    self._session_timeout_s,
                    self._answer,
                )
            else:
                log.info("this worker is in its group again")
            self._tasks.cut_off(is_lost)

    def _is_unseen(self) -> bool:
        return self._now() - self._seen_at > self._session_timeout_s


class HeldIds:
    """The `FencingContext` of `LeftOpen` on a worker."""

    def __init__(self, settings: WorkerSettings, newest: Callable[[], ClusterSnapshot]) -> None:
        self._settings = settings
        self._newest = newest

    @property
    def group_id(self) -> str:
        return self._settings.group_id

    def has_ids(self, snapshot: ClusterSnapshot, connector: str) -> bool:
        """Say whether tasks may have ids. They may while exactly-once is prepared, as other workers may have it on.

        Tasks of a sink have none, those of a stream always have. If the class is not installed here, it is unknown, and
        they are fenced.
        """
        if is_query_config(snapshot.connectors.get(connector, {})):
            return False  # its id is in its checkpoint, and its next run takes that over
        if is_stream(snapshot, connector):
            return True
        is_used = self._settings.config.exactly_once is not ExactlyOnceSource.DISABLED
        return is_used and type_of(snapshot, connector) is not ConnectorType.SINK

    def conf(self, config: RawConfig) -> Mapping[str, Any]:
        """Return the settings to fence a connector's ids. Raises ConfigError if the config is not valid here."""
        try:
            return self._settings.plan(config).clients.conf(Client.FENCING)
        except KafkaUnavailableError as error:  # a store with the values that the config refers to
            raise ConfigError(str(error)) from error

    def snapshot(self) -> ClusterSnapshot:
        return self._newest()


def held_by_predecessors(snapshot: ClusterSnapshot, url: str, incarnation: str) -> set[TaskId]:
    """Return the tasks that processes before `incarnation` had at this address. Pure."""
    return {
        task
        for worker in (snapshot.assignment.workers if snapshot.assignment is not None else ())
        if worker.url == url and worker.incarnation != incarnation
        for task in worker.tasks
    }


class Membership:
    """Creates the parts of this package and connects them. Its methods follow the order of joining and leaving."""

    def __init__(
        self,
        settings: WorkerSettings,
        topics: WorkerTopics,
        state: WorkerState,
        departures: Departures,
        fence: TaskFence,
        http: LateClient,
    ) -> None:
        config = settings.config
        self._settings = settings
        self._topics = topics
        self._state = state
        self._has_left = False
        self._looking = GroupAdmin(settings.admin_conf(), timeout_s=_LOOK_S)
        held_ids = HeldIds(settings, lambda: topics.snapshot)
        self._left_open = LeftOpen(held_ids, lambda: self.leader.wake(), state.stopping, fence_held)
        self.leader = Leader(
            settings.group_id,
            topics.config,
            settings.leader_conf(),
            Roster(self.roster),
            LostTasks(self._left_open, departures.abandoned_tasks, config.scheduled_rebalance_max_delay_ms),
            CommandQueue(),
            key_algorithm=config.key_generation_algorithm,
            key_ttl_ms=config.key_ttl_ms,
        )
        window_s, samples = config.metrics_sample_window_ms / 1000, config.metrics_num_samples
        self._group = GroupMembership(
            settings.member_conf(),
            config.config_storage_topic,
            self.leader.on_term,
            state.fail,
            state.fail,
            self._is_taken,
            MemberMeter(WindowedRates(window_s, samples)),
        )
        self.peers = Peers(settings.url, self._look, topics.config, self.leader)
        self.attendance = Attendance(topics.writer, settings.url, settings.incarnation, state.stopping)
        self.rounds = FencingRounds(
            settings.group_id,
            self.leader,
            topics.read_config,
            lambda config: settings.plan(config).clients.conf(Client.FENCING),
            departures.wait_for,
            is_source,
        )
        self.line = LeaderLine(
            LocalLeader(self.leader, self.rounds, is_exactly_once=settings.is_exactly_once),
            self.peers,
            config.signature_algorithm,
            topics.config.read_to_end,
            http,
        )
        self._watch = PeerWatch(self.peers, lambda: self.leader.is_leading, self._evict, state.stopping)

    def roster(self) -> list[str]:
        """Return the URLs of the group's members."""
        return [member.client_id for member in self._look().members]

    def member_figures(self) -> MemberFigures:
        """Return what this worker's member of the group measures."""
        return self._group.meter.figures()

    def is_member(self) -> bool:
        """Say whether the group has this worker. Raises any error that prevents an answer."""
        return self._settings.url in self.roster()

    def join(self) -> None:
        """Join the group; from here on this worker may lead it."""
        self._group.start()

    def end_predecessors(self) -> None:
        """End transactions that a killed incarnation at this address left open: readers of offsets would wait.

        This happens before the announcement of this incarnation: until then those tasks are assigned to no worker.
        """
        snapshot = self._topics.snapshot
        held = held_by_predecessors(snapshot, self._settings.url, self._settings.incarnation)
        self._left_open.end(snapshot, held).wait()

    def watch_others(self) -> None:
        """Start to watch the other workers, to notice a killed one at once."""
        self._watch.start()

    def announce(self) -> None:
        """Let work be assigned to this incarnation from here on."""
        self.attendance.announce(self._topics.newest_here)

    def keep_announced(self) -> None:
        """Announce this incarnation again if a record of a predecessor was delivered late."""
        self.attendance.keep_announced(self._topics.newest_here)

    def ended_here(self, starts: Sequence[Start]) -> None:
        """Announce soon that these starts of tasks have ended here, unless this is the only worker."""
        assignment = self._topics.snapshot.assignment
        if assignment is not None and len(assignment.workers) > 1:
            self.attendance.announce_ended(starts)

    def leave(self) -> None:
        """Leave the group, so that work moves at once and not after the session timeout."""
        can_quit = self._state.error is None and self._hand_over()
        self.line.stop()
        self.leader.stop()
        self.rounds.stop()
        self._group.stop()
        self._has_left = can_quit and self._quit_group()
        self._looking.close()

    def log_farewell(self) -> None:
        """Log, as the last message, what a successor may have to wait for."""
        group, name = self._settings.group_id, self._settings.worker_id
        if self._has_left:
            log.info("worker %s has left group %s: others, Kafka Connect's too, can start at once", name, group)
        elif self._state.error is None:
            log.warning(
                "worker %s has not left group %s, which keeps its place for %g s (session.timeout.ms): a worker of "
                "Kafka Connect that starts before that ends with InconsistentGroupProtocolException",
                name,
                group,
                self._settings.config.session_timeout_ms / 1000,
            )

    def _hand_over(self) -> bool:
        """Announce that this worker leaves and, if it leads, reassign its tasks. Returns whether Kafka answered."""
        self.attendance.leave()
        try:
            if any(url != self._settings.url for url in self.roster()):
                self.leader.reassign(_LEAVE_S)
            return True
        except Exception as error:
            log.warning("the group will notice only after the session timeout that this worker has left: %s", error)
            return False

    def _quit_group(self) -> bool:
        """Quit once the member is closed: a static one stays in the group, possibly as leader, for its session timeout.

        This also matters if there are no others: the next may be a worker of Kafka Connect, which cannot join while
        this member remains. Returns whether Kafka answered.
        """
        settings = self._settings
        try:
            remove_static_member(settings.admin_conf(), settings.group_id, settings.worker_id, timeout_s=_LEAVE_S)
            return True
        except KafkaUnavailableError as error:
            log.warning("%s", error)
            return False

    def _evict(self, member: GroupMember) -> None:
        settings, name = self._settings, worker_id(member.client_id)
        remove_static_member(settings.admin_conf(), settings.group_id, name, _LEAVE_S, member_id=member.member_id)
        self.leader.group_changed()

    def _look(self) -> Group:
        return self._looking.describe(self._settings.group_id)

    def _is_taken(self) -> bool:
        return self.attendance.is_followed_by(self._topics.newest_here)
