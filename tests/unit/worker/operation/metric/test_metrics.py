"""The page for Prometheus: what is a counter, what is a gauge, and what each of them says."""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fencepost.cluster.info import PartitionRetention, RetentionInfo, TopicRetentionInfo
from fencepost.storage.change import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import StatusTable
from fencepost.task.channel.message import RunState, TaskReport
from fencepost.task.start.run import Counters, StreamCounters
from fencepost.worker.operation.metric.collector import WorkerFigures, WorkerMetrics
from fencepost.worker.supervision.task_metrics import TaskTotals

LAST_RECORD = "fencepost_task_last_record_timestamp_seconds"
LAST_COMMIT = "fencepost_task_last_commit_timestamp_seconds"
EMPTIED = (
    TopicRetentionInfo(
        "gone", None, None, 17, 1, [PartitionRetention(0, 10, 30, 25, ""), PartitionRetention(1, 0, 2, 2, "")]
    ),
    TopicRetentionInfo("kept", "why", "refused", 0, None, [PartitionRetention(0, 10, 30, 25, "")]),
)


class Page:
    """A worker's metrics, with one task on it."""

    def __init__(self, jvm_pid: int | None = None, totals: TaskTotals | None = None) -> None:
        self.totals = totals or TaskTotals()
        self.counters = Counters()
        startups = {"attempts": 3, "successes": 2, "failures": 1, "restarts": 4}
        self.leader = SimpleNamespace(is_leading=True, refusal=None)
        figures = WorkerFigures(
            self.leader, lambda: 1, lambda: 1, lambda: startups, lambda: jvm_pid, lambda: {"SIGSEGV": 2},
            lambda: RetentionInfo(True, 1_700_000_000_000, topics=EMPTIED),
            lambda: {"c": [["starts", "", 3.0], ["damaged"]]},
        )  # fmt: skip
        self._metrics = WorkerMetrics(ClusterSnapshot, StatusTable(), self.totals, figures)

    def report(self, state: str) -> None:
        self.totals.reported(TaskReport("c", 0, "i", state, None, self.counters.to_json(), ()))

    @property
    def text(self) -> str:
        return self._metrics.text().decode()

    @property
    def samples(self) -> dict[str, float]:
        families = text_string_to_metric_families(self.text)
        return {sample.name: sample.value for family in families for sample in family.samples}


@pytest.fixture
def page() -> Page:
    page = Page()
    page.report("RUNNING")
    return page


def test_totals_are_counters_and_everything_else_is_a_gauge(page: Page) -> None:
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page.text, re.MULTILINE))
    assert len(types) > 40
    assert {name for name, kind in types.items() if kind == "counter"} == {n for n in types if n.endswith("_total")}
    assert {name for name, kind in types.items() if kind not in ("counter", "gauge")} == {"jvm_gc_collection_seconds"}
    of_jmx = r"task_error_metrics_total_"  # attributes that begin with it; their counters are beside them
    assert not [name for name in types if re.search(r"_total_(?!task_count)", name) and not re.search(of_jmx, name)]


def test_failure_of_the_leader_to_write_an_assignment_is_a_metric(page: Page) -> None:
    assert page.samples["fencepost_leader_refused"] == 0
    page.leader.refusal = "too large"
    assert page.samples["fencepost_leader_refused"] == 1


def test_help_text_of_every_metric_is_a_sentence_and_names_the_unit(page: Page) -> None:
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", page.text, re.MULTILINE))
    own = {name: text for name, text in helps.items() if not re.match(r"(fencepost_spark_jvm_)?process_", name)}
    assert len(own) > 40
    units = {"_ms": "milliseconds", "_timestamp": "milliseconds", "_seconds": "seconds", "_percentage": "from 0 to 1"}
    for name, text in own.items():
        assert re.match(r"[A-Z1].{12,}\.$", text), name
        assert all(word in text for end, word in units.items() if name.endswith(end)), name


def test_running_task_reports_the_times_of_its_last_record_and_commit(page: Page) -> None:
    begun = page.samples[LAST_RECORD]
    assert time.time() - 60 < begun <= time.time()
    page.counters.last_record_s = page.counters.last_commit_s = 5.0
    page.counters.polled(3, 0.1)
    page.report("RUNNING")
    assert begun <= page.samples[LAST_RECORD] <= time.time()
    assert page.samples[LAST_COMMIT] == 5.0
    page.counters.commit_begun(time.monotonic())
    page.counters.committed(time.monotonic() - 10)
    page.report("RUNNING")
    assert 5 < time.time() - page.samples[LAST_COMMIT] < 60


@pytest.mark.parametrize("state", ["FAILED", "STOPPED", "PAUSED"])
def test_task_that_does_not_run_has_no_time_of_its_last_record(page: Page, state: str) -> None:
    page.report(state)
    assert LAST_RECORD not in page.samples


def test_the_process_and_the_jvm_of_spark_are_measured() -> None:
    names = {"process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total"}
    without, beside = Page(), Page(jvm_pid=os.getppid())
    assert names <= set(without.samples)
    assert not [name for name in without.samples if name.startswith("fencepost_spark_jvm")]
    assert {f"fencepost_spark_jvm_{name}" for name in names} <= set(beside.samples)
    memory = beside.samples["fencepost_spark_jvm_process_resident_memory_bytes"]
    assert 0 < memory != beside.samples["process_resident_memory_bytes"]


def test_processes_ended_by_a_signal_are_counted_by_the_signals_name(page: Page) -> None:
    assert 'fencepost_processes_ended_by_signal_total{signal="SIGSEGV"} 2.0' in page.text


