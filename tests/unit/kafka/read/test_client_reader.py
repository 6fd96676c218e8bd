"""What the client of a plan is told of a position."""

from typing import Any

import pytest

from fencepost.kafka.read import offset_committer
from fencepost.kafka.read.client_reader import ClientReader
from fencepost.kafka.setting.client_settings import plan_conf
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.record import TopicPartition


def test_position_is_assigned_with_its_leader_epoch_when_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """By it the brokers say whether what was read is in the log still (KIP-320)."""
    assigned: list[Any] = []

    class Client:
        def __init__(self, *_: object, **__: object) -> None: ...

        def incremental_assign(self, partitions: list[Any]) -> None:
            assigned.extend((each.topic, each.partition, each.offset, each.leader_epoch) for each in partitions)

    monkeypatch.setattr(offset_committer, "Consumer", Client)
    ClientReader(plan_conf({"bootstrap.servers": "127.0.0.1:1"}).conf).assign(
        {
            TopicPartition("t", 0): LogPosition(7, "id", 3),
            TopicPartition("t", 1): LogPosition(8, "id", 0),
            TopicPartition("t", 2): LogPosition(9, "id"),
        }
    )
    assert assigned == [("t", 0, 7, 3), ("t", 1, 8, 0), ("t", 2, 9, None)]
