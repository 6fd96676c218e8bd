"""Topics that are gone, of which the config topic still remembers something: when that is forgotten.

What is remembered of a topic keeps offsets of it from counting for another one of its name. So it is forgotten only
when there can be none: no group has any, and for longer than clients go without a look at the topics that there are.
"""

from collections.abc import Iterable, Mapping, Sequence

from fencepost.kafka.group.group_survey import GroupSubscription
from fencepost.storage.change import TopicRetention

_FORGET_S = 1800.0


class GoneTopics:
    """Remembers since when topics have been gone, while this worker leads."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}

    def clear(self) -> None:
        self._since.clear()

    def forgotten(
        self, gone: Mapping[str, TopicRetention], groups: Sequence[GroupSubscription], now_s: float
    ) -> frozenset[str]:
        """Return which of those that are certainly gone now may be forgotten; `groups` are all of the cluster."""
        quiet = [(topic, known.topic_id) for topic, known in gone.items() if not _has_offsets(groups, topic)]
        self._since = {each: self._since.get(each, now_s) for each in quiet}
        return frozenset(topic for (topic, _), since in self._since.items() if now_s - since > _FORGET_S)


def _has_offsets(groups: Iterable[GroupSubscription], topic: str) -> bool:
    """Say whether a group has offsets in a topic of the name, or may have."""
    return any(group.doubt is not None or any(place.topic == topic for place in group.offsets) for group in groups)
