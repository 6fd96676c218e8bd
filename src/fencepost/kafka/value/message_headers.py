"""Headers of messages of librdkafka's Python client, also those with a name that is not UTF-8.

The client raises a SystemError for such a message, and its next call for the same message returns a damaged object.
So each message is asked once, and one that fails is read again as bytes: a name gets U+FFFD for what is no text, as in
Java and Kafka Connect.
"""

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Message

from fencepost.record import HeaderBytes, TopicPartition

Headers = Sequence[HeaderBytes]
ReadAgain = Callable[[TopicPartition, int], Headers]


def headers_of(messages: Sequence[Any], read_again: ReadAgain) -> list[Headers | None]:
    """Return the headers of the client's messages, of which none is an event and none was asked before.

    Raises what `read_again` raises.
    """
    found: list[Headers | None] = []
    while len(found) < len(messages):
        try:
            found.extend(map(Message.headers, messages[len(found) :]))  # keeps what came before an error
        except (SystemError, UnicodeDecodeError):
            odd = messages[len(found)]
            found.append(read_again(TopicPartition(odd.topic(), odd.partition()), odd.offset()))
    return found
