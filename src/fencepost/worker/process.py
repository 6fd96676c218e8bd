"""A whole worker in one process: its parts, its start and its end."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fencepost.cluster.command import now_ms
from fencepost.cluster.leader import Leader
from fencepost.cluster.operations import ConnectOperations
from fencepost.cluster.running import Departures
from fencepost.cluster.tls import peer_context
from fencepost.config.check import ConfigError, collected
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import read_plugin_path
from fencepost.plugin.secret_keys import hold_given_secrets
from fencepost.reference import providers_of
from fencepost.retention.keeper import Retention
from fencepost.retention.survey import RetentionClients, readings
from fencepost.storage.change import (
    Change,
    ConnectorConfigRemoved,
    LoggerLevelSet,
    RestartRequested,
    TaskConfigsUpdated,
    TaskId,
    TasksStopped,
)
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import StatusTable
from fencepost.telemetry import event_ring
from fencepost.telemetry.loggers import LEVELS, loggers
from fencepost.worker.declaration import Declaration, Declared
from fencepost.worker.host.driver import Driver
from fencepost.worker.host.hosts import Hosts
from fencepost.worker.host.spark_keeper import TaskForecast
from fencepost.worker.membership.membership import Lifeline, Membership
from fencepost.worker.membership.peers import LateClient, Questions
from fencepost.worker.operation.cluster import HealthCheck, InternalRequests, Probes, WorkerGroup
from fencepost.worker.operation.connector.connectors import Connectors, LocalAnswers, Tasks, plan_restart
from fencepost.worker.operation.connector.dead_letters import DeadLetters, Resends
from fencepost.worker.operation.connector.topic_records import TopicRecords
from fencepost.worker.operation.metric.collector import ExporterFigures, WorkerFigures, WorkerMetrics
from fencepost.worker.operation.observation.figures import Figures, described
from fencepost.worker.operation.observation.logs import Logs
from fencepost.worker.operation.offset.offsets import Offsets, QueryOffsets
from fencepost.worker.operation.offset.sink import SinkOffsets
from fencepost.worker.operation.offset.source import OffsetWriter, SourceOffsets
from fencepost.worker.operation.plugin import Plugins
from fencepost.worker.operation.request import Requests
from fencepost.worker.plan import class_of, is_source, known, type_of_config, version_of
from fencepost.worker.settings import WorkerSettings, limit_files
from fencepost.worker.state import Progress, WorkerState, repeat
from fencepost.worker.supervision.fence import TaskFence
from fencepost.worker.supervision.status import StatusCleaner
from fencepost.worker.supervision.supervision import Supervision
from fencepost.worker.topics import WorkerTopics
from fencepost.worker.validation.chain import require_converters

log = logging.getLogger(__name__)

_EVERY_S = 1.0


def worker_operations(
    settings: WorkerSettings,
    topics: WorkerTopics,
    state: WorkerState,
    membership: Membership,
    supervision: Supervision,
    departures: Departures,
    retention: Retention,
    probes: Probes,
) -> ConnectOperations:
    """Return the operations of a worker with these parts."""
    config, find = settings.config, class_of
    requests = Requests(settings.url, topics.config, membership, state.progress)
    writer = OffsetWriter(settings, topics.copies, now_ms)
    offsets = Offsets(
        requests,
        SourceOffsets(
            settings, supervision.admissions.topics, writer, find, membership.rounds.fence, departures.wait_for
        ),
        SinkOffsets(settings, find, departures.wait_for, retention.offsets_lock),
        QueryOffsets(settings, departures.wait_for),
    )

    def may_resend(connector: str) -> bool:
        is_leading = membership.leader.is_leading and not state.stopping.is_set()
        return is_leading and connector in topics.snapshot.connectors

    dead_letters = DeadLetters(requests, settings, Resends(may_resend))
    records = TopicRecords(requests, settings, topics.status.table.topics)
    restart, statuses = supervision.connectors.restart, topics.status.table
    return ConnectOperations(
        LocalAnswers(config, topics),
        probes,
        Connectors(requests, config, statuses, topics.writer, offsets, restart, dead_letters),
        Tasks(requests, config, topics.status, supervision.supervisor.restart),
        offsets,
        Plugins(config),
        WorkerGroup(requests, membership.peers, topics.writer, retention, records),
        InternalRequests(settings, requests, membership, state.progress),
    )


class Restarts:
    """Carries out restart requests, which every worker receives, for the parts that run here (KIP-745)."""

    def __init__(self, incarnation: str, statuses: StatusTable, supervision: Supervision) -> None:
        self._incarnation = incarnation
        self._statuses = statuses
        self._supervision = supervision

    def carry_out(self, request: RestartRequested, snapshot: ClusterSnapshot) -> None:
        """Queue the restarts; never waits."""
        mine = snapshot.assigned_to(self._incarnation)
        if mine is None:
            return
        connector = request.connector
        plan = plan_restart(request, self._statuses.status(connector), self._statuses.tasks(connector))
        if plan.is_connector_restarted and connector in mine.connectors:
            self._supervision.connectors.restart(connector)
        for number in plan.tasks:
            if TaskId(connector, number) in mine.tasks:
                self._supervision.supervisor.restart(TaskId(connector, number))


class ConfigChanges:
    """Called on the thread that reads the config topic: only queues work, and never waits."""

    def __init__(
        self,
        progress: Progress,
        departures: Departures,
        supervision: Supervision,
        leader: Leader,
        status_cleaner: StatusCleaner,
        restarts: Restarts,
    ) -> None:
        self._progress = progress
        self._departures = departures
        self._supervision = supervision
        self._leader = leader
        self._status_cleaner = status_cleaner
        self._restarts = restarts

    def changed(self, old: ClusterSnapshot, new: ClusterSnapshot, changes: Sequence[Change]) -> None:
        """Pass a change on, once the worker has started."""
        if not self._progress.is_started:
            return
        self._record_departures(old, new, changes)
        if any(isinstance(c, ConnectorConfigRemoved | TaskConfigsUpdated) for c in changes):
            self._status_cleaner.forget(new)  # before a connector of the same name writes a status
        self._see_to_waiting(old, new)
        self.take_work(new)
        for change in changes:
            if isinstance(change, RestartRequested):
                self._restarts.carry_out(change, new)
            elif isinstance(change, LoggerLevelSet) and change.level in LEVELS:
                loggers.set_level(change.namespace, change.level, now_ms())

    def take_work(self, snapshot: ClusterSnapshot) -> None:
        """Run what the snapshot assigns to this worker."""
        self._supervision.changed(snapshot)
        self._leader.wake()

    def _record_departures(self, old: ClusterSnapshot, new: ClusterSnapshot, changes: Sequence[Change]) -> None:
        self._departures.changed(old, new)
        for change in changes:
            if isinstance(change, TasksStopped):
                self._departures.ended(change.incarnation, change.tasks)

    def _see_to_waiting(self, old: ClusterSnapshot, new: ClusterSnapshot) -> None:
        """Write statuses, if this worker leads, for the parts of lost workers that wait for the worker to return."""
        if self._leader.is_leading and new.assignment is not None and new.assignment is not old.assignment:
            before = old.assignment.waiting if old.assignment is not None else ()
            lost = [each for each in new.assignment.waiting if each not in before]
            self._supervision.board.waiting(lost)
            self._supervision.lost(new, [each.worker for each in lost])


class Housekeeping:
    """Calls `chores` in order every second, in a separate thread, and logs the errors that they raise."""

    def __init__(self, chores: Sequence[Callable[[], None]]) -> None:
        self._chores = tuple(chores)
        self._is_over = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        repeat("housekeeping", _EVERY_S, self._look, self._is_over)

    def stop(self) -> None:
        """Make no more calls."""
        self._is_over.set()

    def _look(self) -> None:
        for chore in self._chores:
            try:
                chore()
            except Exception as error:
                log.warning("housekeeping: %s", error)


@dataclass(frozen=True)
class StartUp:
    """Starts the parts of a worker, in a thread of its own.

    1. REST answers (health says "starting"). 2. Kafka is reached; internal topics exist and are right. 3. Config and
    status topics are read to their ends. 4. In parallel with 3 the group is joined and has a leader. 5. Ids that this
    worker's predecessor held are fenced together. 6. Connectors and tasks run. Spark starts in parallel with all steps;
    tasks wait for it, REST does not.
    """

    worker_id: str
    state: WorkerState
    topics: WorkerTopics
    membership: Membership
    supervision: Supervision
    changes: ConfigChanges
    lifeline: Lifeline
    housekeeping: Housekeeping

    def start(self) -> None:
        """Start with step 2."""
        threading.Thread(target=self._run, name="start-up", daemon=True).start()

    def stop_checks(self) -> None:
        """Stop the checks that were started."""
        self.lifeline.stop()
        self.housekeeping.stop()

    def _run(self) -> None:
        try:
            self._come_up()
        except Exception as error:
            self.state.fail(error)

    def _come_up(self) -> None:
        state = self.state
        state.retry("connecting to Kafka", self.topics.connect)  # 2
        self.topics.watch()
        self.supervision.offsets.start()
        with state.progress.doing("joining the group"):
            self.membership.join()  # 4, in parallel with 3: a leader decides only after that
        self.topics.read(after_config=self.membership.leader.start)  # 3
        state.retry("fencing what this worker's predecessor held", self.membership.end_predecessors)  # 5
        state.retry("announcing this worker", self.membership.announce)
        self.membership.leader.wake()
        self.supervision.start()
        self.lifeline.start()
        self.membership.watch_others()
        self.housekeeping.start()
        state.progress.is_started = True
        self.changes.take_work(self.topics.snapshot)  # 6
        log.info("worker %s is ready", self.worker_id)


class WorkerProcess:
    """A worker. `start` returns at once, and REST can be served; the rest starts in the background (`StartUp`)."""

    def __init__(self, config: WorkerConfig, url: str, driver: Driver, declared: Declared | None = None) -> None:
        """Create the parts.

        Args:
            config: The worker's.
            url: The advertised address of REST.
            driver: May have launched Spark's JVM already.
            declared: Connectors that the worker creates whenever it starts to lead.

        Raises:
            ConfigError: Converters and config providers that are not available, all of them.
        """
        _set_up_process(config)
        settings = WorkerSettings(config, url, uuid.uuid4().hex)
        state = self._state = WorkerState()
        topics = self._topics = WorkerTopics(settings, state, lambda old, new, made: changes.changed(old, new, made))
        departures = Departures(config.task_shutdown_graceful_timeout_ms / 1000)
        fence, http = TaskFence(settings), LateClient(peer_context(config))
        membership = self._membership = Membership(settings, topics, state, departures, fence, http)
        supervision = self._supervision = Supervision(
            settings, topics, state, departures, fence, membership.line, membership
        )
        forecast = TaskForecast(url, topics, supervision, membership.attendance.be_ready)
        hosts = self._hosts = Hosts(config, driver, supervision, forecast, state.stopping)
        lifeline = Lifeline(membership.is_member, config.session_timeout_ms / 1000, supervision.supervisor)
        cleaner = StatusCleaner(topics, supervision.totals, membership.leader, lambda: lifeline.is_overdue)
        restarts = Restarts(settings.incarnation, topics.status.table, supervision)
        changes = ConfigChanges(state.progress, departures, supervision, membership.leader, cleaner, restarts)
        questions = Questions(membership.peers, config.signature_algorithm, http)
        describe = partial(described, worker=config)
        figures = Figures(url, lambda: topics.snapshot, supervision.totals, hosts.slots.figures, questions, describe)
        housekeeping = _housekeeping(config, topics, membership, lifeline, hosts, cleaner, figures)
        self._start_up = StartUp(
            settings.worker_id, state, topics, membership, supervision, changes, lifeline, housekeeping
        )
        self._retention = _retention(settings, topics, membership)
        metrics = _metrics(settings, topics, membership, supervision, hosts, self._retention)
        logs = Logs(url, lambda: topics.snapshot, event_ring.ring, questions, state.stopping)
        health = HealthCheck(topics.config, state.progress, hosts.spark, membership.leader)
        probes = Probes(health, metrics.text, figures, logs)
        self.operations = worker_operations(
            settings, topics, state, membership, supervision, departures, self._retention, probes
        )
        self._declaration = Declaration(
            declared or Declared({}),
            self.operations.connectors.put_config,
            lambda: topics.snapshot,
            lambda: state.progress.is_started and membership.leader.is_leading,
            state.fail,
            state.stopping,
        )

    def start(self) -> None:
        """Start the threads that bring the worker up."""
        event_ring.ring.attach()
        self._hosts.start()
        self._start_up.start()
        self._retention.start()
        self._declaration.start()

    @property
    def error(self) -> Exception | None:
        """Return why this worker has to end: wrong settings, wrong topics, or another process in its place."""
        return self._state.error

    def leave(self) -> None:
        """End all work and leave the group: tasks end as their boundaries decide, and statuses are written.

        REST must listen until this returns: a member of the group that refuses connections is taken for killed.
        """
        self._state.stopping.set()
        self._retention.stop()
        if self._state.progress.is_started:
            self._supervision.stop(is_replaced=self._state.error is not None)
            self._hosts.slots.release_all()
        self._start_up.stop_checks()
        self._membership.leave()

    def stop(self) -> None:
        """Close everything, once `leave` has returned."""
        self._topics.close()
        self._hosts.stop()
        self._membership.log_farewell()


def _housekeeping(
    config: WorkerConfig,
    topics: WorkerTopics,
    membership: Membership,
    lifeline: Lifeline,
    hosts: Hosts,
    cleaner: StatusCleaner,
    figures: Figures,
) -> Housekeeping:
    chores = [
        lifeline.judge,  # first: after a pause of this process and its slots, the tasks may be others'
        hosts.slots.check_leases,
        hosts.spark.count_cores,
        membership.keep_announced,
        cleaner.look,
        lambda: event_ring.ring.forget_all_but(topics.snapshot.connectors),
    ]
    return Housekeeping([*chores, figures.past.look] if config.ui_enabled else chores)


def _metrics(
    settings: WorkerSettings,
    topics: WorkerTopics,
    membership: Membership,
    supervision: Supervision,
    hosts: Hosts,
    retention: Retention,
) -> WorkerMetrics:
    figures = WorkerFigures(
        leader=membership.leader,
        connectors=supervision.connectors.count,
        tasks=supervision.supervisor.count,
        connector_startups=lambda: supervision.connectors.services.startups,
        jvm_pid=hosts.spark.jvm_pid,
        ended_by_signal=hosts.ends.counts,
        retention=retention.info,
        connector_figures=supervision.connectors.figures,
    )
    exporter = ExporterFigures(
        settings.url,
        round(time.time() * 1000),
        lambda config: (type_of_config(config).value, version_of(config) or ""),
        membership.member_figures,
        hosts.spark.jvm_figures,
    )
    return WorkerMetrics(lambda: topics.snapshot, topics.status.table, supervision.totals, figures, exporter)


def _set_up_process(config: WorkerConfig) -> None:
    """Give this process its plug-ins, the limit of connectors' files and the secrets to hide. Raises ConfigError."""
    require_names(config)
    limit_files(config)
    hold_given_secrets({key: str(value) for key, value in config.originals.items()})


def require_names(config: WorkerConfig) -> None:
    """Raise ConfigError for all classes that the worker's file names and that cannot be used."""
    plugins = read_plugin_path(config.plugin_path or (), config.java_options, config.plugin_disabled)
    faults: list[str] = []
    collected(lambda: require_converters(config, plugins), None, faults)
    collected(providers_of(config.originals).check, None, faults)
    if faults:
        raise ConfigError(faults)


def _retention(settings: WorkerSettings, topics: WorkerTopics, membership: Membership) -> Retention:
    config = settings.config
    return Retention(
        config,
        config.offset_flush_interval_ms,
        RetentionClients(settings.admin_conf()),
        (config.config_storage_topic, config.offset_storage_topic, config.status_storage_topic),
        membership.leader,
        topics.config,
        lambda snapshot: readings(snapshot, settings, is_source, partial(known, config)),
        settings.cluster_ids,
    )
