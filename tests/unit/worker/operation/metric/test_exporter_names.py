"""The names that dashboards of Kafka Connect read: those of Confluent's jmx-monitoring-stacks, of both exporters."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fencepost.cluster.info import RetentionInfo
from fencepost.kafka.group.member import MemberMeter
from fencepost.spark.session.jvm import JvmFigures
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import StatusTable
from fencepost.task.channel.message import RunState, TaskReport
from fencepost.task.start.run import Counters, SinkCounters
from fencepost.telemetry.measure import WindowedRates
from fencepost.worker.operation.metric.collector import ExporterFigures, WorkerFigures, WorkerMetrics
from fencepost.worker.supervision.task_metrics import TaskTotals

DASHBOARDS = Path(__file__).parents[4] / "fixtures" / "tools" / "confluent_dashboard_metrics.json"
STATISTICS = {
    "tx": 6, "rx": 5, "tx_bytes": 600, "rx_bytes": 900,
    "brokers": {"b1": {"state": "UP"}, "b2": {"state": "DOWN"}},
    "cgrp": {"join_state": "steady"},
}  # fmt: skip


def page(member: MemberMeter, jvm: JvmFigures | None) -> str:
    """The page of a worker with a source and a sink."""
    totals = TaskTotals()
    for name, counters in (("in", Counters()), ("out", SinkCounters())):
        totals.reported(TaskReport(name, 0, "i", RunState.RUNNING, counters=counters.to_json()))
    startups = dict.fromkeys(("attempts", "successes", "failures", "restarts"), 0)
    leader = SimpleNamespace(is_leading=True, refusal=None)
    figures = WorkerFigures(
        leader, lambda: 2, lambda: 2, lambda: startups, lambda: None, dict, lambda: RetentionInfo(False),
    )  # fmt: skip
    exporter = ExporterFigures(
        "http://w:8083", 1_700_000_000_000, lambda _: ("source", "1.2"), member.figures, lambda: jvm
    )
    snapshot = ClusterSnapshot(connectors={"in": {"connector.class": "org.example.In"}})
    statuses = StatusTable()
    return WorkerMetrics(lambda: snapshot, statuses, totals, figures, exporter).text().decode()


@pytest.fixture
def text() -> str:
    meter = MemberMeter(WindowedRates(30, 2))
    meter.joins()
    meter.take(json.dumps(STATISTICS))
    meter.assigned()
    return page(meter, JvmFigures({"heap": 7, "nonheap": 5}, {"heap": 9}, {"G1": (3, 0.5)}))


def samples(text: str) -> Mapping[tuple[str, frozenset[tuple[str, str]]], float]:
    found = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in found}


def test_dashboard_metrics_are_exported_or_documented_as_absent(text: str) -> None:
    expected = json.loads(DASHBOARDS.read_text())
    have = {name for name, _ in samples(text)}
    missing = {name for names in expected["dashboards"].values() for name in names} - have
    assert missing == set(expected["absent"])
    docs = (Path(__file__).parents[5] / "docs" / "how-to" / "monitor.md").read_text()
    assert all(f"`{name}`" in docs for name in missing)


def test_jmx_attributes_with_text_are_labels(text: str) -> None:
    found = samples(text)
    for label, value in {
        "connector_type": "source",
        "connector_version": "1.2",
        "connector_class": "org.example.In",
    }.items():
        labels = frozenset({("connector", "in"), (label, value)})
        assert found["kafka_connect_connector_metrics", labels] == 1


def test_metrics_of_the_workers_group_member_are_exported(text: str) -> None:
    found = {name: value for (name, _), value in samples(text).items()}
    client = "kafka_connect_connect_metrics"
    assert found[f"{client}_connection_count"] == 1
    assert found[f"{client}_request_rate"] == pytest.approx(6 / 30, rel=0.1)
    assert found[f"{client}_network_io_rate"] == pytest.approx(11 / 30, rel=0.1)
    assert found[f"{client}_incoming_byte_rate"] == pytest.approx(30, rel=0.1)
    assert found["kafka_connect_connect_worker_rebalance_metrics_completed_rebalances_total"] == 1
    assert 0 <= found["kafka_connect_connect_worker_rebalance_metrics_time_since_last_rebalance_ms"] < 60_000


def test_jvm_metrics_are_of_sparks_jvm_and_absent_without_spark(text: str) -> None:
    assert 'jvm_memory_used_bytes{area="heap"} 7.0' in text
    assert 'jvm_gc_collection_seconds_sum{gc="G1"} 0.5' in text
    assert not re.search(r"^jvm_", page(MemberMeter(), None), re.MULTILINE)


def test_request_rates_include_a_replaced_client() -> None:
    meter = MemberMeter(WindowedRates(30, 2))
    meter.take(json.dumps(STATISTICS))
    meter.joins()
    meter.take(json.dumps({**STATISTICS, "tx": 3}))
    assert meter.figures().rates["tx"] == pytest.approx(9 / 30, rel=0.1)
