"""Dead letters: as a worker shows them, and in the formats for people and for programs."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fencepost.cli.connect import Connect, RefusedError
from fencepost.dead_letter.letter import DeadLetter, parsed
from fencepost.kafka.read.browse import TopicRecord
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


_PAGE = 50


class Letters(NamedTuple):
    """The newest dead letters of a topic, the oldest of them first, each with whether it was sent again or passed over.

    `unnamed`: records met that do not say which connector they are of, and so are not among them.
    """

    topic: str
    found: list[tuple[DeadLetter, bool]]
    unnamed: int


def newest_letters(connect: Connect, name: str, limit: int) -> Letters | None:
    """Return the newest `limit` dead letters of a connector, or all with 0; None if these workers do not show any.

    Raises RefusedError if it has no dead letter topic, and what `Connect` raises.
    """
    topic, found, unnamed, asked = "", list[tuple[DeadLetter, bool]](), 0, dict[str, object]()
    while not limit or len(found) < limit:
        count = min(_PAGE, limit - len(found)) if limit else _PAGE
        try:
            page = connect.get("connectors", name, "dead-letters", limit=count, **asked)
        except RefusedError as error:
            if error.status in (404, 405):
                return None
            raise
        topic, unnamed = page["topic"], unnamed + page["unnamed"]
        found += [(_letter(name, topic, each), bool(each["is_handled"])) for each in page["letters"]]
        if not page["older"]:
            break
        asked = {"before": page["older"]}
    return Letters(topic, found[::-1], unnamed)


def _letter(name: str, topic: str, shown: Mapping[str, Any]) -> DeadLetter:
    origin, error, content = shown["origin"], shown["error"], shown["content"]
    facts = {
        TOPIC: origin["topic"],
        PARTITION: _text(origin["partition"]),
        OFFSET: _text(origin["offset"]),
        CONNECTOR: name,
        TASK: _text(shown["task"]),
        STAGE: error["stage"],
        CLASS: error["class_name"],
        EXCEPTION: error["exception"],
        MESSAGE: error["message"],
        STACKTRACE: error["stacktrace"],
    }
    partition, _, offset = shown["letter"].removeprefix(f"{topic}-").partition("@")
    key, value = _bytes(content["key"]), _bytes(content["value"])
    record = TopicRecord(int(partition), int(offset), shown["timestamp_ms"], key, value)
    return DeadLetter(topic, record, {k: v for k, v in facts.items() if v is not None}, origin["timestamp_ms"])


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _bytes(shown: Mapping[str, Any] | None) -> bytes | None:
    if shown is None:
        return None
    return base64.b64decode(shown["text"]) if shown["is_base64"] else shown["text"].encode()
