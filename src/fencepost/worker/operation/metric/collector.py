"""Metrics in Prometheus' text format, named after Kafka Connect's JMX beans.

`kafka.connect:type=source-task-metrics` attribute `source-record-poll-total` becomes
`kafka_connect_source_task_metrics_source_record_poll_total`, as the JMX exporter usually spells it. Beside a total
whose attribute begins with `total-` is a counter with that word at its end, as Prometheus wants it. Metrics that Kafka
Connect does not have begin with `fencepost_`, and those of any process with `process_`.

Dashboards of Kafka Connect read names that the exporter's usual rules give, which are those of Confluent's
jmx-monitoring-stacks. A text in JMX is a label there, and the value is 1. Newer exporters leave out `_info` and
`_total` at the end of what is no counter to them, so some names come twice.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from fencepost import KAFKA_CONNECT_VERSION
from fencepost.builtin.mirror.metric import KINDS, FigureKind
from fencepost.cluster.info import RetentionInfo
from fencepost.cluster.leader import Leader
from fencepost.config.file import stale_files
from fencepost.config.reference import RawConfig
from fencepost.hook.hosted_task import PLUGIN_FIGURES
from fencepost.kafka.group.member import MemberFigures
from fencepost.spark.session.jvm import JvmFigures
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import State, StatusTable
from fencepost.task.channel.message import QUERY_LAGS, TaskReport
from fencepost.worker.operation.metric.counters import (
    LAST,
    OF_PLAIN_SINKS,
    OF_QUERIES,
    OF_SINKS,
    OF_STREAMS,
    OF_TASKS,
    QUERIES_COUNTER,
    SINKS_COUNTER,
    SOURCE,
    STREAMS_COUNTER,
    TASKS,
    Value,
    counter,
)
from fencepost.worker.supervision.task_metrics import TaskTotals

_REBALANCES = "kafka_connect_connect_worker_rebalance_metrics"
_CLIENT = "kafka_connect_connect_metrics"
_CONNECTOR = "kafka_connect_connector_metrics"
_APP = "kafka_connect_app"
_RATE = "a second, over the last windows (metrics.sample.window.ms, metrics.num.samples)"
_OF_GROUP = "of the client with which this worker is a member of its group"


@dataclass(frozen=True)
class ExporterFigures:
    """What these metrics are made from. `client_id` is that of the worker's member in its group.

    `version_of(config)` returns the type of a connector and the version of its class, empty if it is not installed.
    """

    client_id: str = ""
    started_ms: int = 0
    version_of: Callable[[RawConfig], tuple[str, str]] = lambda _: ("unknown", "")
    member: Callable[[], MemberFigures] = MemberFigures
    jvm: Callable[[], JvmFigures | None] = field(default=lambda: None)


def of_connectors(texts: Iterable[tuple[str, Mapping[str, str]]]) -> Metric:
    """Return a sample for each attribute of each connector that is a text in JMX."""
    text = "1; the label beside the connector says its status, type, class or version."
    family = GaugeMetricFamily(_CONNECTOR, text)
    for name, attributes in texts:
        for attribute, value in attributes.items():
            family.add_sample(_CONNECTOR, {"connector": name, attribute: value}, 1)
    return family


def of_worker(figures: ExporterFigures) -> Iterator[Metric]:
    """Yield what is known of the worker as a program, a member of its group and the owner of a JVM."""
    yield from _app(figures)
    member = figures.member()
    yield from _rebalances(member)
    yield from _client(figures.client_id, member)
    yield from _jvm(figures.jvm())


def _app(figures: ExporterFigures) -> Iterator[Metric]:
    text = "1; the label beside the client says the Kafka Connect whose API this is, or when the worker started."
    for name in (_APP, f"{_APP}_info"):
        family = GaugeMetricFamily(name, text)
        for label, value in (("version", KAFKA_CONNECT_VERSION), ("start_time_ms", str(figures.started_ms))):
            family.add_sample(name, {"client_id": figures.client_id, label: value}, 1)
        yield family


def _rebalances(member: MemberFigures) -> Iterator[Metric]:
    name, text = f"{_REBALANCES}_completed_rebalances", "Rebalances of the workers' group that this worker has been in"
    yield CounterMetricFamily(name, f"{text}.", member.rebalances)
    yield GaugeMetricFamily(name, f"{text}; the name that newer JMX exporters give the total.", member.rebalances)
    if member.since_last_s is not None:
        yield GaugeMetricFamily(
            f"{_REBALANCES}_time_since_last_rebalance_ms",
            "The time since the last rebalance of the workers' group, in milliseconds.",
            round(1000 * member.since_last_s),
        )
    exactly = "in milliseconds, since the worker started; known to a second"
    yield GaugeMetricFamily(
        f"{_REBALANCES}_rebalance_avg_time_ms",
        f"The mean of the rebalances of the workers' group, {exactly}.",
        1000 * member.rebalance_mean_s,
    )
    yield GaugeMetricFamily(
        f"{_REBALANCES}_rebalance_max_time_ms",
        f"The longest rebalance of the workers' group, {exactly}.",
        1000 * member.rebalance_max_s,
    )


def _client(client_id: str, member: MemberFigures) -> Iterator[Metric]:
    rates = member.rates
    values = {
        "connection_count": (f"Open connections {_OF_GROUP}.", float(member.connections)),
        "request_rate": (f"Requests {_OF_GROUP}, {_RATE}.", rates["tx"]),
        "response_rate": (f"Responses {_OF_GROUP}, {_RATE}.", rates["rx"]),
        "network_io_rate": (f"Requests and responses {_OF_GROUP}, {_RATE}.", rates["tx"] + rates["rx"]),
        "outgoing_byte_rate": (f"Bytes sent {_OF_GROUP}, {_RATE}.", rates["tx_bytes"]),
        "incoming_byte_rate": (f"Bytes received {_OF_GROUP}, {_RATE}.", rates["rx_bytes"]),
    }
    for attribute, (text, value) in values.items():
        family = GaugeMetricFamily(f"{_CLIENT}_{attribute}", text, labels=("client_id",))
        family.add_metric([client_id], value)
        yield family


def _jvm(jvm: JvmFigures | None) -> Iterator[Metric]:
    """Yield the names of old and new JMX exporters. They are of the JVM of Spark's driver, which moves no records."""
    found = jvm or JvmFigures({}, {}, {})
    for names, text, values in (
        (("jvm_memory_bytes_used", "jvm_memory_used_bytes"), "Memory in use in Spark's JVM, in bytes.", found.used),
        (("jvm_memory_bytes_max", "jvm_memory_max_bytes"), "The most memory that Spark's JVM takes.", found.maximum),
    ):
        for name in names:
            family = GaugeMetricFamily(name, text, labels=("area",))
            for area, value in values.items():
                family.add_metric([area], value)
            yield family
    summary = SummaryMetricFamily(
        "jvm_gc_collection_seconds", "Garbage collections of Spark's JVM, in seconds.", labels=("gc",)
    )
    for name, (count, total_s) in found.collections.items():
        summary.add_metric([name], count, total_s)
    yield summary


