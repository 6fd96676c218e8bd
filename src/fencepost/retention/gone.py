"""Decides when the config topic may forget what it holds about deleted topics.

The stored facts of a topic prevent its committed offsets from counting for a later topic with the same name. So they
are deleted only when no such offsets can exist: no group has any, and the topic has been gone for longer than clients
cache metadata.
"""

from collections.abc import Iterable, Mapping, Sequence

from fencepost.kafka.group.subscription import GroupSubscription
from fencepost.storage.change import TopicRetention

_FORGET_S = 1800.0


class GoneTopics:
    """Tracks how long topics have been gone, while this worker leads."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}

    def clear(self) -> None:
        self._since.clear()

    def forgotten(
        self, gone: Mapping[str, TopicRetention], groups: Sequence[GroupSubscription], now_s: float
    ) -> frozenset[str]:
        """Return which topics of `gone`, all certainly gone now, may be forgotten. `groups` are all of the cluster."""
        quiet = [(topic, known.topic_id) for topic, known in gone.items() if not _has_offsets(groups, topic)]
        self._since = {each: self._since.get(each, now_s) for each in quiet}
        return frozenset(topic for (topic, _), since in self._since.items() if now_s - since > _FORGET_S)


def _has_offsets(groups: Iterable[GroupSubscription], topic: str) -> bool:
    """Return whether a group has, or may have, offsets in a topic with this name."""
    return any(group.doubt is not None or any(place.topic == topic for place in group.offsets) for group in groups)
