"""Metrics of a real worker under the names that Kafka Connect's dashboards read."""

import json
import re
from pathlib import Path

from file_connector import Produce
from prometheus_client.parser import text_string_to_metric_families

from fencepost.testing import eventually
from support.expressions import alerts, metrics_of, panels
from support.worker import Worker

EXPECTED = json.loads((Path(__file__).parents[2] / "fixtures/tools/confluent_dashboard_metrics.json").read_text())


def test_a_busy_worker_exports_every_metric_of_the_dashboards(
    worker: Worker, name: str, topic: str, produce: Produce, tmp_path: Path
) -> None:
    source, sink = f"{name}-src", name
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    file_stream = "org.apache.kafka.connect.file.FileStream{}Connector"
    produce(1, 5)
    worker.create(source, {"connector.class": file_stream.format("Source"), "file": str(lines), "topic": f"{name}-out"})
    worker.create(sink, {"connector.class": file_stream.format("Sink"), "file": str(tmp_path / "out"), "topics": topic})
    try:
        eventually(
            lambda: worker.metric("kafka_connect_source_task_metrics_source_record_poll_rate", connector=source) > 0,
            within_s=120,
        )
        eventually(
            lambda: worker.metric("kafka_connect_sink_task_metrics_sink_record_read_rate", connector=sink) > 0,
            within_s=120,
        )
        eventually(lambda: not _missing(worker), within_s=60)  # the JVM is asked between two scrapes
        assert 0 < worker.metric("kafka_connect_connector_task_metrics_running_ratio", connector=source) <= 1
        assert worker.metric("kafka_connect_connect_metrics_request_rate") > 0
        assert worker.metric("kafka_connect_connect_metrics_connection_count") >= 1
        assert worker.metric("kafka_connect_connect_worker_rebalance_metrics_completed_rebalances_total") >= 1
    finally:
        worker.rest.delete(f"/connectors/{source}")


def test_a_worker_exports_every_metric_of_the_alerts_and_the_dashboard(worker: Worker) -> None:
    expressions = [*alerts().values(), *(each for panel in panels().values() for each in panel)]
    wanted = set().union(*map(metrics_of, expressions)) - {"up"}
    assert len(wanted) > 20
    # Families are named also where no task has a sample of them yet.
    have = set(re.findall(r"^# TYPE (\S+) ", worker.rest.get("/metrics").text, re.MULTILINE))
    assert wanted <= have


def _missing(worker: Worker) -> set[str]:
    families = text_string_to_metric_families(worker.rest.get("/metrics").text)
    have = {sample.name for family in families for sample in family.samples}
    wanted = {each for names in EXPECTED["dashboards"].values() for each in names}
    return wanted - have - set(EXPECTED["absent"])
