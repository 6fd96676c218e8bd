"""What a real Kafka Connect 4.3.1 wrote and answered; `tests/oracle/record.py` made these files."""

import json
from pathlib import Path
from typing import Any, NamedTuple

_DIRECTORY = Path(__file__).parents[2] / "fixtures" / "connect-4.3.1"


class Recorded(NamedTuple):
    partition: int
    offset: int
    key: str
    value: str | None

    @property
    def key_bytes(self) -> bytes:
        return self.key.encode()

    @property
    def value_bytes(self) -> bytes | None:
        return None if self.value is None else self.value.encode()

    @property
    def json(self) -> Any:
        return None if self.value is None else json.loads(self.value)


class RecordedTopic(NamedTuple):
    partitions: int
    records: list[Recorded]


def recorded_topic(which: str) -> RecordedTopic:
    """`which`: config, offset or status."""
    content = json.loads((_DIRECTORY / f"{which}.json").read_text())
    return RecordedTopic(content["partitions"], [Recorded(**record) for record in content["records"]])
