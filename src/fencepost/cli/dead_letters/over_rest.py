"""Dead letters as a worker shows them, with the beginnings of their contents: no client of Kafka is needed."""

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from fencepost.cli.connect import Connect, RefusedError
from fencepost.dead_letter.letter import DeadLetter
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
