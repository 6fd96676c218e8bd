"""What the client says of a record that it refuses at once, before any broker has seen it."""

from collections.abc import Callable, Iterator

import pytest

from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.produce.transactional_client import Failure, ProducerError
from support.clients import column

TOO_LARGE = b"." * 100_000


@pytest.fixture
def client() -> Iterator[LibrdkafkaProducer]:
    made = LibrdkafkaProducer({"bootstrap.servers": "127.0.0.1:1", "message.max.bytes": 50_000})
    yield made
    made.drop()


@pytest.mark.parametrize(
    "produce",
    [
        lambda client: client.produce("lines", TOO_LARGE),
        lambda client: client.produce_columns(*column("lines", [b"first", TOO_LARGE])),
        lambda client: client.produce_columns(["others", "lines"], [b"first", TOO_LARGE], [None, None]),
    ],
    ids=["one", "column", "columns"],
)
def test_immediate_refusal_of_a_record_names_its_topic(
    client: LibrdkafkaProducer, produce: Callable[[LibrdkafkaProducer], None]
) -> None:
    with pytest.raises(ProducerError, match=r"record for topic lines; .*max\.request\.size") as refused:
        produce(client)
    assert refused.value.failure is Failure.REFUSED_RECORD
