"""Metrics in Prometheus' text format, named after Kafka Connect's JMX beans (contract A.11).

`kafka.connect:type=source-task-metrics` attribute `source-record-poll-total` becomes
`kafka_connect_source_task_metrics_source_record_poll_total`, the usual spelling of the JMX exporter.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import State, StatusTable
from fencepost.task.spec import TaskReport
from fencepost.worker.supervision.task_metrics import TaskTotals

_TASK = ("connector", "task")
_STATES = (State.RUNNING, State.PAUSED, State.FAILED, State.UNASSIGNED, State.DESTROYED, State.RESTARTING)

Value = Callable[[dict[str, float]], float]


def _of(name: str) -> Value:
    return lambda c: c.get(name, 0.0)


def _ratio(part: str, whole: str, scale: float = 1.0) -> Value:
    return lambda c: scale * c.get(part, 0.0) / c[whole] if c.get(whole) else 0.0


_FROM_COUNTERS: tuple[tuple[str, str, Value], ...] = (
    ("source_task_metrics", "source_record_poll_total", _of("records_polled")),
    ("source_task_metrics", "source_record_write_total", _of("records_written")),
    ("source_task_metrics", "source_record_active_count", _of("active_records")),
    ("source_task_metrics", "poll_batch_max_time_ms", lambda c: 1000 * c.get("poll_time_max_s", 0.0)),
    ("source_task_metrics", "poll_batch_avg_time_ms", _ratio("poll_time_total_s", "batches", 1000)),
    ("source_task_metrics", "transaction_size_min", _of("transaction_size_min")),
    ("source_task_metrics", "transaction_size_max", _of("transaction_size_max")),
    ("source_task_metrics", "transaction_size_avg", _ratio("transaction_size_total", "commits")),
    ("connector_task_metrics", "batch_size_max", _of("batch_size_max")),
    ("connector_task_metrics", "batch_size_avg", _ratio("records_polled", "batches")),
    ("connector_task_metrics", "offset_commit_max_time_ms", lambda c: 1000 * c.get("commit_time_max_s", 0.0)),
    ("connector_task_metrics", "offset_commit_avg_time_ms", _ratio("commit_time_total_s", "commits", 1000)),
    (
        "connector_task_metrics",
        "offset_commit_failure_percentage",
        lambda c: _share(c.get("commit_failures", 0.0), c.get("commits", 0.0)),
    ),
    (
        "connector_task_metrics",
        "offset_commit_success_percentage",
        lambda c: _share(c.get("commits", 0.0), c.get("commit_failures", 0.0)),
    ),
    ("task_error_metrics", "total_record_failures", _of("error_failures")),
    ("task_error_metrics", "total_record_errors", _of("error_errors")),
    ("task_error_metrics", "total_records_skipped", _of("error_skipped")),
    ("task_error_metrics", "total_retries", _of("error_retries")),
    ("task_error_metrics", "total_errors_logged", _of("error_logged")),
    ("task_error_metrics", "last_error_timestamp", _of("error_last_error_ms")),
)


def _share(part: float, other: float) -> float:
    return part / (part + other) if part + other else 0.0


@dataclass(frozen=True)
class WorkerFigures:
    """What only the worker process knows, asked for at every scrape."""

    is_leader: Callable[[], bool]
    connectors: Callable[[], int]
    tasks: Callable[[], int]
    connector_startups: Callable[[], dict[str, int]]


class WorkerMetrics(Collector):
    """Collects on demand from the snapshot, the status table and the reports of tasks."""

    def __init__(
        self,
        snapshot: Callable[[], ClusterSnapshot],
        statuses: StatusTable,
        totals: TaskTotals,
        figures: WorkerFigures,
    ) -> None:
        self._snapshot = snapshot
        self._statuses = statuses
        self._totals = totals
        self._figures = figures
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """Return the page for `GET /metrics`."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from self._connectors()
        yield from self._tasks()
        yield from self._worker()

    def _connectors(self) -> Iterator[Metric]:
        info = _gauge("connector_metrics", "status", ("connector", "status", "connector_class"), "1 for the state")
        counts = {s: _of_connector(f"{s.value.lower()}_task_count") for s in _STATES}
        total = _of_connector("total_task_count")
        for name, config in self._snapshot().connectors.items():
            status = self._statuses.status(name)
            tasks = self._statuses.tasks(name).values()
            if status is not None:
                info.add_metric([name, status.state.value.lower(), str(config.get("connector.class"))], 1)
            total.add_metric([name], len(tasks))
            for state, family in counts.items():
                family.add_metric([name], sum(t.state is state for t in tasks))
        yield from (info, total, *counts.values())

    def _tasks(self) -> Iterator[Metric]:
        reports = self._totals.reports().values()
        status = _gauge("connector_task_metrics", "status", (*_TASK, "status"), "1 for the state")
        for report in reports:
            status.add_metric([report.connector, str(report.task), report.state.lower()], 1)
        yield status
        for bean, attribute, value in _FROM_COUNTERS:
            yield _family(bean, attribute, value, reports)

    def _worker(self) -> Iterator[Metric]:
        connectors = self._figures.connector_startups()
        tasks = {
            "attempts": self._totals.attempts,
            "successes": self._totals.successes,
            "failures": self._totals.failures,
        }
        yield _single("connector_count", self._figures.connectors())
        yield _single("task_count", self._figures.tasks())
        for kind, counted in (("connector", connectors), ("task", tasks)):
            done = counted["successes"] + counted["failures"]
            yield _single(f"{kind}_startup_attempts_total", counted["attempts"])
            yield _single(f"{kind}_startup_success_total", counted["successes"])
            yield _single(f"{kind}_startup_failure_total", counted["failures"])
            yield _single(f"{kind}_startup_success_percentage", counted["successes"] / done if done else 0.0)
            yield _single(f"{kind}_startup_failure_percentage", counted["failures"] / done if done else 0.0)
        leader = _gauge("connect_worker_rebalance_metrics", "is_leader", ())
        leader.add_metric([], float(self._figures.is_leader()))
        yield leader


def _gauge(bean: str, attribute: str, labels: tuple[str, ...], text: str = "") -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kafka_connect_{bean}_{attribute}", text or f"{attribute} of {bean}", labels=labels)


def _of_connector(attribute: str) -> GaugeMetricFamily:
    return _gauge("connect_worker_metrics", f"connector_{attribute}", ("connector",))


def _single(attribute: str, value: float) -> GaugeMetricFamily:
    family = _gauge("connect_worker_metrics", attribute, ())
    family.add_metric([], value)
    return family


def _family(bean: str, attribute: str, value: Value, reports: Iterable[TaskReport]) -> GaugeMetricFamily:
    family = _gauge(bean, attribute, _TASK)
    for report in reports:
        family.add_metric([report.connector, str(report.task)], value(dict(report.counters)))
    return family
