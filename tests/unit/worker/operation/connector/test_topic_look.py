"""Which topics are read for people, and how their records are shown."""

import struct
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.api import FatalError, RecordError, RetriableError, Schema
from fencepost.builtin.converter.plain import LongConverter
from fencepost.builtin.converter.registry.avro.converter import AvroConverter
from fencepost.cluster.errors import BadRequestError, NotFoundError
from fencepost.cluster.topic_records import EARLIEST, RecordQuery
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.errors import MissingTopicError
from fencepost.kafka.read.browse import TopicRecord
from fencepost.record.schema import INT32
from fencepost.worker.operation.connector.topic_records import RecordView, TopicRecords, read_page
from fencepost.worker.settings import WorkerSettings
from support.memory_registry import MemoryRegistry, with_registry
from support.settings import SETTINGS

_LONG = "org.apache.kafka.connect.converters.LongConverter"


def records_of(config: dict[str, str], used: list[str], worker: dict[str, str] = SETTINGS) -> TopicRecords:
    snapshot = SimpleNamespace(connectors={"c": config}, task_configs=lambda name: [])
    requests: Any = SimpleNamespace(known=lambda name: snapshot, asking=lambda stage: nullcontext())
    settings = WorkerSettings(WorkerConfig(worker), "http://w:1", "me")
    return TopicRecords(requests, settings, lambda name: used)


SINK = {"name": "c", "connector.class": "FileStreamSink", "topics": "orders", "file": "/f"}


@pytest.mark.parametrize("topic", ["connect-configs", "__consumer_offsets"])
def test_the_workers_own_topics_are_not_shown(topic: str) -> None:
    records = records_of(SINK | {"topics": topic}, [])
    for read in (lambda: records.records(topic, RecordQuery()), lambda: records.records_of("c", topic, RecordQuery())):
        with pytest.raises(BadRequestError, match=f"{topic}: this topic is the workers' or Kafka's own"):
            read()


def test_a_topic_that_the_connector_does_not_use_is_not_shown() -> None:
    with pytest.raises(BadRequestError, match="salaries is not a topic that c is known to read or write: orders"):
        records_of(SINK, ["orders"]).records_of("c", "salaries", RecordQuery())


def test_values_are_shown_as_their_converter_reads_them() -> None:
    view = RecordView("t", {"value.converter": _LONG, "key.converter": "org.apache.kafka.connect.json.JsonConverter"})
    shown = view.shown(TopicRecord(0, 1, 2, b'{"a": 1}', struct.pack(">q", 17), (("h", b"x"),)))
    assert [one and one.text for one in (shown.key, shown.value, shown.headers[0].value)] == ['{"a": 1}', "17", "x"]
    assert shown.fault is None


def test_avro_is_shown_as_json() -> None:
    registry = MemoryRegistry()
    avro = with_registry(AvroConverter, registry)
    view = RecordView(
        "t",
        {
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": "http://r:1",
        },
    )
    assert type(view._converters["value"]) is AvroConverter
    view._converters["value"] = avro
    data = avro.from_connect_data("t", Schema.struct({"n": INT32}, name="shop.N"), {"n": 7})
    shown = view.shown(TopicRecord(0, 1, 2, None, data))
    assert (shown.value and shown.value.text, shown.fault) == ('{"n":7}', None)


def test_bytes_that_a_converter_cannot_read_are_shown_with_the_reason() -> None:
    shown = RecordView("t", {"value.converter": _LONG}).shown(TopicRecord(0, 1, 2, None, b"no long"))
    assert (shown.value and shown.value.text, shown.key) == ("no long", None)
    assert shown.fault is not None
    assert shown.fault.startswith("value: ")


@pytest.mark.parametrize(
    "error", [RetriableError("the registry is away"), FatalError("no certificate"), KeyError("id")]
)
def test_converter_that_fails_is_asked_once_for_a_page(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    asked = converting(monkeypatch, error)
    view = RecordView("t", {"value.converter": _LONG})
    shown = [view.shown(TopicRecord(0, at, 2, None, b"%d" % at)) for at in range(3)]
    assert (len(asked), {one.fault for one in shown}) == (1, {f"value: {error}"})
    assert [one.value and one.value.text for one in shown] == ["0", "1", "2"]


def test_slow_registry_is_not_asked_once_a_page_has_taken_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, now_s = converting(monkeypatch, RecordError("no such schema")), iter(range(0, 100, 4))
    monkeypatch.setattr("fencepost.worker.operation.connector.topic_records.time.monotonic", lambda: next(now_s))
    view = RecordView("t", {"value.converter": _LONG})
    shown = [view.shown(TopicRecord(0, at, 2, None, b"%d" % at)) for at in range(9)]
    assert len(asked) == 1
    assert [one.value and one.value.text for one in shown] == [str(at) for at in range(9)]
    assert shown[-1].fault == "value: converting the records before took too long; ask for fewer"


def test_reading_a_topic_logs_no_warning_about_the_config(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def browser(*_: object, **__: object) -> None:
        raise MissingTopicError("there is no such topic", 3)

    monkeypatch.setattr("fencepost.worker.operation.connector.topic_records.TopicBrowser", browser)
    settings = SETTINGS | {"value.converter": _LONG, "value.converter.x": "1", "bootstrap.servers": "127.0.0.1:1"}
    config = SINK | {"value.converter.schemas.enable": "false"}
    records = records_of(config, [], settings)
    for _ in range(2):
        with pytest.raises(NotFoundError, match="there is no such topic"):
            records.records_of("c", "orders", RecordQuery())
    assert "no effect" not in caplog.text


def test_slow_range_without_records_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next page would begin there again, and so would all pages after it."""
    now_s = [0.0]

    def read(ranges: object) -> Iterator[TopicRecord]:
        now_s[0] += 100.0
        return iter(())

    monkeypatch.setattr("fencepost.worker.operation.connector.topic_records.time.monotonic", lambda: now_s[0])
    browser: Any = SimpleNamespace(ranges={0: (3, 900), 1: (5, 7)}, read=read)
    assert read_page(browser, {}, RecordQuery(EARLIEST)).next == {0: 900, 1: 5}


def converting(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[bytes | None]:
    """Let a converter raise an error, and return what it is asked for."""
    asked: list[bytes | None] = []

    def convert(self: object, topic: str, headers: object, data: bytes | None) -> None:
        asked.append(data)
        raise error

    monkeypatch.setattr(LongConverter, "to_connect_record", convert)
    return asked
