"""TimestampRouter: puts the time of a record into its topic."""

from collections.abc import Mapping

from fencepost.api import HIGH, Record, RecordError, Transform, setting
from fencepost.transform.java_date import SimpleDateFormat, simple_date_format


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
        text = self._format.format(record.timestamp)
        named = self.topic_format.replace("${topic}", record.topic)
        return record.replace(topic=named.replace("${timestamp}", text))
