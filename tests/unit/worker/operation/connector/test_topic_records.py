"""Which topics are read for people, and how their records are shown."""

import struct
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.cluster.errors import BadRequestError
from fencepost.cluster.topic_records import RecordQuery
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.read.browse import TopicRecord
from fencepost.worker.operation.connector.shown_record import RecordView
from fencepost.worker.operation.connector.topic_records import TopicRecords
from fencepost.worker.settings import WorkerSettings
from support.settings import SETTINGS

_LONG = "org.apache.kafka.connect.converters.LongConverter"


def records_of(config: dict[str, str], used: list[str]) -> TopicRecords:
    snapshot = SimpleNamespace(connectors={"c": config}, task_configs=lambda name: [])
    requests: Any = SimpleNamespace(known=lambda name: snapshot, asking=lambda stage: nullcontext())
    settings = WorkerSettings(WorkerConfig(SETTINGS), "http://w:1", "me")
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


def test_bytes_that_a_converter_cannot_read_are_shown_with_the_reason() -> None:
    shown = RecordView("t", {"value.converter": _LONG}).shown(TopicRecord(0, 1, 2, None, b"no long"))
    assert (shown.value and shown.value.text, shown.key) == ("no long", None)
    assert shown.fault is not None
    assert shown.fault.startswith("value: ")


def test_a_registry_that_is_away_is_asked_once_for_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    from fencepost.api import RetriableError
    from fencepost.converter.number import LongConverter

    asked: list[bytes | None] = []

    def away(self: object, topic: str, headers: object, data: bytes | None) -> None:
        asked.append(data)
        raise RetriableError("the registry is away")

    monkeypatch.setattr(LongConverter, "to_connect_record", away)
    view = RecordView("t", {"value.converter": _LONG})
    shown = [view.shown(TopicRecord(0, at, 2, None, b"%d" % at)) for at in range(3)]
    assert (len(asked), {one.fault for one in shown}) == (1, {"value: the registry is away"})
