"""This worker's place in the group: its leader and members, requests to the leader, joining and leaving."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fencepost.cluster.balance import LostTasks, Roster
from fencepost.cluster.info import ConnectorType
from fencepost.cluster.leader import CommandQueue, Leader
from fencepost.cluster.left_open import LeftOpen, fence_held
from fencepost.cluster.rounds import FencingRounds
from fencepost.cluster.running import Departures, Start
from fencepost.config import ConfigError
from fencepost.config.raw import RawConfig
from fencepost.config.worker import ExactlyOnceSource
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.group.group_admin import Group, GroupAdmin, GroupMember
from fencepost.kafka.group.leave import remove_static_member
from fencepost.kafka.group.member import GroupMembership
from fencepost.kafka.group.member_figures import MemberFigures, MemberMeter
from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.telemetry.rate import WindowedRates
from fencepost.worker.connector_classes import ConnectorClasses, is_stream, type_of
from fencepost.worker.membership.attendance import Attendance
from fencepost.worker.membership.leader_line import LeaderLine, LocalLeader
from fencepost.worker.membership.peers import LateClient, Peers
from fencepost.worker.membership.watch import PeerWatch
from fencepost.worker.settings import WorkerSettings, worker_id
from fencepost.worker.state import WorkerState
from fencepost.worker.supervision.fence import TaskFence
from fencepost.worker.topics import WorkerTopics

log = logging.getLogger(__name__)

_LEAVE_S = 5.0
_LOOK_S = 2.0


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
        if is_stream(snapshot, connector):
            return True
        is_used = self._settings.config.exactly_once is not ExactlyOnceSource.DISABLED
        return is_used and type_of(snapshot, connector) is not ConnectorType.SINK

    def conf(self, config: RawConfig) -> Mapping[str, Any]:
        """Return the settings to fence a connector's ids. Raises ConfigError if the config is not valid here."""
        try:
            return self._settings.fencing_conf(config)
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
        classes: ConnectorClasses,
        http: LateClient,
    ) -> None:
        """`http` is for requests to the other workers."""
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
            settings.fencing_conf,
            departures.wait_for,
            classes.is_source,
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
