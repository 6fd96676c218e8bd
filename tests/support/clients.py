"""The two clients that implement the port of transactions, for suites that run over both."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.kafka.produce import coordinator
from fencepost.kafka.setting.table import BATCH, LIBRDKAFKA
from fencepost.record import Repeated

CLIENTS = (LIBRDKAFKA, BATCH)


def other_than(client: str) -> str:
    """Return the client that a task may have after a change of its config."""
    return next(each for each in CLIENTS if each != client)


def column(topic: str, values: Sequence[bytes | None]) -> tuple[Any, Any, Any]:
    """Return the arguments of `send_columns` for values of one topic without keys."""
    return Repeated(topic, len(values)), values, Repeated(None, len(values))


only_librdkafka = pytest.mark.parametrize("client", [LIBRDKAFKA], indirect=True)
"""For what is about that client: its log, its threads, its queue."""
only_batch = pytest.mark.parametrize("client", [BATCH], indirect=True)
"""For what is about that client: nothing is repeated."""


def use_version(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have batch clients use that version of transactions at most; the broker supports both."""
    monkeypatch.setattr(coordinator, "_NEWEST_VERSION", version)


def cluster_of(client: Any) -> Any:
    """Return what a batch client, or a writer over one, knows of the cluster."""
    found = getattr(client, "_client", client)
    return found._cluster if hasattr(found, "_cluster") else protocol_of(found).cluster


def protocol_of(client: Any) -> Any:
    """Return the transaction protocol of a batch client, or of a writer over one."""
    return getattr(client, "_client", client)._incarnation.protocol


def believe(cluster: Any, topic: str, leaders: list[int], **addresses: int) -> None:
    """Have a client believe that these nodes lead a topic's partitions, and that `nodeN` listens at a local port."""
    cluster.leaders(topic, time.monotonic() + 30)
    known = cluster._topics[topic]
    cluster._topics[topic] = known._replace(asked_s=time.monotonic(), leaders=leaders, epochs=[-1] * len(leaders))
    for node, port in addresses.items():
        cluster._experience.addresses[int(node.removeprefix("node"))] = ("127.0.0.1", port)
