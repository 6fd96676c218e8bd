"""RegexRouter renames topics by a regular expression, TimestampRouter puts the time of a record into its topic."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from fencepost.api import HIGH, Record, RecordError, Transform, setting
from fencepost.builtin.transform.java_date import SimpleDateFormat, simple_date_format
from fencepost.builtin.transform.java_regex import compiled, replacement_faults, replacer
from fencepost.config.java_regex import java_regex
from fencepost.record import RecordColumns, Repeated

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
        return self._pattern.sub(self._replaced, topic, count=1) if self._pattern.fullmatch(topic) else topic


class TimestampRouter(Transform):
    """Gives a record a topic that is made of its topic and its timestamp."""

    topic_format: str = setting(
        "topic.format",
        default="${topic}-${timestamp}",
        importance=HIGH,
        doc="Format string which can contain `${topic}` and `${timestamp}` as placeholders.",
    )
    timestamp_format: str = setting(
        "timestamp.format",
        default="yyyyMMdd",
        check=simple_date_format(),
        importance=HIGH,
        doc="Format string for the timestamp that is compatible with `java.text.SimpleDateFormat`.",
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._format = SimpleDateFormat(self.timestamp_format)

    def apply(self, record: Record) -> Record | None:
        if record.timestamp is None:
            raise RecordError("Timestamp missing on record")
        return record.replace(topic=self._routed(record.topic, self._format.format(record.timestamp)))

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        topics, timestamps = batch.topics, batch.timestamps
        if isinstance(topics, Repeated) and isinstance(timestamps, Repeated) and timestamps.value is not None:
            once = self._routed(topics.value, self._format.format(timestamps.value))
            return batch.replace(topics=Repeated(once, len(batch)))
        known = [each for each in timestamps if each is not None]
        if len(known) < len(batch):
            return None
        pairs = list(zip(topics, self._format.format_all(known), strict=True))
        routed = {pair: self._routed(*pair) for pair in set(pairs)}
        return batch.replace(topics=[routed[pair] for pair in pairs])

    def _routed(self, topic: str, text: str) -> str:
        return self.topic_format.replace("${topic}", topic).replace("${timestamp}", text)