_TASK = ("connector", "task")
_STATES = (State.RUNNING, State.PAUSED, State.FAILED, State.UNASSIGNED, State.DESTROYED, State.RESTARTING)
_NO_PROCESS = -1
_PLUGINS = FigureKind(
    "fencepost_plugin",
    ("metric", "tags"),
    {"value": "A metric that a plug-in of a Java connector's task has registered (KIP-877)."},
)
_QUERY_LAGS = FigureKind(
    "fencepost_query_task",
    ("topic",),
    {"topic_lag": "Records of the topic that the query has not read yet, of all partitions."},
)
_WORKER = "kafka_connect_connect_worker_metrics"


@dataclass(frozen=True)
class WorkerFigures:
    """Values that only the worker process knows, read at every scrape."""

    leader: Leader
    connectors: Callable[[], int]
    tasks: Callable[[], int]
    connector_startups: Callable[[], dict[str, int]]
    jvm_pid: Callable[[], int | None]
    ended_by_signal: Callable[[], Mapping[str, int]]
    retention: Callable[[], RetentionInfo]
    connector_figures: Callable[[], Mapping[str, Sequence[Sequence[str | float]]]] = dict
    """Metrics of PostgresSource, and those that Java connectors have registered, by connector: name, tags, value."""


class WorkerMetrics(Collector):
    """Collects on demand from the snapshot, the status table and the reports of tasks."""

    def __init__(
        self,
        snapshot: Callable[[], ClusterSnapshot],
        statuses: StatusTable,
        totals: TaskTotals,
        figures: WorkerFigures,
        exporter: ExporterFigures | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._statuses = statuses
        self._totals = totals
        self._figures = figures
        self._exporter = exporter or ExporterFigures()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        ProcessCollector("fencepost_spark_jvm", lambda: figures.jvm_pid() or _NO_PROCESS, registry=self._registry)

    def text(self) -> bytes:
        """Return the page for `GET /metrics`."""
        return generate_latest(self._registry)

    def families(self) -> Iterable[Metric]:
        """Return all metrics of the page."""
        return self._registry.collect()

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        reports = self._totals.reports().values()
        yield from self._connectors()
        yield from _of_tasks(reports)
        yield from _measured(reports)
        yield from self._of_java_connectors()
        yield from self._worker()
        yield from of_worker(self._exporter)
        yield from _emptied(self._figures.retention())

    def _connectors(self) -> Iterator[Metric]:
        info = GaugeMetricFamily(
            "kafka_connect_connector_metrics_status",
            "1 for the state that the connector is in.",
            labels=("connector", "status", "connector_class"),
        )
        counts = {
            state: _of_connector(f"{state.value.lower()}_task_count", f"Tasks of the connector in state {state.value}.")
            for state in _STATES
        }
        total = _of_connector("total_task_count", "Tasks of the connector, on any worker.")
        remarks = _metric(
            "fencepost_connector_has_remark",
            "1 if the connector runs with a problem, which its status describes as its trace.",
            ("connector",),
        )
        for name, config in self._snapshot().connectors.items():
            status = self._statuses.status(name)
            tasks = self._statuses.tasks(name).values()
            if status is not None:
                info.add_metric([name, status.state.value.lower(), str(config.get("connector.class"))], 1)
                has_remark = status.state is State.RUNNING and status.trace is not None
                remarks.add_metric([name], float(has_remark))
            total.add_metric([name], len(tasks))
            for state, family in counts.items():
                family.add_metric([name], sum(t.state is state for t in tasks))
        yield from (info, of_connectors(self._texts()), total, *counts.values(), remarks)

    def _texts(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield what is text of each connector in JMX."""
        for name, config in self._snapshot().connectors.items():
            kind, version = self._exporter.version_of(config)
            texts = {
                "connector_type": kind,
                "connector_version": version,
                "connector_class": config.get("connector.class") or "",
            }
            status = self._statuses.status(name)
            yield name, texts if status is None else {"status": status.state.value.lower(), **texts}

    def _of_java_connectors(self) -> Iterator[Metric]:
        text = "A metric of a connector: of the slot of a PostgresSource, or registered by a Java plug-in (KIP-877)."
        family = _metric(f"{_PLUGINS.prefix}_connector_value", text, ("connector", *_PLUGINS.labels))
        for connector, rows in self._figures.connector_figures().items():
            for labels, (value,) in _rows(rows, _PLUGINS):
                family.add_metric([connector, *labels], value)
        yield family

    def _worker(self) -> Iterator[Metric]:
        startups = {"connector": self._figures.connector_startups(), "task": self._totals.startups}
        yield _single(f"{_WORKER}_connector_count", "Connectors on this worker.", self._figures.connectors())
        yield _single(f"{_WORKER}_task_count", "Tasks on this worker.", self._figures.tasks())
        for kind, counted in startups.items():
            yield from _startups(kind, counted)
        yield _single(
            "kafka_connect_connect_worker_rebalance_metrics_is_leader",
            "1 if this worker leads, else 0.",
            float(self._figures.leader.is_leading),
        )
        yield _single(
            "fencepost_leader_refused",
            "1 if this worker leads and cannot write an assignment, so that nothing moves: GET /health says why.",
            float(self._figures.leader.refusal is not None),
        )
        yield _single(
            "fencepost_stale_files",
            "Files of roles, users or certificates that were changed and cannot be used: GET /health names them.",
            len(stale_files()),
        )
        yield _restarts({kind: counted["restarts"] for kind, counted in startups.items()})
        ended = _metric(
            "fencepost_processes_ended_by_signal_total",
            "Processes of slots and splits that a signal ended; SIGKILL also counts those that ended without a trace.",
            ("signal",),
        )
        for name, count in self._figures.ended_by_signal().items():
            ended.add_metric([name], count)
        yield ended


def _of_tasks(reports: Collection[TaskReport]) -> Iterator[Metric]:
    status = GaugeMetricFamily(
        f"{TASKS}_status", "1 for the state that the task is in, on this worker.", labels=(*_TASK, "status")
    )
    for report in reports:
        status.add_metric([report.connector, str(report.task), report.state.lower()], 1)
    yield status
    sinks = [report for report in reports if SINKS_COUNTER in report.counters]
    sources = [report for report in reports if SINKS_COUNTER not in report.counters]
    for name, text, value in OF_TASKS:
        yield _family(name, text, value, sources if name.startswith(SOURCE) else reports)
    for name, text, value in OF_SINKS:
        yield _family(name, text, value, sinks)
    streams = [report for report in sinks if STREAMS_COUNTER in report.counters]
    plain = [report for report in sinks if STREAMS_COUNTER not in report.counters]
    for name, text, value in OF_PLAIN_SINKS:
        yield _family(name, text, value, plain)
    for name, text, value in OF_STREAMS:
        yield _family(name, text, value, streams)
    for name, text, value in OF_QUERIES:
        yield _family(name, text, value, [report for report in streams if QUERIES_COUNTER in report.counters])
    for name, text, key in LAST:
        running = [r for r in reports if r.state == State.RUNNING.value and r.counters.get(key)]
        yield _family(name, text, counter(key), running)


def _measured(reports: Iterable[TaskReport]) -> Iterator[Metric]:
    found = [(report, orjson.loads(report.figures)) for report in reports if report.figures]
    for name, kind in {**KINDS, PLUGIN_FIGURES: _PLUGINS, QUERY_LAGS: _QUERY_LAGS}.items():
        families = [
            _metric(f"{kind.prefix}_{value}", text, (*_TASK, *kind.labels)) for value, text in kind.values.items()
        ]
        for report, figures in found:
            own = (report.connector, str(report.task))
            rows = figures.get(name) if isinstance(figures, dict) else None
            for labels, values in _rows(rows, kind):
                for family, value in zip(families, values, strict=True):
                    family.add_metric([*own, *labels], value)
        yield from families


def _rows(rows: Any, kind: FigureKind) -> Iterator[tuple[list[str], list[float]]]:
    """Yield labels and values of the rows of a kind; malformed rows of an author's task are skipped."""
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, list) and len(row) == len(kind.labels) + len(kind.values):
            labels, values = row[: len(kind.labels)], row[len(kind.labels) :]
            if all(isinstance(each, str) for each in labels) and all(isinstance(each, int | float) for each in values):
                yield labels, values


_EMPTIED = "fencepost_retention"


def _emptied(info: RetentionInfo) -> Iterator[Metric]:
    """Yield what a leader knows about topics that are emptied after sinks' commits (KIP-762)."""
    deleted = _metric(f"{_EMPTIED}_deleted_offsets_total", "Offsets deleted since this worker leads.", ("topic",))
    held = _metric(
        f"{_EMPTIED}_held_offsets",
        "Offsets of the topic, from the beginning of its logs, that could not be deleted by the last decision.",
        ("topic",),
    )
    refused = _metric(
        f"{_EMPTIED}_refused", "1 if nothing of the topic may be deleted: GET /retention says why.", ("topic",)
    )
    failed = _metric(f"{_EMPTIED}_failed", "1 if Kafka refused the last deletion.", ("topic",))
    for each in info.topics:
        deleted.add_metric([each.topic], each.deleted)
        left = [p.end - (p.start if each.refusal else p.until) for p in each.partitions]
        held.add_metric([each.topic], sum(left))
        refused.add_metric([each.topic], float(each.refusal is not None))
        failed.add_metric([each.topic], float(each.error is not None))
    yield from (deleted, held, refused, failed)
    at_s = 0.0 if info.decided_ms is None else info.decided_ms / 1000
    text = "When the last decision on what to delete was made, in seconds since 1970; 0: never, or not here."
    yield _single(f"{_EMPTIED}_decided_timestamp_seconds", text, at_s)


def _startups(kind: str, counted: dict[str, int]) -> Iterator[Metric]:
    name, whole = f"{_WORKER}_{kind}_startup", f"Starts of {kind}s on this worker"
    done = counted["successes"] + counted["failures"]
    yield _single(f"{name}_attempts_total", f"{whole}.", counted["attempts"])
    yield _single(f"{name}_success_total", f"{whole} that succeeded.", counted["successes"])
    yield _single(f"{name}_failure_total", f"{whole} that failed.", counted["failures"])
    for attribute, part in (("success", "successes"), ("failure", "failures")):
        text = f"{whole}: the share that {'succeeded' if attribute == 'success' else 'failed'}, from 0 to 1."
        yield _single(f"{name}_{attribute}_percentage", text, counted[part] / done if done else 0.0)


def _restarts(counted: Mapping[str, int]) -> Metric:
    text = "Automatic restarts on this worker of failed connectors and tasks (errors.restart.enabled)."
    family = _metric("fencepost_automatic_restarts_total", text, ("kind",))
    for kind, count in counted.items():
        family.add_metric([kind], count)
    return family


def _of_connector(attribute: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_WORKER}_connector_{attribute}", text, labels=("connector",))


def _metric(name: str, text: str, labels: tuple[str, ...]) -> CounterMetricFamily | GaugeMetricFamily:
    """Return an empty family: a total is a counter, anything else a gauge."""
    return (CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily)(name, text, labels=labels)


def _single(name: str, text: str, value: float) -> Metric:
    family = _metric(name, text, ())
    family.add_metric([], value)
    return family


def _family(name: str, text: str, value: Value, reports: Iterable[TaskReport]) -> Metric:
    family = _metric(name, text, _TASK)
    for report in reports:
        family.add_metric([report.connector, str(report.task)], value(report.counters))
    return family
