"""A whole worker in one process: its parts, its start and its end."""

import time
import uuid
from functools import partial

from fencepost.cluster.departure import Departures
from fencepost.cluster.tls import peer_context
from fencepost.config.errors import ConfigError, collected
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import read_plugin_path
from fencepost.plugin.secret_keys import hold_given_secrets
from fencepost.reference import providers_of
from fencepost.retention.clients import RetentionClients
from fencepost.retention.keeper import Retention
from fencepost.retention.reading import readings
from fencepost.telemetry import event_ring
from fencepost.worker.config_changes import ConfigChanges, Restarts
from fencepost.worker.connector_classes import ConnectorClasses, type_of_config, version_of
from fencepost.worker.declaration import Declaration, Declared
from fencepost.worker.file_limit import limit_files
from fencepost.worker.host.driver import Driver
from fencepost.worker.host.hosts import Hosts
from fencepost.worker.housekeeping import Housekeeping
from fencepost.worker.life import WorkerLife
from fencepost.worker.membership.late_client import LateClient
from fencepost.worker.membership.lifeline import Lifeline
from fencepost.worker.membership.membership import Membership
from fencepost.worker.membership.questions import Questions
from fencepost.worker.operation.cluster.probes import HealthCheck, Probes
from fencepost.worker.operation.metric.collector import WorkerFigures, WorkerMetrics
from fencepost.worker.operation.metric.exporter_names import ExporterFigures
from fencepost.worker.operation.observation.description import described
from fencepost.worker.operation.observation.figures import Figures
from fencepost.worker.operation.observation.logs import Logs
from fencepost.worker.operation.operations import worker_operations
from fencepost.worker.settings import WorkerSettings, known
from fencepost.worker.start_up import StartUp
from fencepost.worker.supervision.fence import TaskFence
from fencepost.worker.supervision.status_cleaner import StatusCleaner
from fencepost.worker.supervision.supervision import Supervision
from fencepost.worker.task_forecast import TaskForecast
from fencepost.worker.topics import WorkerTopics
from fencepost.worker.validation.chain import require_converters


class WorkerProcess:
    """A worker. `start` returns at once, and REST can be served; the rest starts in the background (`start_up.py`)."""

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
        life = self._life = WorkerLife()
        topics = self._topics = WorkerTopics(settings, life, lambda old, new, made: changes.changed(old, new, made))
        departures = Departures(config.task_shutdown_graceful_timeout_ms / 1000)
        fence, classes, http = TaskFence(settings), ConnectorClasses(), LateClient(peer_context(config))
        membership = self._membership = Membership(settings, topics, life, departures, fence, classes, http)
        supervision = self._supervision = Supervision(
            settings, topics, life, departures, fence, classes, membership.line, membership
        )
        forecast = TaskForecast(url, topics, supervision, membership.attendance)
        hosts = self._hosts = Hosts(config, driver, classes, supervision, forecast, life.stopping)
        lifeline = Lifeline(membership.is_member, config.session_timeout_ms / 1000, supervision.supervisor)
        cleaner = StatusCleaner(topics, supervision.totals, membership.leader, lifeline)
        restarts = Restarts(settings.incarnation, topics.status.table, supervision)
        changes = ConfigChanges(life.progress, departures, supervision, membership.leader, cleaner, restarts)
        questions = Questions(membership.peers, config.signature_algorithm, http)
        describe = partial(described, worker=config)
        figures = Figures(url, lambda: topics.snapshot, supervision.totals, hosts.slots.figures, questions, describe)
        housekeeping = _housekeeping(config, topics, membership, lifeline, hosts, cleaner, figures)
        self._start_up = StartUp(
            settings.worker_id, life, topics, membership, supervision, changes, lifeline, housekeeping
        )
        self._retention = _retention(settings, topics, membership, classes)
        metrics = _metrics(settings, topics, membership, supervision, hosts, self._retention)
        logs = Logs(url, lambda: topics.snapshot, event_ring.ring, questions, life.stopping)
        health = HealthCheck(topics.config, life.progress, hosts.spark, membership.leader)
        probes = Probes(health, metrics.text, figures, logs)
        self.operations = worker_operations(
            settings, topics, life, membership, supervision, departures, self._retention, probes
        )
        self._declaration = Declaration(
            declared or Declared({}),
            self.operations.connectors.put_config,
            lambda: topics.snapshot,
            lambda: life.progress.is_started and membership.leader.is_leading,
            life.fail,
            life.stopping,
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
        return self._life.error

    def leave(self) -> None:
        """End all work and leave the group: tasks end as their boundaries decide, and statuses are written.

        REST must listen until this returns: a member of the group that refuses connections is taken for killed.
        """
        self._life.stopping.set()
        self._retention.stop()
        if self._life.progress.is_started:
            self._supervision.stop(is_replaced=self._life.error is not None)
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


def _retention(
    settings: WorkerSettings, topics: WorkerTopics, membership: Membership, classes: ConnectorClasses
) -> Retention:
    config = settings.config
    return Retention(
        config,
        config.offset_flush_interval_ms,
        RetentionClients(settings.admin_conf()),
        (config.config_storage_topic, config.offset_storage_topic, config.status_storage_topic),
        membership.leader,
        topics.config,
        lambda snapshot: readings(snapshot, settings, classes.is_source, partial(known, config)),
        settings.cluster_ids,
    )
