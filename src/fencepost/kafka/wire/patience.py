"""Waits for the answer of one broker, as long as that is the one to wait for.

A broker that is cut off from the others, or stands still, may not answer for long. Meanwhile another one has taken over
what it was responsible for, and the client can go on there.
"""

import time
from collections.abc import Callable, Collection
from typing import Any

from fencepost.kafka.wire.cluster import Cluster
from fencepost.kafka.wire.connection import Connection
from fencepost.kafka.wire.errors import LostError
from fencepost.kafka.wire.experience import QUIET_S
from fencepost.record import TopicPartition

_LOOK_S = 3.0
Places = Callable[[], Collection[TopicPartition]]


def ask_node(cluster: Cluster, node: int, request: Any, versions: tuple[int, int], deadline_s: float) -> Any:
    """Return the answer of a coordinator to a request, which is sent once. Raises what `take` raises."""
    found: list[Any] = []
    connection = cluster.connection(node, deadline_s)
    connection.send(request, connection.version(request, *versions), found.append, deadline_s)
    take(cluster, connection, deadline_s)
    return found[0]


def take(cluster: Cluster, connection: Connection, deadline_s: float, leave: int = 0, places: Places = tuple) -> None:
    """Take answers until only `leave` are due. Also raises the errors of their callbacks.

    After some seconds without them, other brokers are asked whether this one still leads the `places`, and whether a
    coordinator has moved. If so, this raises LostError, as it does when the time is up, and when no answer came for
    `socket.timeout.ms`.
    """
    due, since_s = connection.unanswered, time.monotonic()
    while not connection.take_coming(min(deadline_s, time.monotonic() + QUIET_S), leave):
        now_s = time.monotonic()
        if connection.unanswered < due:
            due, since_s = connection.unanswered, now_s
        if now_s >= min(deadline_s, since_s + connection.access.answer_s):
            connection.take(now_s, leave)
        elif cluster.has_left(connection.address, places(), min(deadline_s, time.monotonic() + _LOOK_S)):
            host, port = connection.address
            connection.close()
            why = f"{host}:{port} does not answer, and another broker has taken over as leader or coordinator"
            raise LostError(why, is_sent=True)
