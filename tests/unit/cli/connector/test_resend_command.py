"""Which connectors' dead letters the command line resends."""

import pytest

from fencepost.api import ConfigError
from fencepost.cli.connector.dead_letters import DescribedConnector, _ensure_can_be_sent


def sink(reads: str, writes: str) -> DescribedConnector:
    config = {"consumer.override.bootstrap.servers": reads, "producer.override.bootstrap.servers": writes}
    return DescribedConnector("c", "sink", config, "cluster")


def test_same_brokers_in_another_order_count_as_one_cluster() -> None:
    _ensure_can_be_sent(sink("one:9092,two:9092", "two:9092, one:9092"))


def test_dead_letters_on_another_cluster_than_the_sinks_topics_are_not_resent() -> None:
    with pytest.raises(ConfigError, match="one transaction cannot span both"):
        _ensure_can_be_sent(sink("one:9092", "two:9092"))
