"""Metrics that are computed from the counters in a task's report."""

from collections.abc import Callable, Mapping

from fencepost.task.channel.message import RETRYING, STANDS_STILL
from fencepost.worker.supervision.task_metrics import PAUSE_RATIO, RUNNING_RATIO

Value = Callable[[Mapping[str, float]], float]


def counter(name: str) -> Value:
    return lambda c: c.get(name, 0.0)


def _ratio(part: str, whole: str, scale: float = 1.0) -> Value:
    return lambda c: scale * c.get(part, 0.0) / c[whole] if c.get(whole) else 0.0


SOURCE = "kafka_connect_source_task_metrics"
_SINK = "kafka_connect_sink_task_metrics"
TASKS = "kafka_connect_connector_task_metrics"
_ERRORS = "kafka_connect_task_error_metrics"
_SINCE = "since the task started"
_RATE = "a second, over the last windows (metrics.sample.window.ms, metrics.num.samples)"
_ERROR_TOTALS: tuple[tuple[str, str, str], ...] = (
    ("record_failures", f"Failures of transforms and converters, {_SINCE}; one for each attempt.", "error_failures"),
    ("record_errors", f"Records that could not be processed, {_SINCE}.", "error_errors"),
    ("records_skipped", f"Records dropped because of errors.tolerance=all, {_SINCE}.", "error_skipped"),
    ("retries", f"Retries of operations after a passing error, {_SINCE}.", "error_retries"),
    ("errors_logged", f"Errors of records that were logged, {_SINCE}.", "error_logged"),
)

