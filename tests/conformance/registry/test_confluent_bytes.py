"""The bytes are those of confluent-kafka's serialisers, at the same real registry, in both directions."""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.api.errors import LaggingError
from fencepost.builtin.converter.registry.avro.converter import AvroConverter
from fencepost.builtin.converter.registry.converter import RegistryConverter
from fencepost.builtin.converter.registry.json_schema.converter import JsonSchemaConverter
from fencepost.record.schema import BOOLEAN, DATE, FLOAT64, INT32, INT64, STRING, TIMESTAMP, decimal

ROW = Schema.struct(
    {
        "id": INT64,
        "name": STRING,
        "nick": STRING.optional(),
        "on": BOOLEAN,
        "load": FLOAT64,
        "tags": Schema(SchemaType.ARRAY, value_schema=STRING),
        "seats": Schema(SchemaType.MAP, key_schema=STRING, value_schema=INT32),
        "place": Schema.struct({"city": STRING}, name="shop.Place").optional(),
    },
    name="shop.Row",
)
ROWS: list[dict[str, Any]] = [
    {
        "id": n,
        "name": f"Zoë {n}",
        "nick": None if n % 2 else "z",
        "on": n % 3 == 0,
        "load": n / 4,
        "tags": ["a"] * n,
        "seats": {"7A": n},
        "place": {"city": "Zürich"} if n % 2 else None,
    }
    for n in range(6)
]
LOGICAL = Schema.struct({"at": TIMESTAMP, "day": DATE, "price": decimal(2)}, name="shop.Price")
PRICE = {
    "at": dt.datetime(2026, 11, 26, 1, 2, 3, 456000, tzinfo=dt.UTC),
    "day": dt.date(2026, 11, 26),
    "price": Decimal("-1.50"),
}


@pytest.fixture
def client(registry_url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry_url}) as made:
        yield made


def made(cls: type[RegistryConverter], url: str, **settings: str) -> RegistryConverter:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return cls({"schema.registry.url": url, "converter.type": "value", **given})


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def text_of(client: SchemaRegistryClient, topic: str) -> str:
    found = client.get_latest_version(f"{topic}-value").schema.schema_str
    assert found is not None
    return found


@pytest.mark.parametrize(("schema", "rows"), [(ROW, ROWS), (LOGICAL, [PRICE])], ids=["plain", "logical"])
def test_avro_bytes_equal_those_of_confluents_serializer(
    client: SchemaRegistryClient, registry_url: str, topic_name: str, schema: Schema, rows: list[Any]
) -> None:
    ours = made(AvroConverter, registry_url)
    written = ours.for_topic(topic_name).from_column(schema, rows)
    assert written is not None
    theirs = AvroSerializer(client, text_of(client, topic_name), conf={"auto.register.schemas": False})
    assert [theirs(row, value_of(topic_name)) for row in rows] == list(written)
    reader = AvroDeserializer(client)
    assert [reader(data, value_of(topic_name)) for data in written] == rows
    read = made(AvroConverter, registry_url).for_topic(topic_name).to_column(written)
    assert read is not None
    assert list(read[1]) == rows


def test_json_bytes_equal_those_of_confluents_serializer(
    client: SchemaRegistryClient, registry_url: str, topic_name: str
) -> None:
    ours = made(JsonSchemaConverter, registry_url)
    written = ours.for_topic(topic_name).from_column(ROW, ROWS)
    assert written is not None
    theirs = JSONSerializer(text_of(client, topic_name), client, conf={"auto.register.schemas": False})
    other = made(JsonSchemaConverter, registry_url)
    for row, data in zip(ROWS, written, strict=True):
        by_them = theirs(row, value_of(topic_name))
        assert by_them is not None
        assert by_them[:5] == bytes(data or b"")[:5]
        assert other.to_connect_data(topic_name, by_them)[1] == row
        reader = JSONDeserializer(text_of(client, topic_name), schema_registry_client=client)
        assert reader(data, value_of(topic_name)) == row


def test_incompatible_schema_is_refused_with_a_readable_error(
    client: SchemaRegistryClient, registry_url: str, topic_name: str
) -> None:
    ours = made(AvroConverter, registry_url)
    ours.from_connect_data(topic_name, Schema.struct({"n": INT32}, name="shop.N"), {"n": 1})
    client.set_compatibility(f"{topic_name}-value", "BACKWARD")
    with pytest.raises(RecordError, match=rf"{topic_name}-value.*not compatible.*BACKWARD.*needs a default"):
        ours.from_connect_data(topic_name, Schema.struct({"n": INT32, "m": STRING}, name="shop.N"), {"n": 1, "m": ""})
    wider = Schema.struct({"n": INT32, "m": STRING.optional()}, name="shop.N")
    data = ours.from_connect_data(topic_name, wider, {"n": 1, "m": "x"})
    schema, value = ours.to_connect_data(topic_name, data)
    assert (schema.version if schema else None, value) == (2, {"n": 1, "m": "x"})


def test_error_names_the_unknown_id_or_the_setting_for_an_unknown_subject(registry_url: str, topic_name: str) -> None:
    with pytest.raises(LaggingError, match="id 2000000000"):
        made(AvroConverter, registry_url).to_connect_data(topic_name, b"\0" + (2_000_000_000).to_bytes(4, "big"))
    strict = made(AvroConverter, registry_url, auto_register_schemas="false")
    with pytest.raises(LaggingError, match=r"auto\.register\.schemas is false"):
        strict.from_connect_data(topic_name, STRING, "x")


def test_newest_schema_version_of_the_registry_is_written(registry_url: str, topic_name: str) -> None:
    wide = Schema.struct({"n": INT32, "m": STRING.optional()}, name="shop.N")
    made(AvroConverter, registry_url).from_connect_data(topic_name, wide, {"n": 1, "m": None})
    newest = made(AvroConverter, registry_url, auto_register_schemas="false", use_latest_version="true")
    data = newest.from_connect_data(topic_name, Schema.struct({"n": INT32}, name="shop.N"), {"n": 5})
    assert newest.to_connect_data(topic_name, data)[1] == {"n": 5, "m": None}
