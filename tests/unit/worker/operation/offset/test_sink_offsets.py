"""What a body says of where a sink is to go on."""

import threading
from typing import Any, cast

import pytest

from fencepost.cluster.command import PutConnector
from fencepost.cluster.errors import BadRequestError, OperationError
from fencepost.cluster.info import ConnectorOffset
from fencepost.record import TopicPartition
from fencepost.storage import records
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.operation.offset.sink import SinkOffsets, is_of_a_task, parsed
from support.memory_topic import MemoryTopic


def at(offset: Any, partition: Any = 0) -> list[ConnectorOffset]:
    return [ConnectorOffset({"kafka_topic": "t", "kafka_partition": partition}, {"kafka_offset": offset})]


@pytest.mark.parametrize("offset", [7, "7", "+7", "007"])
def test_offset_is_accepted_as_a_number_or_its_text(offset: Any) -> None:
    assert parsed(at(offset)) == {TopicPartition("t", 0): 7}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"), ("", ""), (" 7", " 7"), ("1_0", "1_0"), (1.5, "1.5"), (True, "true"), ([1], "[1]"),
        ({"a": None}, "{a=null}"), (2**63, str(2**63)), ("9" * 5_000, "9" * 5_000),
    ],
)  # fmt: skip
def test_invalid_offset_is_printed_in_the_error_as_kafka_connect_prints_it(value: Any, text: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        parsed(at(value))
    assert f"offset value in the provided offsets: '{text}'. Offset values for" in str(refused.value)
    with pytest.raises(BadRequestError) as refused:
        parsed(at(0, value))
    assert f"partition value in the provided offsets: '{text}'. Partition values for" in str(refused.value)


def test_null_offsets_and_partitions_beyond_32_bits_are_refused() -> None:
    for wrong in (at(None), at(0, 2**31)):
        with pytest.raises(BadRequestError, match="need to be integers"):
            parsed(wrong)


@pytest.mark.parametrize(
    ("client_id", "is_one"),
    [
        ("connector-consumer-c-0", True),
        ("connector-consumer-c-12", True),
        ("connector-consumer-c-", False),
        ("connector-consumer-c-1-0", False),  # of a connector called c-1
        ("connector-consumer-d-0", False),
        ("mine", False),
    ],
)
def test_members_of_a_sinks_tasks_are_known_by_their_client_ids(client_id: str, is_one: bool) -> None:
    assert is_of_a_task("c", "connector-consumer-c-0", client_id) is is_one


def test_client_id_set_by_the_user_is_the_one_of_all_tasks() -> None:
    assert is_of_a_task("c", "mine", "mine")
    assert not is_of_a_task("c", "mine", "connector-consumer-c-0")


def test_group_of_another_connector_is_not_read_when_a_sink_gets_first_offsets() -> None:
    config = {"name": "c", "connector.class": "X", "topics": "t", "consumer.override.group.id": "others"}
    stored = MemoryTopic().write(records.connector_config("payments", {**config, "name": "payments"}))
    waits: list[str] = []

    def lead(command: Any) -> ClusterSnapshot:
        command.decide(stored)
        return stored

    settings, find = cast(Any, None), cast(Any, None)  # no request can be made
    sinks = SinkOffsets(settings, find, lambda connector, _: waits.append(connector), threading.Lock())
    for name, text in (("c", "another connector has this group"), ("payments", "already exists")):
        with pytest.raises(OperationError, match=text):
            sinks.create(PutConnector(name, config, is_create=True), at(7), lead)
    assert not waits