def test_metrics_of_a_mirror_have_mirror_makers_names(page: Page) -> None:
    row = ["A", "B", "A.t", "3", 7, 70, 4.0, 9.0, 1.0, 5.0, 8.0, 12.0, 2.0, 6.0]
    figures = {"source": [row], "gap": [["A", "B", "A.t", "3", 1, 20]]}
    page.totals.reported(TaskReport("m", 2, "i", RunState.RUNNING, figures=json.dumps(figures)))
    labels = '{connector="m",partition="3",source="A",target="B",task="2",topic="A.t"}'
    lines = {"".join(sorted_labels(line)) for line in page.text.splitlines() if "mirror" in line and line[0] != "#"}
    assert {line.removeprefix("kafka_connect_mirror_mirrorsourceconnector_") for line in lines} == {
        f"record_count{labels} 7.0", f"byte_count{labels} 70.0",
        f"record_age_ms{labels} 4.0", f"record_age_ms_max{labels} 9.0",
        f"record_age_ms_min{labels} 1.0", f"record_age_ms_avg{labels} 5.0",
        f"replication_latency_ms{labels} 8.0", f"replication_latency_ms_max{labels} 12.0",
        f"replication_latency_ms_min{labels} 2.0", f"replication_latency_ms_avg{labels} 6.0",
        f"fencepost_mirror_gaps_total{labels} 1.0", f"fencepost_mirror_gap_offsets_total{labels} 20.0",
    }  # fmt: skip


def test_metrics_of_java_plugins_have_the_plugins_names_as_labels(page: Page) -> None:
    figures = {"plugins": [["seen", "transformation=org.example.Picky", 2.0], ["damaged", 3.0]]}
    page.totals.reported(TaskReport("c", 1, "i", RunState.RUNNING, figures=json.dumps(figures)))
    lines = {"".join(sorted_labels(line)) for line in page.text.splitlines() if line.startswith("fencepost_plugin")}
    assert lines == {
        'fencepost_plugin_value{connector="c",metric="seen",tags="transformation=org.example.Picky",task="1"} 2.0',
        'fencepost_plugin_connector_value{connector="c",metric="starts",tags=""} 3.0',
    }


def sorted_labels(line: str) -> Iterator[str]:
    """Yield the parts of a line with its labels in order."""
    name, _, rest = line.partition("{")
    labels, _, value = rest.partition("}")
    yield from (name, "{", ",".join(sorted(labels.split(","))), "}", value)


def test_automatic_restarts_are_counted(page: Page) -> None:
    page.totals.restarted()
    assert 'fencepost_automatic_restarts_total{kind="connector"} 4.0' in page.text
    assert 'fencepost_automatic_restarts_total{kind="task"} 1.0' in page.text


def test_retention_metrics_show_deleted_and_held_offsets_of_each_topic(page: Page) -> None:
    found = {
        (s.name, s.labels.get("topic")): s.value for f in text_string_to_metric_families(page.text) for s in f.samples
    }
    assert found["fencepost_retention_deleted_offsets_total", "gone"] == 17
    assert found["fencepost_retention_held_offsets", "gone"] == 5
    assert found["fencepost_retention_held_offsets", "kept"] == 20
    assert [found["fencepost_retention_refused", topic] for topic in ("gone", "kept")] == [0, 1]
    assert [found["fencepost_retention_failed", topic] for topic in ("gone", "kept")] == [0, 1]
    assert found["fencepost_retention_decided_timestamp_seconds", None] == 1_700_000_000


def test_stream_task_has_the_metrics_of_a_sink_and_of_a_writer(page: Page) -> None:
    counters = page.counters = StreamCounters(partition_count=3, lag_max=7)
    counters.polled(20, 0.1)
    counters.sent(10, ["out"] * 10)
    counters.commit_begun(time.monotonic())
    counters.committed(time.monotonic())
    counters.sent(2, ["out"] * 2)
    page.report("RUNNING")
    found = page.samples
    assert found["kafka_connect_sink_task_metrics_sink_record_read_total"] == 20
    assert found["kafka_connect_sink_task_metrics_partition_count"] == 3
    assert found["fencepost_stream_task_record_write_total"] == 12
    assert found["fencepost_stream_task_record_active_count"] == 2
    assert found["fencepost_stream_task_transaction_size_max"] == 10
    assert "kafka_connect_source_task_metrics_source_record_write_total" not in found


def test_malformed_figures_are_left_out_and_valid_ones_are_exported(page: Page) -> None:
    well = ["A", "B", "A.t", "3", 1, 20]
    for task, figures in enumerate([[], 7, {"gap": 7}, {"gap": [7, ["A"], ["A", "B", "C", 3, "x", None], well]}]):
        page.totals.reported(TaskReport("m", task, f"i{task}", RunState.RUNNING, figures=json.dumps(figures)))
    assert [line for line in page.text.splitlines() if line.startswith("fencepost_mirror_gaps_total")] == [
        'fencepost_mirror_gaps_total{connector="m",partition="3",source="A",target="B",task="3",topic="A.t"} 1.0'
    ]


def test_a_page_reads_the_reports_of_tasks_once() -> None:
    class Counted(TaskTotals):
        reads = 0

        def reports(self) -> Mapping[TaskId, TaskReport]:
            self.reads += 1
            return super().reports()

    page = Page(totals=(totals := Counted()))
    page.report("RUNNING")
    assert LAST_RECORD in page.samples
    assert totals.reads == 1
