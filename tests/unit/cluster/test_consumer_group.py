"""A connector joins no consumer group of another one."""

import pytest

from fencepost.cluster.command import PutConnector
from fencepost.cluster.errors import BadRequestError
from fencepost.storage import records
from support.memory_topic import MemoryTopic

GROUP, SERVERS = "consumer.override.group.id", "consumer.override.bootstrap.servers"
SINK = {"connector.class": "FileStreamSink", "topics": "t"}
SNAPSHOT = MemoryTopic().write(
    records.connector_config("payments", SINK),
    records.connector_config("carts", {**SINK, GROUP: "carts-readers"}),
    records.connector_config("orders-old", {**SINK, GROUP: "connect-orders-new"}),
)


@pytest.mark.parametrize("group", ["connect-payments", " connect-payments ", "connect-gone", "carts-readers"])
def test_consumer_group_is_refused_when_another_connector_uses_it(group: str) -> None:
    for more in ({}, {SERVERS: "the-same-cluster:9"}):
        with pytest.raises(BadRequestError, match=f"Invalid value {group.strip()} for configuration {GROUP}"):
            PutConnector("orders-x", {**SINK, GROUP: group, **more}).decide(SNAPSHOT)


def test_connector_name_is_refused_when_its_default_group_is_in_use() -> None:
    with pytest.raises(BadRequestError, match="another connector has this group"):
        PutConnector("orders-new", SINK).decide(SNAPSHOT)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("orders-x", {}),
        ("orders-x", {GROUP: "orders-readers"}),
        ("orders-x", {GROUP: "connect-orders-x"}),
        ("orders-x", {GROUP: ""}),
        ("carts", {GROUP: "carts-readers"}),
        ("payments", {}),
    ],
)
def test_consumer_group_is_accepted_when_no_other_connector_uses_it(name: str, more: dict[str, str]) -> None:
    assert PutConnector(name, {**SINK, **more}).decide(SNAPSHOT)


def test_connector_keeps_a_shared_group_that_new_connectors_may_not_choose() -> None:
    stored = SNAPSHOT.connectors["orders-old"]
    assert PutConnector("orders-old", {**stored, "topics": "t,u"}).decide(SNAPSHOT)
    for change in ({SERVERS: "another-cluster:9"}, {GROUP: "connect-payments"}):
        with pytest.raises(BadRequestError, match=f"for configuration {GROUP}"):
            PutConnector("orders-old", {**stored, **change}).decide(SNAPSHOT)
