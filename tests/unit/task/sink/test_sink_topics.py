"""Records of several topics, whose schemas differ, stay columns: what `put` receives is the same as one by one."""

from typing import Any

import pytest

from fencepost.api import SinkRecord
from fencepost.builtin.converter.plain import ByteArrayConverter, SimpleHeaderConverter
from fencepost.builtin.converter.registry.avro.converter import AvroConverter
from fencepost.builtin.converter.registry.wire import VALUE_HEADER, guid_header
from fencepost.builtin.transform.chain import Chain
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import Schema, TopicPartition
from fencepost.record.schema import INT32, STRING
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.sink.processing import SinkProcessor
from support.memory_registry import MemoryRegistry, with_registry

A = Schema.struct({"n": INT32}, name="shop.A")
B = Schema.struct({"name": STRING}, name="shop.B")
PLACES = [TopicPartition("a", 0), TopicPartition("b", 1), TopicPartition("a", 1), TopicPartition("b", 0)]


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


@pytest.fixture
def processor(registry: MemoryRegistry) -> SinkProcessor:
    tolerance = Tolerance(False, 0, 1, False, False, Control(is_paused=False), "c-0")
    return SinkProcessor(
        Chain(), ByteArrayConverter({}), with_registry(AvroConverter, registry), SimpleHeaderConverter({}), tolerance
    )


def fetched(registry: MemoryRegistry, headers: Any = None) -> Fetched:
    writer = with_registry(AvroConverter, registry)
    values = [
        writer.from_connect_data("a", A, {"n": 1}),
        writer.from_connect_data("b", B, {"name": "x"}),
        writer.from_connect_data("a", A, {"n": 2}),
        writer.from_connect_data("b", B, {"name": "y"}),
    ]
    return Fetched(PLACES, [5, 6, 7, 8], [1, 2, 3, 4], [b"k", None, b"l", b"m"], values, headers)


def test_topics_with_different_schemas_stay_columns(
    processor: SinkProcessor, registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = fetched(registry)
    expected: list[SinkRecord] = list(processor._one_by_one(found, range(4)))
    monkeypatch.setattr(processor.value_converter, "to_connect_record", lambda *_: pytest.fail("record by record"))
    assert list(processor.process(found)) == expected
    assert [record.value for record in expected] == [{"n": 1}, {"name": "x"}, {"n": 2}, {"name": "y"}]


def test_schema_ids_in_headers_are_used(processor: SinkProcessor, registry: MemoryRegistry) -> None:
    whole = fetched(registry)
    headers, values = [], []
    for place, value in zip(whole.places, whole.values, strict=True):
        (written,) = registry.subjects[f"{place.topic}-value"]
        guid = registry.register(f"{place.topic}-value", written).guid
        assert guid is not None
        headers.append([(VALUE_HEADER, guid_header(guid))])
        values.append((value or b"")[5:])
    found = Fetched(whole.places, whole.offsets, whole.timestamps, whole.keys, values, headers)
    read = processor.process(found)
    assert [record.value for record in read] == [{"n": 1}, {"name": "x"}, {"n": 2}, {"name": "y"}]
