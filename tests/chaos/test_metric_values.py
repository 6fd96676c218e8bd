"""Metrics of the same connectors here and on Kafka Connect: those that have to have the same values have them."""

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.cluster import LightWorker
from support.java_program import JmxValues
from support.long_form import IS_LONG
from support.worker import free_port

sys.path.insert(0, str(Path(__file__).parents[2]))
from oracle.connect import KafkaConnect

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not IS_LONG, reason="starts a worker of Kafka Connect: make chaos"),
    pytest.mark.timeout(900),
]

Values = dict[str, float]
"""By the name of the JMX exporter, with the connector and the task if there are some."""

LINES, VALUES, BROKEN = 300, 200, 10
SLOW_S = 120
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_STRING = "org.apache.kafka.connect.storage.StringConverter"
_FILE = "org.apache.kafka.connect.file.FileStream{}Connector"
SETTINGS = {
    "key.converter": _STRING,
    "value.converter": _STRING,
    "exactly.once.source.support": "enabled",
    "offset.flush.interval.ms": "500",
}
SOURCE, SINK, TASK, ERRORS = "source_task_metrics", "sink_task_metrics", "connector_task_metrics", "task_error_metrics"
WORKER = "connect_worker_metrics"
EQUAL = (
    *(f"{SOURCE}_{each} source 0" for each in (
        "source_record_poll_total", "source_record_write_total", "source_record_active_count",
        "transaction_size_min", "transaction_size_max", "transaction_size_avg",
    )),
    *(f"{SINK}_{each} sink 0" for each in (
        "sink_record_read_total", "sink_record_send_total", "sink_record_active_count", "partition_count",
        "offset_commit_skip_total",
    )),
    *(f"{TASK}_{each} {task} 0" for task in ("source", "sink") for each in (
        "offset_commit_failure_percentage", "offset_commit_success_percentage", "pause_ratio",
    )),
    *(f"{TASK}_batch_size_{each} source 0" for each in ("max", "avg")),
    *(f"{ERRORS}_{each} sink 0" for each in (
        "total_record_failures", "total_record_errors", "total_records_skipped", "total_errors_logged",
        "total_retries", "deadletterqueue_produce_requests", "deadletterqueue_produce_failures",
    )),
    *(f"{ERRORS}_total_{each} failing 0" for each in ("record_failures", "record_errors", "records_skipped")),
    *(f"{WORKER}_connector_{each}_task_count {connector}"
      for connector in ("source", "sink", "paused", "failing")
      for each in ("total", "running", "paused", "failed", "unassigned", "destroyed")),
    *(f"{WORKER}_{each}" for each in ("connector_count", "task_count", "connector_startup_failure_total",
                                      "connector_startup_success_total", "task_startup_failure_total")),
)  # fmt: skip
"""Those whose values are counts of what has happened, or of what there is."""
POSITIVE = (
    *(f"{SINK}_{each} sink 0" for each in (
        "offset_commit_completion_total", "offset_commit_completion_rate", "offset_commit_seq_no",
        "sink_record_read_rate", "sink_record_send_rate", "sink_record_active_count_max",
    )),
    *(f"{SOURCE}_source_record_{each} source 0" for each in ("poll_rate", "write_rate", "active_count_max")),
    *(f"{TASK}_running_ratio {task} 0" for task in ("source", "sink", "paused")),
    f"{TASK}_pause_ratio paused 0",
    f"{ERRORS}_last_error_timestamp sink 0",
)  # fmt: skip
"""Those whose values depend on when things happen, but are above 0 once they have."""


@dataclass(frozen=True)
class Side:
    url: str
    values: Callable[[], Values]


@pytest.fixture
def ours(kafka: EmbeddedKafka, tmp_path: Path, topic_name: str) -> Iterator[Side]:
    with LightWorker(kafka.bootstrap_servers, tmp_path, SETTINGS, group=f"{topic_name}-ours") as worker:
        eventually(worker.slots, within_s=SLOW_S)
        url = f"http://127.0.0.1:{worker.port}"
        yield Side(url, lambda: dict(_scraped(httpx.get(f"{url}/metrics", timeout=60).text)))


def _scraped(page: str) -> Iterator[tuple[str, float]]:
    for family in text_string_to_metric_families(page):
        for each in family.samples:
            own = {key: value for key, value in each.labels.items() if key not in ("connector", "task")}
            if each.name.startswith("kafka_connect_") and not own:
                yield _key(each.name.removeprefix("kafka_connect_"), each.labels), each.value


