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
def test_brokers_that_are_not_there_yet_or_not_heard_of_are_asked_again(code: int, text: str) -> None:
    error = translate(KafkaException(KafkaError(code, text)), "asking")
    assert isinstance(error, KafkaUnavailableError)


def test_what_is_refused_for_good_is_not_asked_again() -> None:
    for code, text in ((KafkaError._NOENT, "no such thing"), (KafkaError.INVALID_REPLICATION_FACTOR, "3 of 1")):
        assert isinstance(translate(KafkaError(code, text), "asking"), KafkaRequestError)
