"""Quotas of a client id, set as an operator sets them (KIP-546)."""

import time
from typing import Any

from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.cluster import Cluster

CONSUMER, PRODUCER, REQUEST = "consumer_byte_rate", "producer_byte_rate", "request_percentage"
_WITHIN_S = 30.0


def set_quotas(bootstrap: str, client_id: str, **limits: float) -> None:
    """Set quotas, by Kafka's names, for all clients with a client id."""
    from kafka.protocol.admin import AlterClientQuotasRequest as Request

    entry: Any = Request.EntryData
    entity = entry.EntityData(entity_type="client-id", entity_name=client_id)
    ops = [entry.OpData(key=key, value=limit, remove=False) for key, limit in limits.items()]
    cluster = Cluster(Access.of({"bootstrap.servers": bootstrap}), 60.0)
    try:
        answer = cluster.ask(
            Request(entries=[entry(entity=[entity], ops=ops)], validate_only=False), 1, time.monotonic() + _WITHIN_S
        )
    finally:
        cluster.close()
    assert [each.error_code for each in answer.entries] == [0], answer
