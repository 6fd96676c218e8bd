"""Messages are those of confluent-kafka's Protobuf serialiser, at the same real registry, in both directions."""

from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass

from fencepost.api import Schema, SchemaType
from fencepost.builtin.converter.registry.client import WrittenSchema
from fencepost.builtin.converter.registry.protobuf.compiling import compiled
from fencepost.builtin.converter.registry.protobuf.converter import ProtobufConverter
from fencepost.record.schema import FLOAT64, INT32, INT64, STRING

ROW = Schema.struct(
    {
        "id": INT64,
        "name": STRING,
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
        "load": n / 4,
        "tags": ["a"] * n,
        "seats": {"7A": n},
        "place": {"city": "Zürich"} if n % 2 else None,
    }
    for n in range(1, 5)
]


def test_protobuf_bytes_equal_those_of_confluents_serializer(registry_url: str, topic_name: str) -> None:
    ours = ProtobufConverter({"schema.registry.url": registry_url, "converter.type": "value"})
    written = ours.for_topic(topic_name).from_column(ROW, ROWS)
    assert written is not None
    with SchemaRegistryClient({"url": registry_url}) as client:
        registered = client.get_latest_version(f"{topic_name}-value").schema
        file = compiled(WrittenSchema("PROTOBUF", registered.schema_str or ""), {})
        message = GetMessageClass(file.message_types_by_name["Row"])
        reader = ProtobufDeserializer(message, {"use.deprecated.format": False})
        context = SerializationContext(topic_name, MessageField.VALUE)
        for row, data in zip(ROWS, written, strict=True):
            assert reader(data, context) == message(**{key: value for key, value in row.items() if value is not None})
        other = SerializationContext(f"{topic_name}-other", MessageField.VALUE)
        writer = ProtobufSerializer(message, client, {"use.deprecated.format": False})
        by_them = [writer(message(**{k: v for k, v in row.items() if v is not None}), other) for row in ROWS]
    read = ours.for_topic(f"{topic_name}-other").to_column(by_them)
    assert read is not None
    assert list(read[1]) == ROWS
    assert [each[5:] for each in by_them if each] == [bytes(each or b"")[5:] for each in written]
