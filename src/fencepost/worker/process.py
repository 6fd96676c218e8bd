"""Everything of a worker in one process, and the order in which it comes up.

1. REST answers (health says "starting"). 2. Kafka is reached; internal topics are there and right. 3. Config and status
topics are read to their ends. 4. The group is joined, beside 3; somebody leads. 5. Ids that this worker's predecessor
held are fenced in bulk. 6. Connectors and tasks run. Spark starts beside all of this; tasks wait for it, REST does not.
"""

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from fencepost import __version__
from fencepost.cluster.command import PutTaskConfigs, now_ms
from fencepost.cluster.departure import Departures, Start
from fencepost.cluster.fencing import ConfOf, fence, task_transactional_ids
from fencepost.cluster.leader import Leader
from fencepost.cluster.operations import ConnectorType
from fencepost.cluster.rounds import FencingRounds
from fencepost.config import ConfigError
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.kafka.admin import Admin
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.leave import remove_static_member
from fencepost.kafka.member import GroupMembership
from fencepost.plugin import registry, use_plugin_path
from fencepost.spark.cores import CoreLedger
from fencepost.spark.error import SparkError
from fencepost.spark.session import SparkRuntime
from fencepost.spark.slots import SlotJobs
from fencepost.storage.change import (
    Change,
    ConnectorConfigRemoved,
    LoggerLevelSet,
    RestartRequested,
    TaskConfigsUpdated,
    TasksStopped,
)
from fencepost.storage.config_topic import ConfigTopic, TopicWriter
from fencepost.storage.ids import TaskId
from fencepost.storage.internal_topics import ReplicationError, ensure_internal_topics
from fencepost.storage.offset_copies import OffsetCopies
from fencepost.storage.shared_read import SharedRead
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import StatusTopic
from fencepost.task.slot import run_slot
from fencepost.task.spec import TaskSpec
from fencepost.telemetry.loggers import LEVELS, loggers
from fencepost.transaction import WriterOpenError
from fencepost.worker.channel import ChannelServer, ChannelTls
from fencepost.worker.driver import Driver, say_line
from fencepost.worker.host.dataframe_host import DataFrameHost
from fencepost.worker.host.slot_pool import SlotPool
from fencepost.worker.housekeeping import Housekeeping
from fencepost.worker.membership.attendance import Attendance
from fencepost.worker.membership.leader_line import LeaderLine, LocalLeader
from fencepost.worker.membership.lifeline import Lifeline
from fencepost.worker.membership.peers import Peers
from fencepost.worker.operation.metrics import WorkerFigures, WorkerMetrics
from fencepost.worker.operation.offset_change import OffsetChanges
from fencepost.worker.operation.offset_write import OffsetWriting
from fencepost.worker.operation.operations import WorkerOperations, type_of
from fencepost.worker.operation.progress import Stages
from fencepost.worker.operation.restart import plan_restart
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.admission import Admissions
from fencepost.worker.supervision.connector_host import ConnectorHost
from fencepost.worker.supervision.offset_copying import OffsetCopying
from fencepost.worker.supervision.port import TaskHost
from fencepost.worker.supervision.preparation import Preparation
from fencepost.worker.supervision.status import StatusBoard
from fencepost.worker.supervision.supervisor import TaskSupervisor
from fencepost.worker.supervision.task_metrics import TaskTotals

log = logging.getLogger(__name__)

_RETRY_S = 1.0
_READ_S = 60.0
_FENCE_S = 60.0
_BROKERS_S = 30.0
_RESTART_SPARK_S = 2.0
_SLOTS_S = 60.0
_SESSION_AFTER_S = 5.0
_SESSION_BY_S = 60.0
_TICK_S = 1.0
_LEAVE_S = 5.0
_KEEP_UP_S = 10.0
_LOOK_S = 2.0
_LOCK_OUT_S = 30.0


