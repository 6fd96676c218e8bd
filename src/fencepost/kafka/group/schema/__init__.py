"""Messages of Kafka's protocol that kafka-python lacks: about consumer (KIP-848), share and streams groups.

JSON declares the fields of each, in a file of its own: those of Kafka 4.3.1. Importing this module imports
kafka-python, which takes 0.2 s.
"""

import sys

from fencepost.kafka.kafka_library import ApiMessage

_HERE = sys.modules[__name__]


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Asks for the members of groups with the newer protocol (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Holds the members of groups with the newer protocol, with the topics that they subscribe to."""


class ShareGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Asks for the members of share groups (KIP-932)."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Holds the members of share groups, with the topics that they subscribe to."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Asks for the start offsets of share groups. With topics of None it asks for all of their topics."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Holds the start offset of each partition."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Asks for the topology and the members of streams groups (KIP-1071)."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Holds them. The topology of a group without members is that of its last members."""
