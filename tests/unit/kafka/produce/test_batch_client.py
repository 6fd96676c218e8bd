"""The batch client where there is no broker."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.kafka.produce.batch_client import BatchClient
from fencepost.kafka.produce.transactional_client import Failure, ProducerError
from fencepost.kafka.setting.batch_settings import FetchSettings
from fencepost.kafka.setting.client_settings import plan_conf, transactional_conf
from fencepost.testing import eventually
from support.clients import cluster_of

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def _client() -> BatchClient:
    return BatchClient(transactional_conf(NOBODY, "id").conf)


def test_e2_producer_dropped_while_taking_its_id_makes_no_further_attempt() -> None:
    """An abandoned task's producer is dropped in the middle of that: a later try would fence its successor."""
    client = _client()
    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(client.init_transactions, 30)
        eventually(lambda: cluster_of(client) is not None)
        client.drop()
        error = taking.exception(60)
    assert isinstance(error, ProducerError)
    assert str(error) == "the producer is closed"


def test_dropped_producer_takes_no_id() -> None:
    client = _client()
    client.drop()
    with pytest.raises(ProducerError, match="is closed") as refused:
        client.init_transactions(30)
    assert refused.value.failure is Failure.PASSING


def test_fetch_size_stays_below_the_frame_limit() -> None:
    """Frames of more than 100 MB are refused, and would be asked for again for ever."""
    conf = plan_conf({**NOBODY, "fetch.max.bytes": "200000000"}).conf
    assert FetchSettings.of(conf).most_bytes < 100_000_000
