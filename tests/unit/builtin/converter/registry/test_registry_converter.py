"""What a converter asks a registry for, how often, and what it does with whole columns."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import pytest

from fencepost.api import ConfigError, Converter, FatalError, RecordError, Repeated, Schema, UnavailableError
from fencepost.builtin.converter.plain import ByteArrayConverter, StringConverter
from fencepost.builtin.converter.registry.avro.converter import AvroConverter
from fencepost.builtin.converter.registry.client import Cache, Reference, WrittenSchema
from fencepost.builtin.converter.registry.settings import HEADER_ID, PREFIX_ID
from fencepost.builtin.transform.chain import Chain
from fencepost.record import Batch, Header, HeaderBytes, HeaderColumn
from fencepost.record.schema import INT32, INT64, STRING
from fencepost.task.control import Control
from fencepost.task.conversion.columns import values_to_bytes
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.source.processing import Processor
from support.memory_registry import MemoryRegistry, with_registry

SUBJECT = "io.confluent.kafka.serializers.subject."
PERSON = Schema.struct({"name": STRING, "age": INT32.optional()}, name="shop.Person")
WIDER = Schema.struct({"name": STRING, "age": INT32.optional(), "id": INT64.optional()}, name="shop.Person")
ANN = {"name": "Ann", "age": 30}


def converter(registry: MemoryRegistry, kind: str = "value", **settings: str) -> AvroConverter:
    return with_registry(AvroConverter, registry, kind, **settings)


def test_avro_converter_asks_the_registry_once_per_schema() -> None:
    registry = MemoryRegistry(first_id=258)
    avro = converter(registry)
    data = [avro.from_connect_data("t", PERSON, {**ANN, "age": age}) for age in range(20)]
    assert data[0] == b"\0\0\0\1\2" + b"\6Ann\2\0"
    schema, value = avro.to_connect_data("t", data[7])
    assert (schema.name if schema else None, schema.version if schema else None, value) == (
        "shop.Person",
        1,
        {**ANN, "age": 7},
    )
    for each in data:
        avro.to_connect_data("t", each)
    assert registry.subjects.keys() == {"t-value"}
    assert registry.asked == {"register": 1, "schema": 1, "referenced": 1, "version": 1}


@pytest.mark.parametrize(
    ("strategy", "kind", "subject"),
    [
        (f"{SUBJECT}TopicNameStrategy", "key", "t-key"),
        (f"{SUBJECT}RecordNameStrategy", "value", "shop.Person"),
        (f"{SUBJECT}TopicRecordNameStrategy", "key", "t-shop.Person"),
        ("TopicNameStrategy", "value", "t-value"),
    ],
)
def test_subject_name_follows_the_configured_strategy(strategy: str, kind: str, subject: str) -> None:
    registry = MemoryRegistry()
    avro = converter(registry, kind, **{f"{kind}.subject.name.strategy": strategy})
    assert avro.to_connect_data("t", avro.from_connect_data("t", PERSON, ANN))[1] == ANN
    assert list(registry.subjects) == [subject]


def test_unnamed_schema_is_refused_by_the_record_name_strategy() -> None:
    avro = converter(MemoryRegistry(), value_subject_name_strategy=f"{SUBJECT}RecordNameStrategy")
    with pytest.raises(RecordError, match="has no name"):
        avro.from_connect_data("t", STRING, "x")


def test_registry_converter_reports_all_setting_errors_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        AvroConverter(
            {
                "schema.registry.url": "localhost:8081",
                "value.subject.name.strategy": "com.acme.Strategy",
                "basic.auth.credentials.source": "USER_INFO",
                "bearer.auth.credentials.source": "OAUTHBEARER",
            }
        )
    for part in ("localhost:8081", "com.acme.Strategy", "user:password", "bearer.auth.client.secret"):
        assert part in str(caught.value)


def test_registry_converter_names_the_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "fencepost.builtin.converter.registry.converter.find_spec",
        lambda name: None if name == "fastavro" else find_spec(name),
    )
    with pytest.raises(ConfigError, match=r"fastavro.*pip install 'fencepost\[avro\]'"):
        AvroConverter({"schema.registry.url": "http://r"})
    values = AvroConverter.validate_values({"schema.registry.url": "http://r"})
    assert [v.setting.key for v in values if v.errors] == ["schema.registry.url"]


def test_registry_converter_passes_tombstones_in_both_directions() -> None:
    registry = MemoryRegistry()
    avro = converter(registry)
    assert avro.from_connect_data("t", None, None) is None
    assert avro.from_connect_data("t", PERSON.optional(), None) is None
    assert avro.to_connect_data("t", None) == (None, None)
    assert not registry.asked
    with pytest.raises(RecordError, match="null"):
        avro.from_connect_data("t", PERSON, None)


def test_registry_converter_refuses_a_schemaless_value_with_advice() -> None:
    with pytest.raises(RecordError, match=r"needs a schema.*JsonConverter"):
        converter(MemoryRegistry()).from_connect_data("t", None, ANN)


def column_of(avro: Converter, topic: str, schema: Schema, values: Any) -> Any:
    return values_to_bytes(avro.for_topic(topic), schema, values)


def test_registry_converter_writes_columns_as_their_single_records() -> None:
    registry = MemoryRegistry()
    avro = converter(registry)
    rows = [{**ANN, "age": age} for age in (1, None, 3)]
    written = column_of(avro, "t", PERSON, rows)
    assert written == [avro.from_connect_data("t", PERSON, row) for row in rows]
    assert avro.for_topic("t").to_column(written) == (avro.to_connect_data("t", written[0])[0], rows)
    assert avro.from_column(PERSON, rows) is None, "a subject needs a topic"
    again = column_of(avro, "t", PERSON, Repeated(ANN, 5))
    assert isinstance(again, Repeated)
    assert again.value == avro.from_connect_data("t", PERSON, ANN)


def test_registry_converter_keeps_tombstones_in_columns() -> None:
    avro = converter(MemoryRegistry())
    written = column_of(avro, "t", PERSON.optional(), [ANN, None])
    assert (written[0] is None, written[1]) == (False, None)
    assert avro.for_topic("t").to_column(written) is None, "the two do not share a schema"
    assert avro.for_topic("t").to_column([None, None]) == (None, [None, None])


def test_registry_converter_registers_a_subject_per_topic() -> None:
    registry = MemoryRegistry()
    avro = converter(registry)
    column_of(avro, "t", PERSON, [ANN])
    column_of(avro, "u", PERSON, [ANN])
    assert registry.subjects.keys() == {"t-value", "u-value"}
    assert avro.for_topic("t") is avro.for_topic("t")


def test_column_with_several_schema_ids_is_read_record_by_record() -> None:
    avro = converter(MemoryRegistry())
    mixed = [avro.from_connect_data("t", PERSON, ANN), avro.from_connect_data("t", WIDER, {**ANN, "id": 1})]
    assert avro.for_topic("t").to_column(mixed) is None
    assert [avro.to_connect_data("t", each)[1] for each in mixed] == [ANN, {**ANN, "id": 1}]


def test_unreachable_registry_is_no_record_error() -> None:
    registry = MemoryRegistry()
    avro = converter(registry)
    data = avro.from_connect_data("t", PERSON, ANN)
    registry.is_away = True
    assert avro.from_connect_data("t", PERSON, ANN) == data, "what is known needs no registry"
    with pytest.raises(UnavailableError):
        avro.from_connect_data("u", PERSON, ANN)
    with pytest.raises(UnavailableError):
        avro.to_connect_data("t", data)
    assert column_of(avro, "u", PERSON, [ANN]) is None, "record by record, it is tried again"
    registry.is_away = False
    assert avro.to_connect_data("t", data)[1] == ANN


def test_without_auto_register_only_known_schemas_are_written() -> None:
    registry = MemoryRegistry()
    avro = converter(registry, auto_register_schemas="false")
    with pytest.raises(RecordError, match="no such schema"):
        avro.from_connect_data("t", PERSON, ANN)
    converter(registry).from_connect_data("t", PERSON, ANN)
    assert avro.from_connect_data("t", PERSON, ANN) is not None


def test_values_are_written_with_the_latest_version_by_field_name() -> None:
    registry = MemoryRegistry()
    converter(registry).from_connect_data("t", WIDER, {**ANN, "id": None})
    avro = converter(registry, auto_register_schemas="false", use_latest_version="true")
    data = avro.from_connect_data("t", PERSON, ANN)
    assert avro.to_connect_data("t", data)[1] == {**ANN, "id": None}


@pytest.mark.parametrize("is_strict", ["true", "false"])
def test_field_missing_in_the_latest_version_is_refused_only_if_strict(is_strict: str) -> None:
    registry = MemoryRegistry()
    converter(registry).from_connect_data("t", PERSON, ANN)
    settings = {"auto_register_schemas": "false", "use_latest_version": "true"}
    avro = converter(registry, latest_compatibility_strict=is_strict, **settings)
    if is_strict == "true":
        with pytest.raises(RecordError, match="id is not a valid field name"):
            avro.from_connect_data("t", WIDER, {**ANN, "id": 1})
    else:
        data = avro.from_connect_data("t", WIDER, {**ANN, "id": 1})
        assert avro.to_connect_data("t", data)[1] == ANN


def test_schema_id_can_be_written_to_a_header() -> None:
    registry = MemoryRegistry()
    avro = converter(registry, value_schema_id_serializer=HEADER_ID)
    headers: list[HeaderBytes] = [("a", b"1")]
    data = avro.from_connect_record("t", headers, PERSON, ANN)
    assert data == b"\6Ann\2\x3c"
    assert [name for name, _ in headers] == ["a", "__value_schema_id"]
    assert converter(registry).to_connect_record("t", headers, data)[1] == ANN
    assert column_of(avro, "t", PERSON, [ANN]) is None
    assert "__value_schema_id" in avro.headers_read
    with pytest.raises(FatalError, match="header"):
        avro.from_connect_data("t", PERSON, ANN)


def test_last_schema_id_header_wins_as_in_java() -> None:
    registry = MemoryRegistry()
    avro = converter(registry, value_schema_id_serializer=HEADER_ID)
    headers: list[HeaderBytes] = []
    avro.from_connect_record("t", headers, WIDER, {**ANN, "id": 1})
    own: list[HeaderBytes] = []
    data = avro.from_connect_record("t", own, PERSON, ANN)
    assert avro.to_connect_record("t", [*headers, *own], data)[1] == ANN


@pytest.mark.parametrize("place", [HEADER_ID, PREFIX_ID])
def test_schema_id_header_of_a_read_record_is_not_written_again(place: str) -> None:
    registry = MemoryRegistry()
    headers: list[HeaderBytes] = [("a", b"1"), ("__key_schema_id", b"k")]
    converter(registry, value_schema_id_serializer=HEADER_ID).from_connect_record("t", headers, WIDER, {**ANN, "id": 1})
    avro = converter(registry, value_schema_id_serializer=place)
    data = avro.from_connect_record("u", headers, PERSON, ANN)
    assert [name for name, _ in headers] == ["a", "__key_schema_id", "__value_schema_id"][
        : 3 if place == HEADER_ID else 2
    ]
    assert avro.to_connect_record("u", headers, data)[1] == ANN


def test_schema_id_headers_of_a_read_batch_are_removed() -> None:
    tolerance = Tolerance(False, 0, 1, False, False, Control(is_paused=False), "c-0")
    avro = converter(MemoryRegistry())
    processor = Processor(Chain(), StringConverter({}), avro, ByteArrayConverter({}), tolerance)
    own = [(("a", b"1"), ("__value_schema_id", b"\1" + bytes(16)))] * 2
    read: list[Sequence[tuple[Header, ...]]] = [HeaderColumn(own), [tuple(Header(*pair) for pair in own[0])] * 2]
    for headers in read:
        batch = Batch(["t", "u"], [ANN, ANN], [{}, {}], [{}, {}], PERSON, headers=headers)
        outgoing = processor.process(batch)
        assert isinstance(outgoing, OutgoingColumns)
        assert [list(each) for each in outgoing.headers or ()] == [[("a", b"1")]] * 2
        assert avro.to_connect_record("u", (outgoing.headers or ())[1], outgoing.values[1])[1] == ANN


def test_registry_schema_of_another_format_is_refused() -> None:
    registry = MemoryRegistry()
    key = registry.register("t-value", WrittenSchema("JSON", "{}"))
    with pytest.raises(RecordError, match=r"type JSON.*AvroConverter"):
        converter(registry).to_connect_data("t", b"\0" + (key.id or 0).to_bytes(4, "big"))


def test_avro_converter_reads_referenced_schemas() -> None:
    registry = MemoryRegistry()
    place = '{"type":"record","name":"shop.Place","fields":[{"name":"city","type":"string"}]}'
    home = '{"type":"record","name":"shop.Home","fields":[{"name":"at","type":"Place"}]}'
    registry.register("place", WrittenSchema("AVRO", place))
    registered = registry.register("t-value", WrittenSchema("AVRO", home, (Reference("shop.Place", "place", 1),)))
    data = b"\0" + (registered.id or 0).to_bytes(4, "big") + b"\x04Zu"
    assert converter(registry).to_connect_data("t", data)[1] == {"at": {"city": "Zu"}}


def test_registry_cache_size_follows_its_setting() -> None:
    registry = MemoryRegistry()
    avro = converter(registry, schemas_cache_config="1")
    for _ in range(2):
        avro.from_connect_data("t", PERSON, ANN)
        avro.from_connect_data("t", WIDER, {**ANN, "id": 1})
    assert registry.asked["register"] == 4


def test_registry_converter_hides_its_secrets() -> None:
    avro = AvroConverter(
        {
            "schema.registry.url": "http://r",
            "basic.auth.credentials.source": "USER_INFO",
            "basic.auth.user.info": "me:canary",
        }
    )
    assert "canary" not in repr(vars(avro)["_values"])


def test_missing_schema_version_is_requested_again_after_a_while() -> None:
    registry = MemoryRegistry()
    data = converter(registry).from_connect_data("t", PERSON, ANN)
    versions = registry.subjects.pop("t-value")
    reader, now = converter(registry), [0.0]
    reader.__dict__["_asked"] = Cache(10, 10.0, lambda: now[0])

    def version() -> int | None:
        schema, _ = reader.to_connect_data("t", data)
        assert schema is not None
        return schema.version

    assert version() is None
    registry.subjects["t-value"] = versions
    now[0] = 9.0
    assert version() is None
    now[0] = 11.0
    assert version() == 1
    asked = registry.asked["version"]
    now[0] = 30.0
    assert version() == 1
    assert registry.asked["version"] == asked


def test_schema_without_a_version_stays_readable_when_the_registry_is_away() -> None:
    registry = MemoryRegistry()
    data = [converter(registry).from_connect_data(topic, PERSON, ANN) for topic in ("t", "u")]
    versions = registry.subjects.pop("t-value")
    del registry.subjects["u-value"]
    reader, now = converter(registry), [0.0]
    reader.__dict__["_asked"] = Cache(10, 10.0, lambda: now[0])
    for topic, each in zip("tu", data, strict=True):
        reader.to_connect_data(topic, each)
    registry.is_away, now[0] = True, 11.0
    asked = registry.asked.total()
    for topic, each in zip("tut", [*data, data[0]], strict=True):
        assert reader.to_connect_data(topic, each)[1] == ANN
    assert registry.asked.total() == asked + 1, "an answer may be waited for for long"
    registry.is_away, registry.subjects["t-value"], now[0] = False, versions, 312.0
    schema, _ = reader.to_connect_data("t", data[0])
    assert schema is not None
    assert schema.version == 1
