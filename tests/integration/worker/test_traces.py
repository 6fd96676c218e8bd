"""A trace from a source to a sink: over a broker, through a worker and its slots, to a collector."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message
from file_connector import append, created, file_source, numbered

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.cluster import WorkerOfRun
from support.collector import Collector
from support.long_form import IS_LONG
from support.worker import Worker

JSON = "org.apache.kafka.connect.json.JsonConverter"
COLUMNS = "id INT, name STRING"
EARLIEST = "consumer.override.auto.offset.reset"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture
def traced(kafka: EmbeddedKafka, collector: Collector, tmp_path: Path) -> Iterator[Worker]:
    settings = {
        "otel.traces.exporter": "otlp",
        "otel.exporter.otlp.endpoint": collector.url,
        "otel.bsp.schedule.delay": "100",
        "offset.flush.interval.ms": "500",
        "spark.master": "local[4]",
        "slots.max": "1",
    }
    with WorkerOfRun(kafka.bootstrap_servers, tmp_path, settings, group=f"traced-{uuid.uuid4().hex[:6]}") as running:
        eventually(running.slots, within_s=200)
        yield running


def test_a_trace_goes_from_the_source_through_the_records_to_the_sink(
    traced: Worker, kafka: EmbeddedKafka, collector: Collector, topic_name: str, tmp_path: Path
) -> None:
    file, out = tmp_path / "in.txt", tmp_path / "out.txt"
    append(file, numbered(1, 100))
    created(traced, "reads", file_source(file, topic_name))
    sink = {"connector.class": "FileStreamSink", "file": str(out), "topics": topic_name}
    created(traced, "writes", {**sink, "consumer.override.auto.offset.reset": "earliest"})
    eventually(lambda: out.exists() and len(out.read_text().splitlines()) == 100, within_s=120)
    parents = {dict(message.headers() or ())["traceparent"].decode() for message in _read(kafka, topic_name, 100)}
    contexts = {tuple(parent.split("-")[1:3]) for parent in parents}

    def sent() -> bool:
        return {(s.trace_id, s.span_id) for s in collector.named(f"send {topic_name}")} == contexts

    eventually(sent, within_s=60)
    source = collector.named(f"send {topic_name}", fencepost_connector="reads")
    assert sum(span.attributes["messaging.batch.message_count"] for span in source) == 100

    def linked() -> bool:
        spans = collector.named(f"process {topic_name}", messaging_consumer_group_name="connect-writes")
        return {link for span in spans for link in span.links} == contexts

    eventually(linked, within_s=60)
    for connector in ("reads", "writes"):
        wanted = {"fencepost_connector": connector, "fencepost_outcome": "committed"}
        eventually(lambda wanted=wanted: collector.named("commit", **wanted), within_s=60)
    assert 'fencepost_task_spans_dropped_total{connector="reads",task="0"} 0.0' in traced.rest.get("/metrics").text


@pytest.mark.skipif(not IS_LONG, reason="needs a Spark of its own: make chaos")
def test_dataframe_tasks_are_traced_and_their_records_carry_the_context(
    traced: Worker, kafka: EmbeddedKafka, collector: Collector, topic_name: str, tmp_path: Path
) -> None:
    inbox, out = tmp_path / "in", tmp_path / "out"
    inbox.mkdir()
    out.mkdir()
    (inbox / "a.csv").write_text("id,name\n1,a\n2,b\n")
    converters = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    source = {"connector.class": "SpoolDirectorySource", "input.path": str(inbox), "input.schema": COLUMNS}
    created(traced, "spools", {**source, **converters, "reader.header": "true", "topic": topic_name})
    sink = {"connector.class": "FilesSink", "path": str(out), "topics": topic_name, "value.schema": COLUMNS}
    created(traced, "files", {**sink, **converters, "epoch.interval.ms": "200", EARLIEST: "earliest"})
    parents = {dict(message.headers() or ())["traceparent"].decode() for message in _read(kafka, topic_name, 2)}
    contexts = {tuple(parent.split("-")[1:3]) for parent in parents}

    def spans() -> bool:
        return {(s.trace_id, s.span_id) for s in collector.named(f"send {topic_name}")} == contexts

    eventually(spans, within_s=60)
    for connector, name, count in (
        ("spools", f"send {topic_name}", ("messaging.batch.message_count", 2)),
        ("files", f"process {topic_name}", ("fencepost.offsets", 3)),  # with the marker of the transaction
    ):
        wanted = {"fencepost_connector": connector}
        eventually(lambda name=name, wanted=wanted: collector.named(name, **wanted), within_s=120)
        [batch] = collector.named(name, **wanted)
        assert count in batch.attributes.items()
        commits = eventually(lambda wanted=wanted: collector.named("commit", **wanted), within_s=60)
        assert [span.parent_id for span in commits] == [batch.span_id]
    assert {"write", "publish"} <= {span.name for span in collector.spans if span.parent_id == batch.span_id}
    assert 'fencepost_task_spans_dropped_total{connector="files",task="0"} 0.0' in traced.rest.get("/metrics").text


def _read(kafka: EmbeddedKafka, topic: str, count: int) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    found: list[Message] = []

    def records() -> list[Message]:  # and no event, such as that the topic is not there yet
        return [message for message in consumer.consume(count, 1.0) if message.error() is None]

    try:
        consumer.subscribe([topic])
        eventually(lambda: found.extend(records()) or len(found) >= count, within_s=60)
    finally:
        consumer.close()
    return found
