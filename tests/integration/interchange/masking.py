"""Removes from answers and records what differs between any two runs, before they are compared."""

import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from replay import FAILS_LATER

# Who answered, when, in which round; ids and versions of what was run.
_MASKED = frozenset(
    {"worker_id", "generation", "version", "trace", "commit", "kafka_cluster_id", "creation-timestamp", "key"}
    | {"discoverTimestamp"}
)
# Keys that Kafka Connect does not have: of a file's offset (decision 0068), and of `GET /`. It takes no notice of them.
_OURS_ALONE = frozenset({"fingerprint", "fencepost_version"})
_PASSING = frozenset({"UNASSIGNED", "RESTARTING"})

Values = list[Any]
Key = tuple[int, str]


def masked(value: Any) -> Any:
    """`value` with a star for whatever differs from run to run; an absent version or trace stays absent."""
    if isinstance(value, list):
        return [masked(each) for each in value]
    if not isinstance(value, dict):
        return value
    stars = _MASKED | FAILS_LATER.keys() if value.get("name") == "failing" else _MASKED
    shown = {k: v for k, v in value.items() if k not in _OURS_ALONE}
    return {k: "*" if k in stars and v is not None else masked(v) for k, v in shown.items()}


def sequences(topic: dict[str, Any]) -> dict[Key, Values]:
    """The masked values of each key of a dumped topic, in order; the key is known by its partition, too."""
    found: dict[Key, Values] = {}
    for record in topic["records"]:
        value = None if record["value"] is None else masked(json.loads(record["value"]))
        found.setdefault((record["partition"], record["key"]), []).append(value)
    return found


def without_repeats(values: Iterable[Any]) -> Values:
    """A value that follows itself says nothing new: a second tombstone, a fencing round with the same outcome."""
    return [value for value, _ in groupby(values)]


def is_counting(values: Values) -> bool:
    """Whether these are the source offsets of a VerifiableSource: numbers that only grow."""
    numbers = [value.get("seqno") for value in values if value]
    return len(numbers) == len(values) and None not in numbers and numbers == sorted(set(numbers))


def settled(values: Values) -> Values:
    """The states in which a connector or task came to rest.

    UNASSIGNED and RESTARTING on the way to another state are left out: how many of them are written depends on who
    was faster, and ours are written only if they outlast the write before. One at the end, at the shutdown, stays.
    `version` is left out (Kafka Connect gives null for what it has just stopped), and so is the number of the task
    that used a topic first.
    """
    plain = [_plain(value) for value in values]
    return without_repeats(v for n, v in enumerate(plain) if n == len(plain) - 1 or not _is_passing(v, plain[n + 1]))


def _is_passing(value: Any, following: Any) -> bool:
    return value is not None and value.get("state") in _PASSING


def _plain(value: Any) -> Any:
    if value is None:
        return None
    if "topic" in value:
        return {"topic": {k: v for k, v in value["topic"].items() if k != "task"}}
    return {k: v for k, v in value.items() if k != "version"}
