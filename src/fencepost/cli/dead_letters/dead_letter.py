"""A dead letter in the formats for people and for machines."""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fencepost.kafka.read.browse import TopicRecord
from fencepost.task.failure.dead_letter import (
    CLASS,
    CONNECTOR,
    EXCEPTION,
    MESSAGE,
    OFFSET,
    PARTITION,
    PREFIX,
    RESENT,
    RESENT_OFFSET,
    RESENT_PARTITION,
    RESENT_TIMESTAMP,
    RESENT_TOPIC,
    STACKTRACE,
    STAGE,
    TASK,
    TIMESTAMP,
    TOPIC,
)

_WIDTH = 160
_BEFORE = {TOPIC: RESENT_TOPIC, PARTITION: RESENT_PARTITION, OFFSET: RESENT_OFFSET}


@dataclass(frozen=True)
class DeadLetter:
    """One record of a dead letter topic, with its context headers as `facts`, which may be empty."""

    topic: str
    record: TopicRecord
    facts: dict[str, str] = field(repr=False)
    time_ms: int | None = None
    """When the failed record was written; if it was resent, when it was first written."""

    @classmethod
    def of(cls, topic: str, record: TopicRecord) -> "DeadLetter":
        """Parse a record's headers. If a name occurs twice, the last one counts, as in Kafka Connect."""
        texts = {name: (data or b"").decode("utf-8", "replace") for name, data in record.headers if _is_ours(name)}
        facts = {name: text for name, text in texts.items() if name.startswith(PREFIX)}
        if facts and RESENT_TOPIC in texts:  # a resent record failed again: its first origin counts
            facts |= {name: texts.get(before, "") for name, before in _BEFORE.items()}
        times = (texts.get(RESENT_TIMESTAMP, ""), texts.get(TIMESTAMP, ""))
        time_ms = next((int(text) for text in times if text.isdecimal()), record.timestamp_ms)
        return cls(topic, record, facts, time_ms)

    @property
    def place(self) -> str:
        """Return where the dead letter is, in the notation for people."""
        return f"{self.topic}-{self.record.partition}@{self.record.offset}"

    @property
    def connector(self) -> str | None:
        """Return the name of its connector; None if no header has it."""
        return self.facts.get(CONNECTOR)

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Return the record's own headers."""
        return [(name, data) for name, data in self.record.headers if not _is_ours(name)]

    @property
    def origin(self) -> tuple[str, int] | None:
        """Return the topic and partition that a sink read the record from; None if no header has them."""
        topic, partition = self.facts.get(TOPIC), self.facts.get(PARTITION, "")
        return (topic, int(partition)) if topic and partition.isdecimal() else None

    @property
    def resent_headers(self) -> list[tuple[str, bytes | None]]:
        """Return headers by which the sink treats a resent record as one of its original topic."""
        origin = ((now, self.facts.get(name, "").encode()) for name, now in _BEFORE.items())
        return [*self.headers, *origin, *self._time]

    @property
    def copied_headers(self) -> list[tuple[str, bytes | None]]:
        """Return the headers of a copy for all readers of the original topic."""
        return [*self.headers, *self._time]

    @property
    def _time(self) -> list[tuple[str, bytes | None]]:
        return [] if self.time_ms is None else [(RESENT_TIMESTAMP, b"%d" % self.time_ms)]

    def to_json(self, *, is_sent_again: bool) -> dict[str, Any]:
        """Return everything as JSON: bytes are text if they are UTF-8, else `{"base64": …}`."""
        facts = self.facts
        return {
            "letter": {"topic": self.topic, "partition": self.record.partition, "offset": self.record.offset},
            "timestamp": self.record.timestamp_ms,
            "connector": facts.get(CONNECTOR),
            "task": _parsed(facts.get(TASK)),
            "origin": {
                "topic": facts.get(TOPIC),
                "partition": _parsed(facts.get(PARTITION)),
                "offset": _parsed(facts.get(OFFSET)),
                "timestamp": self.time_ms,
            },
            "stage": facts.get(STAGE),
            "class": facts.get(CLASS),
            "exception": facts.get(EXCEPTION),
            "message": facts.get(MESSAGE),
            "stacktrace": facts.get(STACKTRACE),
            "key": _machine(self.record.key),
            "value": _machine(self.record.value),
            "headers": [[name, _machine(data)] for name, data in self.headers],
            "is_sent_again": is_sent_again,
        }

    def lines(self, *, is_sent_again: bool) -> Iterator[str]:
        """Yield a summary in a few lines, each shortened."""
        facts = self.facts
        where = self.place
        again = "sent again" if is_sent_again else ""
        if not facts:
            yield "  ".join(part for part in (where, _when(self.record.timestamp_ms), again) if part)
            yield "  without context headers (errors.deadletterqueue.context.headers.enable)"
        else:
            origin = f"from {facts.get(TOPIC)}-{facts.get(PARTITION)}@{facts.get(OFFSET)}"
            if self.time_ms != self.record.timestamp_ms:
                origin += f" of {_when(self.time_ms)}"
            parts = (where, _when(self.record.timestamp_ms), origin, facts.get(STAGE), f"task {facts.get(TASK)}", again)
            yield _shown("  ".join(part for part in parts if part))
            yield f"  {_shown(f'{facts.get(EXCEPTION)}: {facts.get(MESSAGE)}')}"
        yield f"  key    {_human(self.record.key)}"
        yield f"  value  {_human(self.record.value)}"


def summary(dead_letters: Sequence[DeadLetter], topic: str, connector: str) -> str:
    """Return the last line: how many there are, and how many of an unknown connector."""
    text = f"{len(dead_letters)} dead letter{'s' if len(dead_letters) != 1 else ''} of {connector} in {topic}"
    unknown = sum(dead_letter.connector is None for dead_letter in dead_letters)
    return f"{text}; {unknown} of them have no header with their connector" if unknown else text


def _is_ours(name: str) -> bool:
    return name.startswith((PREFIX, RESENT)) or name == TIMESTAMP


def _when(timestamp_ms: int | None) -> str:
    if timestamp_ms is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def _parsed(fact: str | None) -> Any:
    """Return a number, or a source's position, parsed from JSON; other text unchanged."""
    try:
        return None if fact is None else json.loads(fact)
    except ValueError:
        return fact


def _machine(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _human(data: bytes | None) -> str:
    return "(none)" if data is None else _shown(data[: 4 * _WIDTH].decode("utf-8", "backslashreplace"))


def _shown(text: str) -> str:
    """Return one line of the text without terminal control characters."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: 2 * _WIDTH])
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
