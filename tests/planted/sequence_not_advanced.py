"""Every batch of the batch client has the sequence of the first: the broker takes the others for repeats."""

from fencepost.kafka.produce.protocol import Protocol
from planted import replace

_encoded = Protocol.encoded


def _encoded_as_first(self, place, columns):
    self._sequences.clear()
    return _encoded(self, place, columns)


replace(Protocol, "encoded", _encoded_as_first)
