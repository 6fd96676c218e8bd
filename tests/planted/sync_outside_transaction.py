"""What tells where records went is written by a producer of its own, which has no transaction (E18)."""

from typing import Any

from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.task.delivery.finish import Finish
from planted import replace


def _send(self: Finish, writer: Any) -> None:
    client = LibrdkafkaProducer({"bootstrap.servers": writer._conf["bootstrap.servers"]})
    for record in () if self.closing is None else self.closing():
        client.produce(record.topic, record.value, key=record.key, partition=record.kafka_partition)
    client.flush(10)


replace(Finish, "send", _send)
