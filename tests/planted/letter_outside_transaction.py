"""A source's dead letters go by a producer of their own, which no transaction takes back (E15)."""

from typing import Any

from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.task.delivery.lanes import LanedDelivery
from planted import replace

_OF_TRANSACTIONS = ("transactional.id", "linger.ms")
_send = LanedDelivery.send


def _with_letters_apart(self: LanedDelivery, outgoing: Any, on_delivered: Any = None) -> None:
    if not len(outgoing) or not outgoing.topics[0].endswith("-dead"):
        _send(self, outgoing, on_delivered)
        return
    conf = self._lanes[0].writer._conf
    client = LibrdkafkaProducer({key: value for key, value in conf.items() if key not in _OF_TRANSACTIONS})
    for topic, value in zip(outgoing.topics, outgoing.values, strict=True):
        client.produce(topic, value)
    client.flush(30)


replace(LanedDelivery, "send", _with_letters_apart)
