"""What a campaign of faults says of a cluster on which something is left over."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from support.chaos import campaign
from support.chaos.campaign import TRANSACTION_TIMEOUT_S, TRANSACTIONS, Campaign
from support.chaos.evidence import Evidence
from support.cluster import LightWorker


@pytest.fixture
def orphan(kafka, topic_name) -> Iterator[Producer]:
    """A producer of a group's task, with an open transaction."""
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": f"{topic_name}-lines-0",
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_S * 1000,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic_name, b"never committed")
    assert producer.flush(60) == 0
    yield producer
    producer.abort_transaction(60)


def test_a_transaction_left_open_is_an_anomaly(kafka, topic_name, orphan, tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "_ENDED_S", 0.5)
    evidence = Evidence("verdict", 0)
    worker = LightWorker(kafka.bootstrap_servers, tmp_path, TRANSACTIONS, group=topic_name)
    with (
        Campaign(worker, [], kafka.bootstrap_servers, 1, evidence) as made,
        pytest.raises(AssertionError, match=f"left open: .*{topic_name}-lines-0"),
    ):
        made.prove()
    assert evidence.verdict == "anomaly"


def test_campaign_refuses_a_transaction_timeout_that_hides_open_transactions(kafka, tmp_path):
    worker = LightWorker(kafka.bootstrap_servers, tmp_path)
    with pytest.raises(AssertionError, match="would not be seen"):
        Campaign(worker, [], kafka.bootstrap_servers, 1, Evidence("verdict", 0))
