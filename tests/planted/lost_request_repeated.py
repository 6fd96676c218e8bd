"""The batch client asks again, on a new connection, what it has lost the answer to."""

from fencepost.kafka.produce.protocol import Protocol
from fencepost.kafka.wire.errors import LostError
from planted import replace

_ask = Protocol._ask


def _ask_again(self, *about):
    try:
        return _ask(self, *about)
    except LostError:
        self.cluster._connections.clear()
        return _ask(self, *about)


replace(Protocol, "_ask", _ask_again)
