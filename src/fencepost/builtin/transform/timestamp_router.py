"""TimestampRouter: puts the time of a record into its topic."""

from collections.abc import Mapping

from fencepost.api import HIGH, Record, RecordError, Transform, setting
from fencepost.builtin.transform.java_date import SimpleDateFormat, simple_date_format
from fencepost.record import RecordColumns, Repeated


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
