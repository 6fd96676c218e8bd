"""A dead letter in the formats for people and for machines."""

import base64
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from fencepost.dead_letter.letter import DeadLetter, parsed
from fencepost.task.failure.dead_letter import (
    CLASS,
    CONNECTOR,
    EXCEPTION,
    MESSAGE,
    OFFSET,
    PARTITION,
    STACKTRACE,
    STAGE,
    TASK,
    TOPIC,
)

_WIDTH = 160


def to_json(letter: DeadLetter, *, is_sent_again: bool) -> dict[str, Any]:
    """Return everything as JSON: bytes are text if they are UTF-8, else `{"base64": …}`."""
    facts, record = letter.facts, letter.record
    return {
        "letter": {"topic": letter.topic, "partition": record.partition, "offset": record.offset},
        "timestamp": record.timestamp_ms,
        "connector": facts.get(CONNECTOR),
        "task": parsed(facts.get(TASK)),
        "origin": {
            "topic": facts.get(TOPIC),
            "partition": parsed(facts.get(PARTITION)),
            "offset": parsed(facts.get(OFFSET)),
            "timestamp": letter.time_ms,
        },
        "stage": facts.get(STAGE),
        "class": facts.get(CLASS),
        "exception": facts.get(EXCEPTION),
        "message": facts.get(MESSAGE),
        "stacktrace": facts.get(STACKTRACE),
        "key": _machine(record.key),
        "value": _machine(record.value),
        "headers": [[name, _machine(data)] for name, data in letter.headers],
        "is_sent_again": is_sent_again,
    }


def lines(letter: DeadLetter, *, is_sent_again: bool) -> Iterator[str]:
    """Yield a summary in a few lines, each shortened."""
    facts, record = letter.facts, letter.record
    where = letter.place
    again = "sent again" if is_sent_again else ""
    if not facts:
        yield "  ".join(part for part in (where, _when(record.timestamp_ms), again) if part)
        yield "  without context headers (errors.deadletterqueue.context.headers.enable)"
    else:
        origin = f"from {facts.get(TOPIC)}-{facts.get(PARTITION)}@{facts.get(OFFSET)}"
        if letter.time_ms != record.timestamp_ms:
            origin += f" of {_when(letter.time_ms)}"
        task = f"task {facts[TASK]}" if TASK in facts else None
        parts = (where, _when(record.timestamp_ms), origin, facts.get(STAGE), task, again)
        yield _shown("  ".join(part for part in parts if part))
        is_whole = EXCEPTION in facts
        error = f"{facts[EXCEPTION]}: {facts.get(MESSAGE)}" if is_whole else "too large for headers about its failure"
        yield f"  {_shown(error)}"
    yield f"  key    {_human(record.key)}"
    yield f"  value  {_human(record.value)}"


def summary(dead_letters: Sequence[DeadLetter], topic: str, connector: str) -> str:
    """Return the last line: how many there are, and how many of an unknown connector."""
    text = f"{len(dead_letters)} dead letter{'s' if len(dead_letters) != 1 else ''} of {connector} in {topic}"
    unknown = sum(dead_letter.connector is None for dead_letter in dead_letters)
    return f"{text}; {unknown} of them have no header with their connector" if unknown else text


def _when(timestamp_ms: int | None) -> str:
    if timestamp_ms is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


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