# Name (a counter if it ends in _total), description with unit, and value.
OF_TASKS: tuple[tuple[str, str, Value], ...] = (
    (f"{SOURCE}_source_record_poll_total", f"Records that polls returned, {_SINCE}.", counter("records_polled")),
    (
        f"{SOURCE}_source_record_write_total",
        f"Records handed to Kafka, after transforms, {_SINCE}; aborted ones included.",
        counter("records_written"),
    ),
    (f"{SOURCE}_source_record_poll_rate", f"Records that polls returned, {_RATE}.", counter("records_polled_rate")),
    (
        f"{SOURCE}_source_record_write_rate",
        f"Records handed to Kafka, after transforms, {_RATE}; aborted ones included.",
        counter("records_written_rate"),
    ),
    (
        f"{SOURCE}_source_record_active_count",
        "Records handed to Kafka and neither committed nor aborted yet.",
        counter("active_records"),
    ),
    (
        f"{SOURCE}_source_record_active_count_max",
        f"The most records handed to Kafka and not committed yet, {_SINCE}.",
        counter("active_max"),
    ),
    (
        f"{SOURCE}_source_record_active_count_avg",
        f"The mean of the records handed to Kafka and not committed yet, after each batch and commit, {_SINCE}.",
        _ratio("active_total", "active_taken"),
    ),
    (
        f"{SOURCE}_poll_batch_max_time_ms",
        f"The longest poll that returned records, in milliseconds, {_SINCE}.",
        lambda c: 1000 * c.get("poll_time_max_s", 0.0),
    ),
    (
        f"{SOURCE}_poll_batch_avg_time_ms",
        f"The mean of the polls that returned records, in milliseconds, {_SINCE}.",
        _ratio("poll_time_total_s", "batches", 1000),
    ),
    (
        f"{SOURCE}_transaction_size_min",
        f"The smallest committed transaction, in records, {_SINCE}.",
        counter("transaction_size_min"),
    ),
    (
        f"{SOURCE}_transaction_size_max",
        f"The largest committed transaction, in records, {_SINCE}.",
        counter("transaction_size_max"),
    ),
    (
        f"{SOURCE}_transaction_size_avg",
        f"The mean of the committed transactions, in records, {_SINCE}.",
        _ratio("transaction_size_total", "commits"),
    ),
    (
        f"{TASKS}_running_ratio",
        f"The share of the time that the task was RUNNING, from 0 to 1, {_SINCE}.",
        counter(RUNNING_RATIO),
    ),
    (
        f"{TASKS}_pause_ratio",
        f"The share of the time that the task was PAUSED, from 0 to 1, {_SINCE}.",
        counter(PAUSE_RATIO),
    ),
    (
        f"{TASKS}_batch_size_max",
        f"The largest batch that a poll returned, in records, {_SINCE}.",
        counter("batch_size_max"),
    ),
    (
        f"{TASKS}_batch_size_avg",
        f"The mean of the batches that polls returned, in records, {_SINCE}.",
        _ratio("records_polled", "batches"),
    ),
    (
        f"{TASKS}_offset_commit_max_time_ms",
        f"The longest commit of offsets, in milliseconds, {_SINCE}.",
        lambda c: 1000 * c.get("commit_time_max_s", 0.0),
    ),
    (
        f"{TASKS}_offset_commit_avg_time_ms",
        f"The mean of the commits of offsets, in milliseconds, {_SINCE}.",
        _ratio("commit_time_total_s", "commits", 1000),
    ),
    (
        f"{TASKS}_offset_commit_failure_percentage",
        f"The share of commits of offsets that failed, from 0 to 1, {_SINCE}.",
        lambda c: _share(c.get("commit_failures", 0.0), c.get("commits", 0.0)),
    ),
    (
        f"{TASKS}_offset_commit_success_percentage",
        f"The share of commits of offsets that succeeded, from 0 to 1, {_SINCE}.",
        lambda c: _share(c.get("commits", 0.0), c.get("commit_failures", 0.0)),
    ),
    (
        "fencepost_task_stands_still",
        "1 while the task is inside a call that has not returned for progress.timeout.ms; its status has the stack.",
        counter(STANDS_STILL),
    ),
    (
        "fencepost_task_retrying",
        "1 while the task tries again what has failed, and nothing has succeeded since; its status has the reason.",
        counter(RETRYING),
    ),
    (
        "fencepost_task_spans_dropped_total",
        f"Spans of OpenTelemetry that the collector did not take, or that did not fit in the queue, {_SINCE}.",
        counter("spans_dropped"),
    ),
    *((f"{_ERRORS}_{name}_total", text, counter(key)) for name, text, key in _ERROR_TOTALS),
    *((f"{_ERRORS}_total_{name}", text, counter(key)) for name, text, key in _ERROR_TOTALS),
    (
        f"{_ERRORS}_deadletterqueue_produce_requests",
        f"Records written to the dead letter topic, {_SINCE}; refused ones included.",
        counter("error_dead_letters"),
    ),
    (
        f"{_ERRORS}_deadletterqueue_produce_failures",
        f"Records that the dead letter topic refused, {_SINCE}. For a source also those in a transaction that was "
        "not committed, or whose outcome is unknown.",
        counter("error_dead_letter_failures"),
    ),
    (
        f"{_ERRORS}_last_error_timestamp",
        "When a record last could not be processed, in milliseconds since 1970; 0: never.",
        counter("error_last_error_ms"),
    ),
)
_NEVER_LATE = "Answers to commits that came too late to count: 0, as a task waits for each."
OF_SINKS: tuple[tuple[str, str, Value], ...] = (
    (f"{_SINK}_sink_record_read_total", f"Records read from topics, {_SINCE}.", counter("records_polled")),
    (
        f"{_SINK}_sink_record_send_total",
        f"Records that put accepted, after transforms, {_SINCE}; again after a rewind. Of a stream: records written.",
        counter("records_written"),
    ),
    (f"{_SINK}_sink_record_read_rate", f"Records read from topics, {_RATE}.", counter("records_polled_rate")),
    (
        f"{_SINK}_sink_record_send_rate",
        f"Records that put accepted, after transforms, {_RATE}. Of a stream: records written.",
        counter("records_written_rate"),
    ),
    (
        f"{_SINK}_sink_record_lag_max",
        "Records between what put accepted and the end of the log, of the partition with the largest lag.",
        counter("lag_max"),
    ),
    (f"{_SINK}_partition_count", "Partitions that the group has assigned to the task.", counter("partition_count")),
    (
        f"{_SINK}_offset_commit_completion_total",
        f"Commits of offsets that succeeded, {_SINCE}.",
        counter("commits"),
    ),
    (
        f"{_SINK}_offset_commit_completion_rate",
        f"Commits of offsets that succeeded, {_RATE}.",
        counter("commits_rate"),
    ),
    (
        f"{_SINK}_offset_commit_seq_no",
        f"Commits of offsets that were tried, {_SINCE}.",
        lambda c: c.get("commits", 0.0) + c.get("commit_failures", 0.0),
    ),
    (f"{_SINK}_offset_commit_skip_total", _NEVER_LATE, lambda _: 0.0),
    (f"{_SINK}_offset_commit_skip_rate", _NEVER_LATE, lambda _: 0.0),
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
# Of sinks that are no streams: with those, records that are active are those written.
OF_PLAIN_SINKS: tuple[tuple[str, str, Value], ...] = (
    (
        f"{_SINK}_sink_record_active_count",
        "Records that put took and whose offsets are not committed yet; offsets of no records count as well.",
        counter("active_records"),
    ),
    (
        f"{_SINK}_sink_record_active_count_max",
        f"The most records that put took and whose offsets were not committed yet, {_SINCE}.",
        counter("active_max"),
    ),
    (
        f"{_SINK}_sink_record_active_count_avg",
        f"The mean of the records that put took and were not committed yet, after each batch and commit, {_SINCE}.",
        _ratio("active_total", "active_taken"),
    ),
)
_STREAM = "fencepost_stream_task"
OF_STREAMS: tuple[tuple[str, str, Value], ...] = (
    (
        f"{_STREAM}_fenced_producers_total",
        f"Producers of others that were fenced because they had partitions of the task's input, {_SINCE}.",
        counter("producers_fenced"),
    ),
    (
        f"{_STREAM}_is_waiting_for_offsets",
        "1 while the task waits for others' transactions with offsets of its input that cannot be fenced.",
        counter("is_waiting_for_offsets"),
    ),
    (
        f"{_STREAM}_record_write_total",
        f"Records that a stream's task has handed to Kafka, {_SINCE}; aborted ones included.",
        counter("records_written"),
    ),
    (
        f"{_STREAM}_record_active_count",
        "Records that a stream's task has handed to Kafka and neither committed nor aborted yet.",
        counter("active_records"),
    ),
    (
        f"{_STREAM}_transaction_size_max",
        f"The largest transaction that a stream's task has committed, in records, {_SINCE}.",
        counter("transaction_size_max"),
    ),
    (
        f"{_STREAM}_transaction_size_avg",
        f"The mean of the transactions that a stream's task has committed, in records, {_SINCE}.",
        _ratio("transaction_size_total", "commits"),
    ),
    (
        f"{_STREAM}_producers_retired_total",
        f"Producers of a stream's task that were replaced after a strike, a fence or an error, {_SINCE}.",
        counter("producers_retired"),
    ),
)
_QUERY = "fencepost_query_task"
OF_QUERIES: tuple[tuple[str, str, Value], ...] = (
    (f"{_QUERY}_batch", "The number of the last batch with rows; -1: none yet.", counter("query_batch")),
    (
        f"{_QUERY}_rows_per_second",
        "Records of the last batch with rows, divided by the seconds that it took.",
        counter("query_rows_per_s"),
    ),
    (
        f"{_QUERY}_batch_time_ms",
        "How long the last batch with rows took, in milliseconds.",
        lambda c: 1000 * c.get("query_batch_time_s", 0.0),
    ),
    (
        f"{_QUERY}_watermark_timestamp_seconds",
        "The event time up to which results are final, in seconds since 1970; 0: there is no watermark.",
        counter("query_watermark_s"),
    ),
    (f"{_QUERY}_state_rows", "Rows in the state of the query.", counter("query_state_rows")),
)
SINKS_COUNTER = "partition_count"  # a counter that only sinks have
STREAMS_COUNTER = "producers_fenced"
QUERIES_COUNTER = "query_batch"
# Of running tasks: if one of these stops growing while the task is RUNNING, it is worth an alarm.
LAST: tuple[tuple[str, str, str], ...] = (
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
