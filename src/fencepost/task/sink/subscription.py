"""What the task of a sink or a stream reads: topics by name, or by a pattern."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fencepost.api import FatalError
from fencepost.record import distinct
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.transform.java_regex import JavaPattern, compiled


@dataclass(frozen=True)
class ReadTopics:
    """Topics by name, and those that match a Java regular expression; if it is empty, none."""

    names: tuple[str, ...]
    pattern: str = ""

    @classmethod
    def of(cls, spec: TaskSpec) -> "ReadTopics":
        """Return what a task reads, including the topic for resent dead letters."""
        own = (spec.input.resend_topic,) if spec.input.resend_topic else ()
        return cls(own, spec.input.topics_regex) if spec.input.topics_regex else cls((*spec.input.topics, *own))

    @cached_property
    def _compiled(self) -> JavaPattern:
        return compiled(self.pattern)

    def has(self, topic: str) -> bool:
        return topic in self.names or (bool(self.pattern) and self._compiled.fullmatch(topic) is not None)

    def to_json(self) -> dict[str, Any]:
        return {"names": list(self.names), "pattern": self.pattern}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ReadTopics":
        return cls(tuple(data["names"]), data["pattern"])


class LoopGuard:
    """Keeps a stream from writing to a topic that it reads: it would read its output again, for ever."""

    def __init__(self, read: ReadTopics) -> None:
        self._read = read
        self._known: set[str] = set()

    def ensure_not_read(self, topics: Sequence[str]) -> None:
        """Raise FatalError if one of these topics is read; call it before anything is sent there."""
        for topic in sorted(distinct(topics) - self._known):
            if self._read.has(topic):
                how = f"topics.regex={self._read.pattern}" if topic not in self._read.names else "its topics"
                raise FatalError(
                    f"a record would go to topic {topic}, which this stream reads ({how}): it would be read again, "
                    "for ever. Nothing was written to the topic. Send the record to another topic, or read fewer topics"
                )
            self._known.add(topic)


def subscription(spec: TaskSpec) -> Sequence[str] | Callable[[str], object]:
    """Return what a task reads: names, or a predicate on names."""
    read = ReadTopics.of(spec)
    return read.has if read.pattern else read.names
