"""RegexRouter: renames topics by a regular expression."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from fencepost.api import HIGH, Record, Transform, setting
from fencepost.builtin.transform.java_regex import compiled, replacement_faults, replacer
from fencepost.config.java_regex import java_regex
from fencepost.record import Repeated

REMEMBERED_TOPICS = 1024


class RegexRouter(Transform):
    """Gives a record another topic if the whole name of its topic matches.

    Like Java's `replaceFirst`, it then puts the replacement in place of the first match.
    """

    regex: str = setting("regex", check=java_regex(), importance=HIGH, doc="Regular expression to use for matching.")
    replacement: str = setting("replacement", importance=HIGH, doc="Replacement string.")

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._pattern = compiled(self.regex)
        self._replaced = replacer(self._pattern, self.replacement)
        self._routed = lru_cache(REMEMBERED_TOPICS)(self._route)

    def check_together(self) -> list[str]:
        return replacement_faults(self.key_of("replacement"), self.regex, self.replacement)

    def apply(self, record: Record) -> Record | None:
        topic = self._routed(record.topic)
        return record if topic == record.topic else record.replace(topic=topic)

    def apply_topics(self, topics: Sequence[str]) -> Sequence[str] | None:
        if isinstance(topics, Repeated):
            return Repeated(self._routed(topics.value), len(topics))
        return [self._routed(topic) for topic in topics]

    def _route(self, topic: str) -> str:
        if self._pattern.fullmatch(topic) is None:
            return topic
        return self._pattern.sub(self._replaced, topic, count=1)
