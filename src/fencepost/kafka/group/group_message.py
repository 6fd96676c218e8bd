"""Requests about groups that kafka-python has no classes for: of consumer (KIP-848), share and streams groups.

Importing this takes a fifth of a second: kafka-python. The fields are those of Kafka 4.3.1.
"""

from kafka.protocol.api_message import ApiMessage

from fencepost.kafka.group import schema


class ConsumerGroupDescribeRequest(ApiMessage, load_json=schema):  # type: ignore[misc, call-arg]
    """Asks for the members of groups by the newer protocol (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=schema):  # type: ignore[misc, call-arg]
    """Holds them, with the topics that they subscribe to."""


class ShareGroupDescribeRequest(ApiMessage, load_json=schema):  # type: ignore[misc, call-arg]
    """Asks for the members of share groups (KIP-932)."""


class ShareGroupDescribeResponse(ApiMessage, load_json=schema):  # type: ignore[misc, call-arg]
    """Holds them, with the topics that they subscribe to."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=schema):  # type: ignore[misc, call-arg]
    """Asks where share groups begin; topics of None are all that they have."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=schema):  # type: ignore[misc, call-arg]
    """Holds an offset for each partition."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=schema):  # type: ignore[misc, call-arg]
    """Asks for the topology and the members of streams groups (KIP-1071)."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=schema):  # type: ignore[misc, call-arg]
    """Holds them; the topology of a group without members is that of its last ones."""
