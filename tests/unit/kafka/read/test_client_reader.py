"""What the client of a plan is told of a position."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from fencepost.kafka.errors import KafkaAuthorizationError
from fencepost.kafka.read import consumer
from fencepost.kafka.read.client_reader import CHUNK, ClientReader
from fencepost.kafka.setting.client_settings import plan_conf
from fencepost.kafka.value.position import LogPosition
from fencepost.record import TopicPartition


def test_position_is_assigned_with_its_leader_epoch_when_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """By it the brokers say whether what was read is in the log still (KIP-320)."""
    assigned: list[Any] = []

    class Client:
        def __init__(self, *_: object, **__: object) -> None: ...

        def incremental_assign(self, partitions: list[Any]) -> None:
            assigned.extend((each.topic, each.partition, each.offset, each.leader_epoch) for each in partitions)

    monkeypatch.setattr(consumer, "Consumer", Client)
    ClientReader(plan_conf({"bootstrap.servers": "127.0.0.1:1"}).conf).assign(
        {
            TopicPartition("t", 0): LogPosition(7, "id", 3),
            TopicPartition("t", 1): LogPosition(8, "id", 0),
            TopicPartition("t", 2): LogPosition(9, "id"),
        }
    )
    assert assigned == [("t", 0, 7, 3), ("t", 1, 8, 0), ("t", 2, 9, None)]


@pytest.mark.parametrize("most_bytes", [None, 1_000, 4_990, 5_000])
def test_no_record_is_lost_with_an_error_between_records(
    monkeypatch: pytest.MonkeyPatch, most_bytes: int | None
) -> None:
    """Even if the error fills up the messages that are taken at once, or those after it have to wait."""
    refusal = KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED, "no")
    coming = [Message("t", 0, at, value=b"x" * 10, timestamp=(1, 1_000)) for at in range(700)]
    coming.insert(CHUNK - 1, Message("t", 0, CHUNK, error=refusal))

    class Client:
        def __init__(self, *_: object, **__: object) -> None: ...

        def poll(self, _: float) -> Any:
            return coming.pop(0) if coming else None

        def consume(self, most: int, _: float) -> list[Any]:
            taken = coming[:most]
            del coming[:most]
            return taken

    monkeypatch.setattr(consumer, "Consumer", Client)
    reader, found, errors = ClientReader({"bootstrap.servers": "127.0.0.1:1"}), list[int](), 0
    for _ in range(20):
        try:
            found += reader.read(0.0, 10_000, most_bytes).fetched.offsets
        except KafkaAuthorizationError:
            errors += 1
    assert (found, errors) == (list(range(700)), 1)
