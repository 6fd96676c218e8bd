"""Checks that the config topic has all records of each logical write, or none."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from fencepost.storage import records

Pair = tuple[bytes | None, bytes | None]
_Word = tuple[str, Any]


def torn_writes(committed: Iterable[Pair]) -> list[str]:
    """Return what is torn in the records that a read_committed reader saw, in their order. Pure.

    A leader writes one thing after the other, so that of the records about one connector those of a logical write stand
    side by side: all task configs right before their commit record, an empty set of tasks right before the target state
    STOPPED, a connector's tombstone right before that of its target state.
    """
    words: dict[str, list[_Word]] = defaultdict(list)
    for key, value in committed:
        word = _word((key or b"").decode(), value)
        if word is not None:
            words[word[0]].append(word[1])
    return [f"{connector}: {problem}" for connector, own in words.items() for problem in _torn(own)]


def _word(key: str, value: bytes | None) -> tuple[str, _Word] | None:
    """Return which connector a record is about, what it is, and what it says."""
    for prefix in (records.TARGET_STATE, records.CONNECTOR, records.COMMIT):
        if key.startswith(prefix):
            return key[len(prefix) :], (prefix, None if value is None else orjson.loads(value))
    task = records.parse_task(key[len(records.TASK) :]) if key.startswith(records.TASK) else None
    return None if task is None else (task.connector, (records.TASK, task.task))


def _torn(own: Sequence[_Word]) -> Iterator[str]:
    pending: list[int] = []
    for place, (kind, content) in enumerate(own):
        before = own[place - 1] if place else ("", None)
        behind = own[place + 1] if place + 1 < len(own) else ("", None)
        if kind == records.TASK:
            pending.append(content)
            if behind[0] not in (records.TASK, records.COMMIT):
                yield f"the config of task {content} is followed by {behind}, not by its commit record"
        elif kind == records.COMMIT:
            if sorted(pending) != list(range(content["tasks"])):
                yield f"a commit of {content['tasks']} tasks comes behind the configs of {pending}"
            pending = []
        elif kind == records.TARGET_STATE and content is not None and content.get("state.v2") == "STOPPED":
            is_created_so = behind[0] == records.CONNECTOR
            if not is_created_so and before != (records.COMMIT, {"tasks": 0}):
                yield f"STOPPED comes behind {before}, not behind an empty set of tasks"
        elif kind == records.CONNECTOR and content is None and behind != (records.TARGET_STATE, None):
            yield f"a deleted connector is followed by {behind}, not by the end of its target state"