@pytest.fixture
def theirs(kafka: EmbeddedKafka, tmp_path: Path, topic_name: str) -> Iterator[Side]:
    names = {f"{kind}.storage.topic": f"{topic_name}-theirs-{kind}" for kind in ("config", "offset", "status")}
    port, directory = free_port(), tmp_path / "connect"
    directory.mkdir()
    remote = {"port": port, "rmi.port": port, "authenticate": "false", "ssl": "false", "host": "127.0.0.1"}
    jvm = [f"-Dcom.sun.management.jmxremote.{key}={value}" for key, value in remote.items()]
    jvm.append("-Djava.rmi.server.hostname=127.0.0.1")
    settings = {**SETTINGS, **names, "group.id": f"{topic_name}-theirs"}
    with (
        KafkaConnect(kafka.bootstrap_servers, directory, free_port(), settings, jvm) as connect,
        JmxValues(port) as read,
    ):
        yield Side(connect.url, lambda: dict(_read(read)))


def _read(read: JmxValues) -> Iterator[tuple[str, float]]:
    for keys, attribute, text in read():
        try:
            value = float(text)
        except ValueError:
            continue
        yield _key(f"{keys['type']}_{attribute}".replace("-", "_"), keys), value


def _key(name: str, labels: Mapping[str, str]) -> str:
    """Return the name with the connector, without the part of its name that the side has chosen, and with the task."""
    connector = labels.get("connector", "").rpartition("-")[2]
    return " ".join(filter(None, (name, connector, labels.get("task", ""))))


def test_metrics_have_the_values_that_kafka_connect_has_for_the_same_connectors(
    ours: Side, theirs: Side, kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    data = f"{topic_name}-data"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(data, partitions=2, replication=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(VALUES):
        producer.produce(data, "no JSON" if number < BROKEN else str(number), partition=number % 2)
    assert producer.flush(60) == 0
    lines = tmp_path / "lines"
    lines.write_text("".join(f"line {number}\n" for number in range(LINES)))
    for side, name in ((ours, f"{topic_name}-ours"), (theirs, f"{topic_name}-theirs")):
        _create(side, name, data, lines)
    eventually(lambda: _settled(ours) and _settled(theirs), within_s=SLOW_S)
    eventually(lambda: _compared(ours.values(), theirs.values()), within_s=60)


def _create(side: Side, name: str, data: str, lines: Path) -> None:
    json = {"value.converter": _JSON, "value.converter.schemas.enable": "false", "key.converter": _STRING}
    source = {"connector.class": _FILE.format("Source"), "file": str(lines), "topic": f"{name}-lines"}
    sink = {"connector.class": _FILE.format("Sink"), "file": f"{lines}-{name}", "topics": data, **json}
    letters = {
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.deadletterqueue.topic.name": f"{name}-letters",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    configs = {
        "source": source,
        "sink": {**sink, **letters},
        "failing": sink,
        "paused": {**source, "file": f"{lines}-none"},
    }
    for kind, config in configs.items():
        body = {"name": f"{name}-{kind}", "config": {**config, "tasks.max": "1"}}

        def created(body: Mapping[str, object] = body) -> bool:  # Kafka Connect refuses while it expects a rebalance
            answer = httpx.post(f"{side.url}/connectors", json=body, timeout=90)
            return answer.status_code == 201 or "already exists" in answer.text

        eventually(created, within_s=SLOW_S)
    # One that is created as PAUSED has no tasks, on either side.
    eventually(lambda: side.values().get(f"{WORKER}_connector_running_task_count paused") == 1, within_s=SLOW_S)
    eventually(lambda: httpx.put(f"{side.url}/connectors/{name}-paused/pause").status_code == 202, within_s=SLOW_S)


def _settled(side: Side) -> bool:
    found = side.values()
    wanted = {
        f"{SOURCE}_source_record_write_total source 0": LINES,
        f"{SINK}_sink_record_send_total sink 0": VALUES - BROKEN,
        f"{SINK}_sink_record_active_count sink 0": 0,
        f"{SOURCE}_source_record_active_count source 0": 0,
        f"{WORKER}_connector_failed_task_count failing": 1,
        f"{WORKER}_connector_paused_task_count paused": 1,
    }
    left = {key: found.get(key) for key, value in wanted.items() if found.get(key) != value}
    if left:
        raise AssertionError(side.url, left, httpx.get(f"{side.url}/connectors?expand=status").text)
    return True


def _compared(here: Values, there: Values) -> bool:
    differ = {key: (here.get(key), there.get(key)) for key in EQUAL if not _are_equal(here.get(key), there.get(key))}
    idle = {key: (here.get(key), there.get(key)) for key in POSITIVE if not (here.get(key, 0) > 0 < there.get(key, 0))}
    if differ or idle:
        raise AssertionError(f"here and there: {differ} {idle}")
    return True


def _are_equal(here: float | None, there: float | None) -> bool:
    return here is not None and there is not None and math.isclose(here, there, abs_tol=1e-9)
