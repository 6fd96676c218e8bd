"""Which errors of the client library mean that it is worth asking again."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError, translate


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (KafkaError.INVALID_REPLICATION_FACTOR, "all brokers are fenced or in controlled shutdown; brokers are fenced"),
        (KafkaError._TRANSPORT, "connection refused"),
    ],
)
def test_error_of_an_unreachable_or_unknown_broker_is_retriable(code: int, text: str) -> None:
    error = translate(KafkaException(KafkaError(code, text)), "asking")
    assert isinstance(error, KafkaUnavailableError)


def test_permanent_refusal_of_a_broker_is_not_retriable() -> None:
    for code, text in ((KafkaError._NOENT, "no such thing"), (KafkaError.INVALID_REPLICATION_FACTOR, "3 of 1")):
        assert isinstance(translate(KafkaError(code, text), "asking"), KafkaRequestError)
