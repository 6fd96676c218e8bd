"""Every batch of the batch client has the sequence of the first: the broker takes the others for repeats."""

from fencepost.kafka.produce.protocol import BatchSending
from planted import replace

_encoded = BatchSending.encoded


def _encoded_as_first(self, place, columns):
    self._coordinator.sequences.clear()
    return _encoded(self, place, columns)


replace(BatchSending, "encoded", _encoded_as_first)
