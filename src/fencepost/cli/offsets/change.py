"""Changes of offsets: as users write them, and what they change."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.config import ConfigError

_SINK = re.compile(r"^(?P<topic>.+):(?P<partition>\d+|\*)=(?P<offset>\d+|none)$")
_FORMS = 'expected TOPIC:PARTITION=OFFSET for a sink, or {"partition": {…}, "offset": {…}}'
_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


@dataclass(frozen=True)
class OffsetChange:
    """The new offset of one partition; None: it is deleted."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None

    @property
    def key(self) -> str:
        """Return a text that is equal for equal partitions."""
        return json.dumps(self.partition, sort_keys=True)

    def to_json(self) -> dict[str, Any]:
        """Return what a request has."""
        return {"partition": self.partition, "offset": self.offset}


def parse_changes(texts: Sequence[str], file: str | None, present: Sequence[OffsetChange]) -> list[OffsetChange]:
    """Return what is to change. Raises ConfigError, with all faults.

    Args:
        texts: `orders:0=1500`, `orders:*=0` for all partitions that have offsets, or JSON.
        file: A file of JSON, as `offsets show --output json` prints it.
        present: The offsets that there are.
    """
    faults: list[str] = []
    found: list[OffsetChange] = []
    for text in texts:
        try:
            found.extend(_parsed(text, present))
        except ValueError as error:
            faults.append(f"{text}: {error}")
    if file is not None:
        try:
            found.extend(_of_json(Path(file).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            faults.append(f"{file}: {error}")
    keys = [each.key for each in found]
    faults.extend(f"{key}: is given twice" for key in sorted({key for key in keys if keys.count(key) > 1}))
    if faults:
        raise ConfigError(faults)
    if not found:
        raise ConfigError(f"Say which offsets: {_FORMS}, or --file")
    return found


def of_answer(answer: Any) -> list[OffsetChange]:
    """Return the offsets that a worker has answered."""
    return [OffsetChange(one["partition"], one["offset"]) for one in answer["offsets"]]


def _parsed(text: str, present: Sequence[OffsetChange]) -> list[OffsetChange]:
    if text.lstrip().startswith("{"):
        return _of_json(text)
    found = _SINK.match(text)
    if found is None:
        raise ValueError(_FORMS)
    topic, offset = found["topic"], None if found["offset"] == "none" else {_OFFSET: int(found["offset"])}
    if found["partition"] != "*":
        return [OffsetChange({_TOPIC: topic, _PARTITION: int(found["partition"])}, offset)]
    partitions = [each.partition for each in present if each.partition.get(_TOPIC) == topic]
    if not partitions:
        raise ValueError(f"no partition of {topic} has an offset: name the partitions")
    return [OffsetChange(each, offset) for each in partitions]


def _of_json(text: str) -> list[OffsetChange]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error}") from None
    changes = found.get("offsets", [found]) if isinstance(found, dict) else found
    if not isinstance(changes, list) or not changes:
        raise ValueError('expected {"offsets": […]}')
    for each in changes:
        is_one = isinstance(each, dict) and isinstance(each.get("partition"), dict) and "offset" in each
        if not is_one or not isinstance(each["offset"], dict | None):
            raise ValueError(f'{json.dumps(each)[:80]}: expected {{"partition": {{…}}, "offset": {{…}} or null}}')
    return [OffsetChange(each["partition"], each["offset"]) for each in changes]
