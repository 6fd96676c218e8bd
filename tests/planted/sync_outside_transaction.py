"""What tells where records went is written by a producer of its own, which has no transaction (E18)."""

from typing import Any

from fencepost.kafka.produce.producer import ProducerClient
from fencepost.task.delivery.finish import Finish
from planted import replace


def _send(self: Finish, writer: Any) -> None:
    client = ProducerClient({"bootstrap.servers": writer._conf["bootstrap.servers"]})
    for record in () if self.closing is None else self.closing():
        client.produce(record.topic, record.value, key=record.key, partition=record.kafka_partition)
    client.flush(10)


replace(Finish, "send", _send)
