"""Chooses ports that are still free at the next restart."""

import random
import socket

from fencepost.embedded.error import PortInUseError
from fencepost.embedded.layout import LOOPBACK, Ports

# Below the ranges for outgoing connections: within them, a client (even one of this broker, that connects to itself)
# could take the port while the broker is down.
_CANDIDATES = range(20_000, 32_000)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def choose_ports(client: int = 0) -> Ports:
    """Return free ports; `client` is kept if it is not 0.

    Raises:
        PortInUseError: `client` is in use.
    """
    if client and not is_free(client):
        raise PortInUseError(f"port {client} is in use: stop what listens there, or give another port (0: any)")
    chosen: list[int] = []
    for candidate in random.SystemRandom().sample(_CANDIDATES, 500):
        if candidate != client and is_free(candidate):
            chosen.append(candidate)
        if len(chosen) == 3:
            return Ports(client or chosen[0], chosen[1], chosen[2])
    raise PortInUseError(f"no free port between {_CANDIDATES.start} and {_CANDIDATES.stop}")
