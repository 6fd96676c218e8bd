"""librdkafka's clients, which never leave a broker that is cut off from the others by themselves."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.api import FencedError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group import member
from fencepost.kafka.read.log import LogReader
from fencepost.kafka.wire import cluster, coordinators, library_client
from fencepost.kafka.wire.access import addresses_of
from fencepost.kafka.wire.experience import Led, experience_of
from fencepost.kafka.wire.library_client import CommitWatch, coordinator_node, library_conf
from support.faked_brokers import TOPIC, TOPIC_ID, FakedBroker, FakedBrokers


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> FakedBrokers:
    """Return three brokers, of which the first is cut off from the others."""
    made = FakedBrokers(
        [
            FakedBroker(1, leader=1, epoch=5, end=100, coordinator=1),
            FakedBroker(2, leader=2, epoch=6, end=120, coordinator=2),
            FakedBroker(3, leader=2, epoch=6, end=110, coordinator=2),
        ]
    )
    for module in (coordinators, cluster):
        monkeypatch.setattr(module, "connect", made.connect)
    return made


def test_client_bootstraps_from_brokers_with_current_metadata(brokers: FakedBrokers) -> None:
    conf = {"bootstrap.servers": brokers.servers()}
    assert library_conf(conf)["bootstrap.servers"] == brokers.servers()
    admin = Admin(conf, timeout_s=30)
    for _ in range(10):
        assert admin.topics.get(TOPIC) is not None
        servers = addresses_of(library_conf(conf)["bootstrap.servers"])
        assert (brokers.host, 1) not in servers
        assert servers
    admin.close()


def test_client_does_not_bootstrap_from_removed_brokers() -> None:
    given = {"bootstrap.servers": "replaced-brokers:1"}
    experience = experience_of(addresses_of(given["bootstrap.servers"]))

    def report(*nodes: int) -> None:
        experience.learn_nodes([SimpleNamespace(node_id=each, host="b", port=each) for each in nodes], is_all=True)

    report(2, 3)
    experience.judge([(("b", 2), {}), (("b", 3), {})])
    assert library_conf(given)["bootstrap.servers"] == "b:2,b:3"
    report(3, 4)
    assert library_conf(given)["bootstrap.servers"] == "b:3"
    report(4, 5)
    assert library_conf(given)["bootstrap.servers"] == given["bootstrap.servers"]


def test_user_settings_are_kept_and_the_socket_timeout_is_adjusted() -> None:
    conf = {"bootstrap.servers": "b:1", "topic.metadata.refresh.interval.ms": "7", "transaction.timeout.ms": "9000"}
    found = library_conf(conf)
    assert found["topic.metadata.refresh.interval.ms"] == "7"
    assert found["socket.timeout.ms"] == "9000"
    assert library_conf({**conf, "socket.timeout.ms": "1"})["socket.timeout.ms"] == "1"


def test_coordinator_is_confirmed_by_two_brokers(brokers: FakedBrokers) -> None:
    found = [coordinator_node({"bootstrap.servers": brokers.servers()}, "g", 30) for _ in range(10)]
    assert set(found) == {2}


def test_member_is_replaced_when_commits_fail_and_the_coordinator_has_moved(
    brokers: FakedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_client, "_FAILING_S", 0.0)
    for each in brokers.brokers.values():
        each.coordinator = 1
    watch = CommitWatch({"bootstrap.servers": brokers.servers()}, "g")
    watch.assigned()
    watch.failed()  # it may come back
    for node in (2, 3):
        brokers.brokers[node].coordinator = 2
    with pytest.raises(FencedError, match="coordinated by another broker"):
        watch.failed()


def test_worker_joins_again_if_its_coordinator_is_twice_another_broker(
    brokers: FakedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member, "_CHECK_S", 60.0)
    line = member._CoordinatorLine({"bootstrap.servers": brokers.servers(), "group.id": "g"})

    def use(node: int) -> None:
        """Use a broker by another address than the one that the check is given: brokers may have several."""
        address = f"listener-{node}:9093"
        learned = {"name": f"{address}/{node}", "nodename": address, "nodeid": node}
        found = {"name": "GroupCoordinator", "nodename": address, "nodeid": -1}
        line.take(json.dumps({"brokers": {each["name"]: each for each in (found, learned)}}))

    use(2)
    for _ in range(5):
        line._checked_s = float("-inf")
        assert not line.is_wrong()
    use(1)
    line._checked_s = float("-inf")
    assert not line.is_wrong()
    line._checked_s = float("-inf")
    assert line.is_wrong()


def test_log_is_read_by_another_client_once_a_partition_has_a_new_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = "new-leader:1,new-leader:2"
    experience = experience_of(addresses_of(servers))
    experience.learn(TOPIC, TOPIC_ID, {0: Led(5, 1)})
    reader = LogReader({"bootstrap.servers": servers, "log_level": 0}, TOPIC, is_single=True)
    reader.go_on_at({0: 7})
    first: Any = reader._client.consumer
    reader.poll(lambda _: None, 0)
    assert reader._client.consumer is first
    experience.learn(TOPIC, TOPIC_ID, {0: Led(6, 2)})
    reader.poll(lambda _: None, 0)
    assert reader._client.consumer is not first
    assert [(each.partition, each.offset) for each in reader._client.consumer.assignment()] == [(0, 7)]
    reader.close()
