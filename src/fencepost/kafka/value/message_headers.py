"""Reads the headers of confluent-kafka's messages, including headers whose name is not UTF-8.

For such a message the client raises a SystemError, and its next call for the same message returns a damaged object.
So each message is asked once. If that fails, its headers are read again as bytes, and U+FFFD replaces what is not text
in a name, as in Java and Kafka Connect.
"""

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Message

from fencepost.record import HeaderBytes, TopicPartition

Headers = Sequence[HeaderBytes]
ReadAgain = Callable[[TopicPartition, int], Headers]


def headers_of(messages: Sequence[Any], read_again: ReadAgain) -> list[Headers | None]:
    """Return the headers of the client's messages. None of them may be an event, or have been asked for headers before.

    Raises whatever `read_again` raises.
    """
    found: list[Headers | None] = []
    while len(found) < len(messages):
        try:
            found.extend(map(Message.headers, messages[len(found) :]))  # keeps what precedes an error
        except (SystemError, UnicodeDecodeError):
            odd = messages[len(found)]
            found.append(read_again(TopicPartition(odd.topic(), odd.partition()), odd.offset()))
    return found
