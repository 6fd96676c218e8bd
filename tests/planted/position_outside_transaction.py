"""Offsets are written by a producer of their own, which has no transaction (E1)."""

from typing import Any

from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.task.delivery.lanes import LanedDelivery
from planted import replace


def _write(self: LanedDelivery, offsets: Any) -> None:
    conf = {"bootstrap.servers": self._lanes[0].writer._conf["bootstrap.servers"]}
    client = LibrdkafkaProducer(conf)
    for key, value in offsets:
        client.produce(self._places.topic, value, key=key)
    client.flush(10)


replace(LanedDelivery, "_write_offsets", _write)
