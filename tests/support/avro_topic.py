"""Topics of Avro: schemas in a registry, and values that name them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from confluent_kafka import Producer

from fencepost.builtin.converter.registry.wire import VALUE_HEADER, prefix
from fencepost.embedded import EmbeddedKafka
from support.avro_values import encoded, framed

AVRO = "io.confluent.connect.avro.AvroConverter"


def register(url: str, subject: str, schema: Any) -> int:
    """Register a schema, as a new version of the subject; return its id."""
    answer = httpx.post(f"{url}/subjects/{subject}/versions", json={"schema": json.dumps(schema)}, timeout=60)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["id"])


def registered(url: str, value: bytes) -> Any:
    """Return the schema whose id a value begins with."""
    assert value[0] == 0, value
    answer = httpx.get(f"{url}/schemas/ids/{int.from_bytes(value[1:5], 'big')}", timeout=60)
    assert answer.status_code == 200, answer.text
    return json.loads(answer.json()["schema"])


class AvroTopic:
    """Writes rows to a topic, with schemas of its subject."""

    def __init__(self, kafka: EmbeddedKafka, url: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
        self._url = url
        self._topic = topic

    def register(self, schema: Any) -> int:
        return register(self._url, f"{self._topic}-value", schema)

    def write(self, id_: int, schema: Any, rows: dict[int, list[Any]]) -> None:
        """Write rows to these partitions."""
        self.write_bytes({partition: [framed(id_, schema, row) for row in own] for partition, own in rows.items()})

    def write_with_header(self, id_: int, schema: Any, rows: dict[int, list[Any]]) -> None:
        """Write rows whose schema a header names."""
        header = VALUE_HEADER, prefix(id_)
        values = {partition: [encoded(schema, row) for row in own] for partition, own in rows.items()}
        self.write_bytes(values, [("other", b"x"), header])

    def write_bytes(
        self, values: Mapping[int, Sequence[bytes | None]], headers: list[tuple[str, bytes]] | None = None
    ) -> None:
        for partition, own in values.items():
            for each in own:
                self._producer.produce(self._topic, each, partition=partition, headers=headers)
        assert self._producer.flush(30) == 0
