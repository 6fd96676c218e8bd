"""The batch client asks again, on a new connection, what it has lost the answer to."""

from fencepost.kafka.errors import LostError
from fencepost.kafka.produce.coordinator import TransactionCoordinator
from planted import replace

_ask = TransactionCoordinator._ask


def _ask_again(self, *about):
    try:
        return _ask(self, *about)
    except LostError:
        self._cluster._connections.clear()
        return _ask(self, *about)


replace(TransactionCoordinator, "_ask", _ask_again)