class WorkerProcess:
    """A worker. `start` returns at once where REST can be served; the rest comes up behind it."""

    def __init__(self, config: WorkerConfig, url: str, driver: Driver | None = None) -> None:
        """`url` is the advertised address of REST; `driver` may have launched Spark's JVM already."""
        self._driver = driver or Driver(config)
        use_plugin_path(config.plugin_path or ())
        self.settings = WorkerSettings(config, url, uuid.uuid4().hex)
        self.stages = Stages()
        self._stopping = threading.Event()
        self._is_ready = threading.Event()
        self._has_offsets = threading.Event()
        self._error: Exception | None = None
        self._cluster_id = ""
        self._brokers_by: float | None = None
        self._build_storage()
        self._build_cluster()
        self._build_tasks()
        self._build_spark()
        self.operations = self._build_operations()

    # life

    def start(self) -> None:
        """Begin to come up, in threads."""
        self._channel.start()  # a slot may be there before the worker is ready for tasks
        threading.Thread(target=self._come_up, name="start-up", daemon=True).start()
        threading.Thread(target=self._run_spark, name="spark", daemon=True).start()

    def wait_until_ready(self, timeout_s: float) -> None:
        """Wait for step 6. Raises what made the start fail."""
        self._is_ready.wait(timeout_s)
        if self._error is not None:
            raise self._error
        if not self._is_ready.is_set():
            raise TimeoutError(f"the worker was not ready within {timeout_s:g} s: {self.stages.described()}")

    @property
    def error(self) -> Exception | None:
        """Why this worker has to end: wrong settings, wrong topics, or another process in its place."""
        return self._error

    def stop(self) -> None:
        """Stop gracefully: tasks end by their boundary's rule, statuses say so, the group is left."""
        self._stopping.set()
        if self.stages.is_started:
            self._end_work(is_replaced=self._error is not None)
        self._lifeline.stop()
        self._housekeeping.stop()
        has_others = self._hand_over()
        self._line.stop()
        self._leader.stop()
        self._rounds.stop()
        self._membership.stop()
        if has_others:
            self._quit_group()
        self._status_topic.stop()
        self._config_topic.stop()
        self._writer.close()
        self._copies.close()
        self._channel.stop()
        if self._spark is not None:
            self._spark.stop()

    def _end_work(self, *, is_replaced: bool) -> None:
        """Where another process has this worker's place, that one says what becomes of connectors and tasks."""
        if is_replaced:
            self._supervisor.cut_off(True)
        self._supervisor.shut_down(self.settings.config.task_shutdown_graceful_timeout_ms / 1000)
        if not is_replaced:
            self._connectors.stop()
        self._slots.release_all()

    def _hand_over(self) -> bool:
        """Give away at once what would otherwise wait for the session time-out. Returns whether there are others."""
        if self._error is not None:
            return False
        self._attendance.leave()
        try:
            if all(url == self.settings.url for url in self._peers.roster()):
                return False  # whoever is alone takes its place again at once when it is started again
            self._leader.reassign(_LEAVE_S)
            return True
        except Exception as error:
            log.warning("the group learns only by the session time-out that this worker has left: %s", error)
            return False

    def _quit_group(self) -> None:
        """Once the member is closed: a static one stays in the group for its session time-out, and may lead it."""
        settings = self.settings
        try:
            remove_static_member(settings.admin_conf(), settings.group_id, settings.worker_id, timeout_s=_LEAVE_S)
        except KafkaUnavailableError as error:
            log.warning("%s", error)

    # building

    def _build_storage(self) -> None:
        settings, config = self.settings, self.settings.config
        self._admin = Admin(settings.admin_conf(), timeout_s=15.0)
        self._config_topic = ConfigTopic(settings.reader_conf(), config.config_storage_topic, self._changed)
        self._status_topic = StatusTopic(settings.reader_conf(), settings.producer_conf(), config.status_storage_topic)
        self._writer = TopicWriter(settings.producer_conf(), config.config_storage_topic)
        self._copies = OffsetCopies(settings.producer_conf(), config.offset_storage_topic)
        self._read_config = SharedRead(self._config_topic.read_to_end)  # many tasks start at once

    def _build_cluster(self) -> None:
        settings, config = self.settings, self.settings.config
        self._departures = Departures(config.task_shutdown_graceful_timeout_ms / 1000)
        self._leader = Leader(
            settings.group_id,
            self._config_topic,
            settings.leader_conf(),
            lambda: self._peers.roster(),
            key_algorithm=config.key_generation_algorithm,
            key_ttl_ms=config.key_ttl_ms,
            lost_delay_ms=config.scheduled_rebalance_max_delay_ms,
            fence_lost=self._fence_lost,
            left_behind=self._departures.left_behind,
        )
        self._membership = GroupMembership(
            settings.member_conf(),
            config.config_storage_topic,
            self._leader.on_term,
            self._fail,
            self._fail,
            lambda: self._attendance.is_followed_by(self._newest_here()),
        )
        looking = Admin(settings.admin_conf(), timeout_s=_LOOK_S)
        self._peers = Peers(
            settings.url,
            lambda: looking.group(settings.group_id),
            lambda: self._config_topic.snapshot,
            lambda: self._leader.is_leading,
        )
        self._lifeline = Lifeline(
            lambda: settings.url in self._peers.roster(),
            config.session_timeout_ms / 1000,
            on_lost=lambda: self._supervisor.cut_off(True),
            on_back=lambda: self._supervisor.cut_off(False),
        )
        self._attendance = Attendance(self._writer, settings.url, settings.incarnation, self._stopping)
        self._rounds = FencingRounds(
            settings.group_id,
            self._leader,
            lambda: self._read_config(_READ_S),
            self._fencing_conf,
            self._departures.wait_for,
            lambda snapshot, connector: type_of(snapshot, connector) is ConnectorType.SOURCE,
        )
        self._line = LeaderLine(
            LocalLeader(self._store_tasks, self._rounds.fence, lambda: self._leader.is_leading),
            self._peers,
            config.signature_algorithm,
            self._config_topic.read_to_end,
        )

    def _build_tasks(self) -> None:
        settings, config = self.settings, self.settings.config
        self._totals = TaskTotals()
        self._board = StatusBoard(
            self._status_topic,
            settings.worker_id,
            self._assignment_generation,
            tracks_topics=config.topic_tracking_enable,
            version=__version__,
        )
        self._admissions = Admissions(settings, self._read_config, lambda task: self._supervisor.handle(task))
        self._copying = OffsetCopying(self._admissions.topics, self._copies, lambda task: self._supervisor.starts(task))
        preparation = Preparation(settings, self._line.fence, self._read_config, self._stopping)
        self._supervisor = TaskSupervisor(
            settings,
            preparation,
            self._host_of,
            self._board,
            self._totals,
            self._departures,
            self._say_stopped,
            self._lock_out,
        )
        self._connectors = ConnectorHost(
            settings,
            lambda name: registry().find("connector", name),
            self._line.put_task_configs,
            self._board,
            self._committed_offsets,
        )
        self._housekeeping = Housekeeping(self._keep_house)

    def _build_spark(self) -> None:
        config = self.settings.config
        self._spark: SparkRuntime | None = None
        self._ledger = CoreLedger(0, reserved=1)
        self._slots = SlotPool(
            self._supervisor,
            self._ledger,
            lambda: self._channel.url,
            lease_s=config.slot_lease_ms / 1000,
            max_slots=config.slots_max or max(2, os.cpu_count() or 2),
            log_level=logging.getLevelName(logging.getLogger().getEffectiveLevel()),
        )
        self._frames = DataFrameHost(
            self._supervisor,
            self._ledger,
            self._admissions,
            self._connector_of,
            lambda: self._channel.url,
            self._copying,
        )
        self._channel = ChannelServer(
            self._driver.secret.encode(),
            {
                "/slot/register": self._slots.register,
                "/slot/directives": self._slots.directives,
                "/slot/report": self._slots.report,
                "/task/admit": self._admissions.admit,
                "/task/copy": self._copying.handle,
                **self._frames.handlers(),
            },
            host=config.channel_host,
            tls=_channel_tls(config),
        )

    def _build_operations(self) -> WorkerOperations:
        figures = WorkerFigures(
            is_leader=lambda: self._leader.is_leading,
            connectors=self._connectors.count,
            tasks=self._supervisor.count,
            connector_startups=lambda: self._connectors.startups,
        )
        metrics = WorkerMetrics(lambda: self._config_topic.snapshot, self._status_topic.table, self._totals, figures)
        return WorkerOperations(
            self.settings,
            self._config_topic,
            self._status_topic,
            self._writer,
            self._leader,
            peers=self._peers,
            stages=self.stages,
            cluster_id=lambda: self._cluster_id,
            fence=self._rounds.fence,
            restart_connector=self._connectors.restart,
            restart_task=self._supervisor.restart,
            metrics=metrics.text,
            offsets=OffsetChanges(
                self.settings,
                self._admissions.topics,
                OffsetWriting(self.settings, self._copies, now_ms),
                self._connector_of,
                self._rounds.fence,
                self._departures.wait_for,
            ),
        )

    # coming up

    def _come_up(self) -> None:
        try:
            self._patiently("connecting to Kafka", self._connect)  # 2
            threading.Thread(target=self._keep_up_with_offsets, name="offsets", daemon=True).start()
            with self.stages.doing("joining the group"):
                self._membership.start()  # 4, beside 3: whoever leads decides only after that
            self._read_topics()  # 3
            self._patiently("fencing what this worker's predecessor held", self._fence_predecessor)  # 5
            self._patiently("announcing this worker", lambda: self._attendance.announce(self._newest_here()))
            self._leader.wake()
            self._supervisor.start()
            self._connectors.start()
            self._lifeline.start()
            self._housekeeping.start()
            self.stages.is_started = True
            self._take_work(self._config_topic.snapshot)  # 6
            self._is_ready.set()
            log.info("worker %s is ready", self.settings.worker_id)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Have the worker end: it cannot start, or not go on."""
        if not self._stopping.is_set():
            log.error("the worker %s: %s", "has to end" if self.stages.is_started else "cannot start", error)
            self._error = self._error or error
            self._is_ready.set()

    def _newest_here(self) -> str | None:
        """Return the newest incarnation that has announced itself at this worker's address."""
        return self._config_topic.snapshot.incarnations.get(self.settings.url)

    def _patiently(self, stage: str, act: Callable[[], object]) -> None:
        """Do it, as often as it takes while Kafka cannot be reached; the log and /health say so."""
        with self.stages.doing(stage):
            while not self._stopping.is_set():
                try:
                    act()
                    return
                except KafkaUnavailableError as error:
                    log.warning("%s: %s; trying again", stage, error)
                    self._stopping.wait(_RETRY_S)

    def _keep_up_with_offsets(self) -> None:
        """So that a task that starts here, perhaps after its last worker was lost, waits for no old offsets."""
        while True:
            try:
                self._admissions.topics.catch_up(_READ_S)
            except Exception as error:  # whoever needs them tries again, and tells
                log.debug("offsets: %s", error)
            self._has_offsets.set()
            if self._stopping.wait(_KEEP_UP_S):
                return

    def _connect(self) -> None:
        self._cluster_id = self._admin.cluster_id()
        try:
            ensure_internal_topics(self._admin, self.settings.config)
        except ReplicationError as error:
            self._brokers_by = self._brokers_by or time.monotonic() + _BROKERS_S
            if time.monotonic() > self._brokers_by:
                raise
            raise KafkaUnavailableError(
                f"{error} Brokers may be coming up: waiting {_BROKERS_S:g} s for them"
            ) from error

    def _read_topics(self) -> None:
        """Read both topics at once."""
        reading = "reading to the end of internal topics"
        with ThreadPoolExecutor(1) as beside:
            statuses = beside.submit(self._patiently, reading, partial(self._status_topic.start, _READ_S))
            self._patiently(reading, partial(self._config_topic.start, _READ_S))
            self._leader.start()
            statuses.result()

    def _fence_predecessor(self) -> None:
        """End what a killed incarnation at this address left open: readers of the offsets topic would wait for it.

        Before this one announces itself: nobody is given those tasks until then.
        """
        snapshot = self._config_topic.snapshot
        if snapshot.assignment is None:
            return
        held = {
            task
            for worker in snapshot.assignment.workers
            if worker.url == self.settings.url and worker.incarnation != self.settings.incarnation
            for task in worker.tasks
        }
        self._fence_lost(snapshot, held)

    def _fence_lost(self, snapshot: ClusterSnapshot, tasks: Collection[TaskId]) -> None:
        """End what these tasks may have open, paused ones too: readers of the offsets topic would wait for it."""
        if self.settings.config.exactly_once is ExactlyOnceSource.DISABLED:
            return
        confs: dict[str, ConfOf] = {}
        for task in tasks:
            try:
                conf_of = self._fencing_conf(snapshot, task.connector)
            except ConfigError as error:  # e.g. what Java would take: its tasks cannot run here, others can
                log.warning("tasks of connector %s are not fenced: %s", task.connector, error)
                continue
            confs |= dict.fromkeys(task_transactional_ids(self.settings.group_id, *task), conf_of)
        try:
            fence(confs, lambda transactional_id: confs[transactional_id](transactional_id), _FENCE_S)
        except WriterOpenError as error:
            log.warning("not all that a lost worker held is fenced; the starts of its tasks fence it: %s", error)

    def _lock_out(self, spec: TaskSpec) -> None:
        """End what a start of a task has left open, on a connector that is stopped or gone."""
        ids = task_transactional_ids(self.settings.group_id, spec.connector, spec.task)
        try:
            fence(ids, lambda transactional_id: spec.producer_conf, _LOCK_OUT_S)
        except WriterOpenError as error:
            log.warning("task %s may have left a transaction open: %s", spec.id, error)

    def _run_spark(self) -> None:
        """Start Spark, and again whenever it goes."""
        while not self._stopping.is_set():
            gone = threading.Event()
            runtime = SparkRuntime(
                self.settings.config.spark, secrets=self._driver.secrets, on_line=say_line, jvm=self._driver.take()
            )
            runtime.on_exit(partial(_gone, gone))
            try:
                runtime.start()
            except SparkError as error:
                log.error("%s", error)
                self._stopping.wait(_RESTART_SPARK_S)
                continue
            self._use_spark(runtime)
            self._stay_with_spark(runtime, gone)
            self._slots.attach(None)
            if not self._stopping.is_set():
                self._frames.attach(None)
                runtime.stop()
                self._stopping.wait(_RESTART_SPARK_S)

    def _use_spark(self, runtime: SparkRuntime) -> None:
        """Slots first: they need no session, and making one would take the cores from them."""
        self._spark = runtime
        self._ledger.set_total(runtime.cores)
        self._slots.attach(SlotJobs(runtime, run_slot, self._slots.job_ended))
        self._slots.prepare(is_full=self._takes_over())
        self._frames.attach(runtime)

    def _takes_over(self) -> bool:
        """Say whether tasks may come that run elsewhere now; such a task pauses while it waits for a slot here."""
        assignment = self._config_topic.snapshot.assignment
        return any(w.tasks and w.url != self.settings.url for w in (assignment.workers if assignment else ()))

    def _stay_with_spark(self, runtime: SparkRuntime, gone: threading.Event) -> None:
        """Return when Spark has gone, or the worker goes. In between, say that there is room, and make a session.

        Tasks that move here wait for nothing more than their own start: slots are there before they are asked for,
        and the session, seconds of processor time, is made when no more of them start (a DataFrame does not wait for
        that).
        """
        began_s, ready_s = time.monotonic(), None
        is_session_due = True
        while not gone.is_set() and not self._stopping.is_set():
            now_s = time.monotonic()
            if ready_s is None:
                is_there = self._slots.wait_until_there(_TICK_S) and self._has_offsets.wait(_TICK_S)
                if is_there or now_s > began_s + _SLOTS_S:
                    ready_s = now_s
                    self._attendance.be_ready()
            elif is_session_due and now_s > min(
                max(ready_s, self._supervisor.began_last_s) + _SESSION_AFTER_S, ready_s + _SESSION_BY_S
            ):
                is_session_due = False
                self._make_session(runtime)
            else:
                gone.wait(_TICK_S)

    def _make_session(self, runtime: SparkRuntime) -> None:
        """For the first DataFrame; where one runs already, it has made it."""
        try:
            _ = runtime.session
        except Exception as error:  # Spark has gone, or goes: the caller sees to that
            log.log(
                logging.DEBUG if self._stopping.is_set() else logging.WARNING,
                "Spark's session: %s",
                str(error).partition("\n")[0],
            )

    # glue

    def _changed(self, old: ClusterSnapshot, new: ClusterSnapshot, changes: Sequence[Change]) -> None:
        if not self.stages.is_started:
            return
        self._departures.changed(old, new)
        for change in changes:
            if isinstance(change, TasksStopped):
                self._departures.ended(change.incarnation, change.tasks)
        if any(isinstance(c, ConnectorConfigRemoved | TaskConfigsUpdated) for c in changes):
            self._forget_vanished(new)  # before a connector of the same name says something
        if self._leader.is_leading and new.assignment is not None and new.assignment is not old.assignment:
            before = old.assignment.waiting if old.assignment is not None else ()
            self._board.waiting([each for each in new.assignment.waiting if each not in before])
        self._take_work(new)
        for change in changes:
            if isinstance(change, RestartRequested):
                self._restart(change)
            elif isinstance(change, LoggerLevelSet) and change.level in LEVELS:
                loggers.set_level(change.namespace, change.level, now_ms())

    def _take_work(self, snapshot: ClusterSnapshot) -> None:
        self._supervisor.changed(snapshot)
        self._connectors.changed(snapshot)
        self._leader.wake()

    def _restart(self, request: RestartRequested) -> None:
        snapshot = self._config_topic.snapshot
        mine = snapshot.assignment.of(self.settings.incarnation) if snapshot.assignment else None
        if mine is None:
            return
        table = self._status_topic.table
        plan = plan_restart(request, table.status(request.connector), table.tasks(request.connector))
        if plan.is_connector_restarted and request.connector in mine.connectors:
            self._connectors.restart(request.connector)
        for number in plan.tasks:
            if TaskId(request.connector, number) in mine.tasks:
                self._supervisor.restart(TaskId(request.connector, number))

    def _say_stopped(self, starts: list[Start]) -> None:
        """Nobody waits for it where this is the only worker."""
        assignment = self._config_topic.snapshot.assignment
        if assignment is not None and len(assignment.workers) > 1:
            self._attendance.say_stopped(starts)

    def _assignment_generation(self) -> int:
        assignment = self._config_topic.snapshot.assignment
        return assignment.generation if assignment else 0

    def _store_tasks(self, connector: str, configs: Sequence[Any]) -> "Future[ClusterSnapshot]":
        return self._leader.submit(PutTaskConfigs(connector, configs, self.settings.is_exactly_once))

    def _fencing_conf(self, snapshot: ClusterSnapshot, connector: str) -> ConfOf:
        conf = self.settings.fencing_conf(snapshot.connectors.get(connector, {}))
        return lambda transactional_id: conf

    def _host_of(self, connector_class: str) -> TaskHost:
        return self._frames if getattr(self._connector_of(connector_class), "is_dataframe", False) else self._slots

    def _connector_of(self, connector_class: str) -> type[Any]:
        return registry().find("connector", connector_class)

    def _committed_offsets(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        view = self._admissions.view(self._config_topic.read_to_end(_READ_S), connector, may_be_missing=True)
        return [(dict(partition or {}), dict(offset)) for partition, offset in view.offsets]

    def _keep_house(self) -> None:
        """Every second: leases of slots, room for tasks, statuses of what is no more."""
        self._lifeline.judge()  # first: whose tasks are they, if this process was paused and its slots with it
        self._slots.check_leases()
        if self._spark is not None and self._spark.is_alive:
            self._ledger.set_total(self._spark.cores)
        self._forget_vanished(self._config_topic.snapshot)

    def _forget_vanished(self, snapshot: ClusterSnapshot) -> None:
        """The leader tombstones what is said of connectors and tasks that are gone (contract A.8).

        Not one that stood still: it knows nothing of tasks that another leader has made since, and what it took away
        nobody would say again.
        """
        if not self._leader.is_leading or self._lifeline.is_overdue:
            return
        for subject in self._status_topic.table.subjects():
            is_known = snapshot.has_task(subject) if isinstance(subject, TaskId) else subject in snapshot.connectors
            if not is_known:
                self._status_topic.remove(subject)
        for connector in self._status_topic.table.connectors_with_topics():
            if connector not in snapshot.connectors:
                for topic in self._status_topic.table.topics(connector):
                    self._status_topic.remove_topic(connector, topic)
        self._totals.keep_only({t for c in snapshot.connectors for t in snapshot.tasks(c)})


def _channel_tls(config: WorkerConfig) -> ChannelTls | None:
    if config.channel_certificate is None or config.channel_key is None:
        return None
    return ChannelTls(config.channel_certificate, config.channel_key)


def _gone(gone: threading.Event, reason: str) -> None:
    log.error("%s", reason)
    gone.set()
