"""The config of the page about schema registries runs, in each format, and other programs read what it writes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.worker import Worker

_PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "schema-registry.md"
ROWS = 50


def config_of_page() -> dict[str, Any]:
    [text] = re.findall(r"```json\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    found: dict[str, Any] = json.loads(text)
    return found


def classes_of_page() -> list[str]:
    return re.findall(r"`(io\.confluent\.connect\.\w+\.\w+Converter)`", _PAGE.read_text())


@pytest.mark.parametrize("converter", classes_of_page())
def test_the_config_of_the_page_runs(
    worker: Worker, kafka: EmbeddedKafka, registry_url: str, topic_name: str, converter: str
) -> None:
    changed = {
        "topic": topic_name,
        "max.rows": str(ROWS),
        "value.converter": converter,
        "value.converter.schema.registry.url": registry_url,
    }
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=1, replication=1)
    created = worker.create(topic_name, {**config_of_page(), **changed})
    assert created.status_code == 201, created.text
    try:
        with CommittedReader(kafka.bootstrap_servers, [topic_name]) as reader:
            eventually(lambda: len(reader.seen()) >= ROWS, within_s=120)
            seen = reader.seen()
    finally:
        worker.rest.delete(f"/connectors/{topic_name}")
    values = [observation.value or b"" for observation in seen]
    assert len(values) == ROWS
    assert len({value[:5] for value in values}) == 1
    if converter.endswith(".AvroConverter"):
        read = AvroDeserializer(SchemaRegistryClient({"url": registry_url}))
        rows = [read(value, SerializationContext(topic_name, MessageField.VALUE)) for value in values]
        assert sorted(row["id"] for row in rows if row is not None) == list(range(ROWS))
