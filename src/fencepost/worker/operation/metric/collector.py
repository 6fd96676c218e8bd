"""Metrics in Prometheus' text format, named after Kafka Connect's JMX beans.

`kafka.connect:type=source-task-metrics` attribute `source-record-poll-total` becomes
`kafka_connect_source_task_metrics_source_record_poll_total`, as the JMX exporter usually spells it. A total whose
attribute begins with `total-` has that word at its end, as Prometheus requires. Metrics that Kafka Connect does not
have
begin with `fencepost_`, and those of any process with `process_`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fencepost.cluster.info import RetentionInfo
from fencepost.mirror.metric.kinds import KINDS, FigureKind
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import State, StatusTable
from fencepost.task.channel.message import TaskReport
from fencepost.worker.supervision.task_metrics import TaskTotals

_TASK = ("connector", "task")
_STATES = (State.RUNNING, State.PAUSED, State.FAILED, State.UNASSIGNED, State.DESTROYED, State.RESTARTING)
_NO_PROCESS = -1

Value = Callable[[dict[str, float]], float]


def _of(name: str) -> Value:
    return lambda c: c.get(name, 0.0)


def _ratio(part: str, whole: str, scale: float = 1.0) -> Value:
    return lambda c: scale * c.get(part, 0.0) / c[whole] if c.get(whole) else 0.0


_SOURCE = "kafka_connect_source_task_metrics"
_SINK = "kafka_connect_sink_task_metrics"
_TASKS = "kafka_connect_connector_task_metrics"
_ERRORS = "kafka_connect_task_error_metrics"
_WORKER = "kafka_connect_connect_worker_metrics"
_SINCE = "since the task started"

# Name (a counter if it ends in _total), description with unit, and value.
_FROM_COUNTERS: tuple[tuple[str, str, Value], ...] = (
    (f"{_SOURCE}_source_record_poll_total", f"Records that polls returned, {_SINCE}.", _of("records_polled")),
    (
        f"{_SOURCE}_source_record_write_total",
        f"Records handed to Kafka, after transforms, {_SINCE}; aborted ones included.",
        _of("records_written"),
    ),
    (
        f"{_SOURCE}_source_record_active_count",
        "Records handed to Kafka and neither committed nor aborted yet.",
        _of("active_records"),
    ),
    (
        f"{_SOURCE}_poll_batch_max_time_ms",
        f"The longest poll that returned records, in milliseconds, {_SINCE}.",
        lambda c: 1000 * c.get("poll_time_max_s", 0.0),
    ),
    (
        f"{_SOURCE}_poll_batch_avg_time_ms",
        f"The mean of the polls that returned records, in milliseconds, {_SINCE}.",
        _ratio("poll_time_total_s", "batches", 1000),
    ),
    (
        f"{_SOURCE}_transaction_size_min",
        f"The smallest committed transaction, in records, {_SINCE}.",
        _of("transaction_size_min"),
    ),
    (
        f"{_SOURCE}_transaction_size_max",
        f"The largest committed transaction, in records, {_SINCE}.",
        _of("transaction_size_max"),
    ),
    (
        f"{_SOURCE}_transaction_size_avg",
        f"The mean of the committed transactions, in records, {_SINCE}.",
        _ratio("transaction_size_total", "commits"),
    ),
    (
        f"{_TASKS}_batch_size_max",
        f"The largest batch that a poll returned, in records, {_SINCE}.",
        _of("batch_size_max"),
    ),
    (
        f"{_TASKS}_batch_size_avg",
        f"The mean of the batches that polls returned, in records, {_SINCE}.",
        _ratio("records_polled", "batches"),
    ),
    (
        f"{_TASKS}_offset_commit_max_time_ms",
        f"The longest commit of offsets, in milliseconds, {_SINCE}.",
        lambda c: 1000 * c.get("commit_time_max_s", 0.0),
    ),
    (
        f"{_TASKS}_offset_commit_avg_time_ms",
        f"The mean of the commits of offsets, in milliseconds, {_SINCE}.",
        _ratio("commit_time_total_s", "commits", 1000),
    ),
    (
        f"{_TASKS}_offset_commit_failure_percentage",
        f"The share of commits of offsets that failed, from 0 to 1, {_SINCE}.",
        lambda c: _share(c.get("commit_failures", 0.0), c.get("commits", 0.0)),
    ),
    (
        f"{_TASKS}_offset_commit_success_percentage",
        f"The share of commits of offsets that succeeded, from 0 to 1, {_SINCE}.",
        lambda c: _share(c.get("commits", 0.0), c.get("commit_failures", 0.0)),
    ),
    (
        f"{_ERRORS}_record_failures_total",
        f"Failures of transforms and converters, {_SINCE}; one for each attempt.",
        _of("error_failures"),
    ),
    (f"{_ERRORS}_record_errors_total", f"Records that could not be processed, {_SINCE}.", _of("error_errors")),
    (
        f"{_ERRORS}_records_skipped_total",
        f"Records dropped because of errors.tolerance=all, {_SINCE}.",
        _of("error_skipped"),
    ),
    (f"{_ERRORS}_retries_total", f"Retries of operations after a passing error, {_SINCE}.", _of("error_retries")),
    (f"{_ERRORS}_errors_logged_total", f"Errors of records that were logged, {_SINCE}.", _of("error_logged")),
    (
        f"{_ERRORS}_deadletterqueue_produce_requests",
        f"Records written to the dead letter topic, {_SINCE}; refused ones included.",
        _of("error_dead_letters"),
    ),
    (
        f"{_ERRORS}_deadletterqueue_produce_failures",
        f"Records that the dead letter topic refused, {_SINCE}. For a source also those in a transaction that was "
        "not committed, or whose outcome is unknown.",
        _of("error_dead_letter_failures"),
    ),
    (
        f"{_ERRORS}_last_error_timestamp",
        "When a record last could not be processed, in milliseconds since 1970; 0: never.",
        _of("error_last_error_ms"),
    ),
)
_FROM_COUNTERS_OF_SINKS: tuple[tuple[str, str, Value], ...] = (
    (f"{_SINK}_sink_record_read_total", f"Records read from topics, {_SINCE}.", _of("records_polled")),
    (
        f"{_SINK}_sink_record_send_total",
        f"Records that put accepted, after transforms, {_SINCE}; again after a rewind. Of a stream: records written.",
        _of("records_written"),
    ),
    (
        f"{_SINK}_sink_record_lag_max",
        "Records between what put accepted and the end of the log, of the partition with the largest lag.",
        _of("lag_max"),
    ),
    (f"{_SINK}_partition_count", "Partitions that the group has assigned to the task.", _of("partition_count")),
    (
        f"{_SINK}_offset_commit_completion_total",
        f"Commits of offsets that succeeded, {_SINCE}.",
        _of("commits"),
    ),
    (
        f"{_SINK}_put_batch_max_time_ms",
        f"The longest put, in milliseconds, {_SINCE}.",
        lambda c: 1000 * c.get("poll_time_max_s", 0.0),
    ),
    (
        f"{_SINK}_put_batch_avg_time_ms",
        f"The mean of the puts, in milliseconds, {_SINCE}.",
        _ratio("poll_time_total_s", "batches", 1000),
    ),
)
_STREAM = "fencepost_stream_task"
_FROM_COUNTERS_OF_STREAMS: tuple[tuple[str, str, Value], ...] = (
    (
        f"{_STREAM}_fenced_producers_total",
        f"Producers of others that were fenced because they had partitions of the task's input, {_SINCE}.",
        _of("producers_fenced"),
    ),
    (
        f"{_STREAM}_is_waiting_for_offsets",
        "1 while the task waits for others' transactions with offsets of its input that cannot be fenced.",
        _of("is_waiting_for_offsets"),
    ),
    (
        f"{_STREAM}_record_write_total",
        f"Records that a stream's task has handed to Kafka, {_SINCE}; aborted ones included.",
        _of("records_written"),
    ),
    (
        f"{_STREAM}_record_active_count",
        "Records that a stream's task has handed to Kafka and neither committed nor aborted yet.",
        _of("active_records"),
    ),
    (
        f"{_STREAM}_transaction_size_max",
        f"The largest transaction that a stream's task has committed, in records, {_SINCE}.",
        _of("transaction_size_max"),
    ),
    (
        f"{_STREAM}_transaction_size_avg",
        f"The mean of the transactions that a stream's task has committed, in records, {_SINCE}.",
        _ratio("transaction_size_total", "commits"),
    ),
    (
        f"{_STREAM}_producers_retired_total",
        f"Producers of a stream's task that were replaced after a strike, a fence or an error, {_SINCE}.",
        _of("producers_retired"),
    ),
)
_OF_A_SINK = "partition_count"  # a counter that only sinks have
_OF_A_STREAM = "producers_fenced"
# Of running tasks: if one of these stops growing while the task is RUNNING, it is worth an alarm.
_LAST: tuple[tuple[str, str, str], ...] = (
    (
        "fencepost_task_last_record_timestamp_seconds",
        "When the source last returned a record, in seconds since 1970; before the first: when the task started.",
        "last_record_s",
    ),
    (
        "fencepost_task_last_commit_timestamp_seconds",
        "When records or offsets were last committed, in seconds since 1970; before the first: when the task started.",
        "last_commit_s",
    ),
)


def _share(part: float, other: float) -> float:
    return part / (part + other) if part + other else 0.0


@dataclass(frozen=True)
class WorkerFigures:
    """Values that only the worker process knows, read at every scrape."""

    is_leader: Callable[[], bool]
    connectors: Callable[[], int]
    tasks: Callable[[], int]
    connector_startups: Callable[[], dict[str, int]]
    jvm_pid: Callable[[], int | None]
    ended_by_signal: Callable[[], Mapping[str, int]]
    retention: Callable[[], RetentionInfo]


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
        yield from self._connectors()
        yield from self._tasks()
        yield from _measured(self._totals.reports().values())
        yield from self._worker()
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
        yield from (info, total, *counts.values(), remarks)

    def _tasks(self) -> Iterator[Metric]:
        reports = self._totals.reports().values()
        status = GaugeMetricFamily(
            f"{_TASKS}_status", "1 for the state that the task is in, on this worker.", labels=(*_TASK, "status")
        )
        for report in reports:
            status.add_metric([report.connector, str(report.task), report.state.lower()], 1)
        yield status
        sinks = [report for report in reports if _OF_A_SINK in report.counters]
        sources = [report for report in reports if _OF_A_SINK not in report.counters]
        for name, text, value in _FROM_COUNTERS:
            yield _family(name, text, value, sources if name.startswith(_SOURCE) else reports)
        for name, text, value in _FROM_COUNTERS_OF_SINKS:
            yield _family(name, text, value, sinks)
        for name, text, value in _FROM_COUNTERS_OF_STREAMS:
            yield _family(name, text, value, [report for report in sinks if _OF_A_STREAM in report.counters])
        for name, text, counter in _LAST:
            running = [r for r in reports if r.state == State.RUNNING.value and r.counters.get(counter)]
            yield _family(name, text, _of(counter), running)

    def _worker(self) -> Iterator[Metric]:
        tasks = {
            "attempts": self._totals.attempts,
            "successes": self._totals.successes,
            "failures": self._totals.failures,
        }
        yield _single(f"{_WORKER}_connector_count", "Connectors on this worker.", self._figures.connectors())
        yield _single(f"{_WORKER}_task_count", "Tasks on this worker.", self._figures.tasks())
        for kind, counted in (("connector", self._figures.connector_startups()), ("task", tasks)):
            yield from _startups(kind, counted)
        yield _single(
            "kafka_connect_connect_worker_rebalance_metrics_is_leader",
            "1 if this worker leads, else 0.",
            float(self._figures.is_leader()),
        )
        yield _restarts({"connector": self._figures.connector_startups()["restarts"], "task": self._totals.restarts})
        ended = _metric(
            "fencepost_processes_ended_by_signal_total",
            "Processes of slots and splits that a signal ended; SIGKILL also counts those that ended without a trace.",
            ("signal",),
        )
        for name, count in self._figures.ended_by_signal().items():
            ended.add_metric([name], count)
        yield ended


def _measured(reports: Iterable[TaskReport]) -> Iterator[Metric]:
    """Yield the measurements of mirrors' tasks."""
    found = [(report, orjson.loads(report.figures)) for report in reports if report.figures]
    for name, kind in KINDS.items():
        families = [
            _metric(f"{kind.prefix}_{value}", text, (*_TASK, *kind.labels)) for value, text in kind.values.items()
        ]
        for report, figures in found:
            own = (report.connector, str(report.task))
            for labels, values in _rows(figures, name, kind):
                for family, value in zip(families, values, strict=True):
                    family.add_metric([*own, *labels], value)
        yield from families


def _rows(figures: Any, name: str, kind: FigureKind) -> Iterator[tuple[list[str], list[float]]]:
    """Yield labels and values of the rows of a kind; malformed rows of an author's task are skipped."""
    rows = figures.get(name, ()) if isinstance(figures, dict) else ()
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
        family.add_metric([report.connector, str(report.task)], value(dict(report.counters)))
    return family
