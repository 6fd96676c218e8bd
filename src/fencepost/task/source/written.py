"""Looks at the newest records of a connector's topics."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fencepost.api import FatalError, RecordError, SourceRecord
from fencepost.kafka.errors import MissingTopicError
from fencepost.kafka.read.browse import TopicBrowser
from fencepost.kafka.setting.client_settings import committed_range_conf
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.source.processing import Processor

log = logging.getLogger(__name__)

_NEWEST = 600
"""How many offsets of each partition are looked at. Changes with one position are rows of one page, 291 at most, and
each may be a transaction with a marker."""
_COUNTED = b""
_READER = "fencepost-look"


class WrittenRecords:
    """The `Written` of a task in a slot. Each topic is read once, when it is asked about."""

    def __init__(self, spec: TaskSpec, processor: Processor) -> None:
        self._spec, self._processor = spec, processor
        self._topics: dict[str, dict[bytes | None, list[bytes | None]]] = {}

    def has(self, record: SourceRecord, is_same: Callable[[Any], bool]) -> bool:
        processor = self._processor
        try:
            moved = processor.chain.apply(record)
            if moved is None:
                return True
            key = processor.key_converter.from_connect_data(moved.topic, moved.key_schema, moved.key)
            values = self._values(moved.topic).get(key, [])
            if moved.value is None:
                return bool(values) and values[-1] is None
            for place, value in reversed(list(enumerate(values))):
                if value and is_same(processor.value_converter.to_connect_data(moved.topic, value)[1]):
                    values[place] = _COUNTED
                    return True
        except (FatalError, RecordError) as error:
            log.warning("%s: it is unknown what topic %s has: %s", self._spec.connector, record.topic, error)
        return False

    def _values(self, topic: str) -> dict[bytes | None, list[bytes | None]]:
        """Return the values of the newest records of a topic by their keys, in order."""
        if topic not in self._topics:
            found: dict[bytes | None, list[bytes | None]] = {}
            with suppress(MissingTopicError):
                browser = TopicBrowser(committed_range_conf(self._spec.output.admin_conf, _READER), topic)
                for written in browser.read({p: (end - _NEWEST, end) for p, (_, end) in browser.ranges.items()}):
                    found.setdefault(written.key, []).append(written.value)
            self._topics[topic] = found
        return self._topics[topic]
