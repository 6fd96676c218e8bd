"""Transactional ids that are taken only to fence their holders: a request of a few bytes instead of a producer.

Kafka's own admin client does the same (`fenceProducers`): InitProducerId that names no producer. The coordinator
answers once the newer epoch is in its log and nothing of the older one's transaction is left. A producer asks for the
same, and costs three connections, four threads and five times the processor time.
"""

import logging
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from fencepost.kafka.setting.client_settings import transaction_timeout_ms
from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.cluster import NO_TOPICS_AGE_S, Cluster
from fencepost.kafka.wire.coordinators import TRANSACTION
from fencepost.kafka.wire.errors import BUSY, MOVED, ensure, retry_on
from fencepost.kafka.wire.patience import ask_node

log = logging.getLogger(__name__)

_CLIENT_ID = "fencepost"
_MOST_S = 15.0  # then a producer tries
_ASK_AGAIN_S, _MOVED_AGAIN_S = 0.01, 0.05


def lock_out_by_request(conf: Mapping[str, Any], transactional_id: str, timeout_s: float) -> bool:
    """Fence the holder of an id and end its transaction; returns whether that is done, for certain (E2).

    `conf` holds a producer's settings in librdkafka's names. Otherwise a producer has to take the id: it finds out and
    reports what was in the way (a refusal, a broker that does not answer, a way to connect that only librdkafka knows).
    A request that was not answered may be carried out late, and fence the holder that the id has then.
    """
    try:
        _lock_out(conf, transactional_id, time.monotonic() + min(timeout_s, _MOST_S))
    except Exception as error:  # a producer tries then, and reports what is wrong
        log.debug("transactional id %s has to be locked out by a producer: %r", transactional_id, error)
        return False
    return True


def _lock_out(conf: Mapping[str, Any], id_: str, deadline_s: float) -> None:
    from fencepost.kafka.kafka_library import InitProducerIdRequest

    request = InitProducerIdRequest(
        transactional_id=id_, transaction_timeout_ms=transaction_timeout_ms(conf), producer_id=-1, producer_epoch=-1
    )
    with closing(Cluster(replace(Access.of(conf), client_id=_CLIENT_ID), NO_TOPICS_AGE_S)) as cluster:

        def ask(node: int) -> None:
            answer = ask_node(cluster, node, request, (0, 4), deadline_s)
            ensure(answer.error_code, f"InitProducerId of {id_}")

        def find_and_ask() -> None:
            node = cluster.coordinators.find(TRANSACTION, id_, deadline_s)
            retry_on(lambda: ask(node), BUSY, deadline_s, _ASK_AGAIN_S)  # busy: its transaction is being ended

        retry_on(find_and_ask, MOVED, deadline_s, _MOVED_AGAIN_S)
