"""`df.write.format("fencepost")` by hand: options, and the markers that make a rerun skip what is done.

Each partition is one transaction: its rows, and a marker `["fencepost-write", {"id", "partition"}]` ->
`{"done", "rows", "partitions"}` in the topic of option `offsets.topic`.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from fencepost.api import FatalError
from fencepost.config import ConfigError
from fencepost.kafka.admin import Admin
from fencepost.kafka.log import LogReader, LogRecord
from fencepost.kafka.settings import Kind, translate
from fencepost.spark.partition import OffsetRecords, Position
from fencepost.storage.offset_topic import encode

_OWNER = "fencepost-write"
_OPTIONS = ("topic", "write.id", "write.partitions", "offsets.topic", "rows.per.commit")
_READ_S = 60.0
# A partition is one transaction; the broker's own limit (transaction.max.timeout.ms) is 15 minutes by default.
_TRANSACTION_MS = "900000"


class WritePartitionsError(FatalError):
    """The frame is not cut into the partitions that the write was begun with."""


@dataclass(frozen=True)
class HandOptions:
    """The options of a write. `write_id` is one of our own where the user gave none."""

    topic: str | None
    write_id: str
    partitions: int | None
    offsets_topic: str
    rows_per_commit: int
    kafka: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "HandOptions":
        """Check the options. Raises ConfigError, naming the option."""
        kafka = {k[len("kafka.") :]: v for k, v in options.items() if k.startswith("kafka.")}
        unknown = [k for k in options if not k.startswith("kafka.") and k not in _OPTIONS]
        if unknown:
            raise ConfigError(f"option {unknown[0]} is unknown; there are {', '.join(_OPTIONS)} and kafka.*")
        if "bootstrap.servers" not in kafka:
            raise ConfigError("option kafka.bootstrap.servers is missing: it names the brokers to write to")
        has_id = "write.id" in options
        if has_id and "write.partitions" not in options:
            raise ConfigError(
                "option write.partitions is missing: with write.id, say into how many partitions the frame is cut "
                "(df.coalesce(4) and write.partitions=4), as a rerun is only the same write with the same partitions"
            )
        return cls(
            topic=options.get("topic"),
            write_id=options["write.id"] if has_id else uuid.uuid4().hex,
            partitions=_number("write.partitions", options["write.partitions"], 1) if has_id else None,
            offsets_topic=options.get("offsets.topic", "fencepost-writes"),
            rows_per_commit=_number("rows.per.commit", options.get("rows.per.commit", "0"), 0),
            kafka=kafka,
        )

    def conf(self, kind: Kind) -> dict[str, Any]:
        """Return the settings of a client. Raises ConfigError for what cannot be translated."""
        given = {"transaction.timeout.ms": _TRANSACTION_MS, **self.kafka} if kind is Kind.PRODUCER else self.kafka
        return dict(translate(kind, given).conf)

    def ensure_markers_topic(self) -> None:
        """Create the topic of the markers where it is missing. Driver side, at planning."""
        Admin(self.conf(Kind.ADMIN)).ensure_topic(
            self.offsets_topic, partitions=1, replication=-1, configs={"cleanup.policy": "compact"}
        )


class HandRun:
    """The `PartitionRun` of a write by hand."""

    def __init__(self, options: HandOptions, partition: int) -> None:
        self._options = options
        self._partition = partition
        self.producer_conf = options.conf(Kind.PRODUCER)
        self.transactional_id: str | None = f"{_OWNER}-{options.write_id}-{partition}"
        self.offsets_topic = options.offsets_topic
        self.rows_per_commit = options.rows_per_commit

    def admit(self) -> Position | None:
        """Return the marker of this partition. Raises WritePartitionsError where the partitions are others."""
        declared = self._options.partitions
        if declared is not None and self._partition >= declared:
            raise WritePartitionsError(f"option write.partitions is {declared}, but the frame has more partitions")
        markers = self._markers()
        for marker in markers.values():
            if marker.get("partitions") != declared:
                raise WritePartitionsError(
                    f"write.id {self._options.write_id} was begun with write.partitions={marker.get('partitions')}, "
                    f"and now it is {declared}: use the same number, or another write.id"
                )
        return markers.get(self._partition)

    @property
    def copier(self) -> None:
        return None

    def is_unchanged(self) -> bool:
        return True

    def offset_records(self, position: Position) -> OffsetRecords:
        value = {**position, "partitions": self._options.partitions}
        return [encode(_OWNER, {"id": self._options.write_id, "partition": self._partition}, value)]

    def _markers(self) -> dict[int, dict[str, Any]]:
        """Read the markers of this write, to the end that the topic has now (E3: after the fence)."""
        found: dict[int, dict[str, Any]] = {}

        def take(record: LogRecord) -> None:
            key = orjson.loads(record.key) if record.key else None
            if isinstance(key, list) and key[0] == _OWNER and key[1]["id"] == self._options.write_id:
                found.pop(key[1]["partition"], None)
                if record.value is not None:
                    found[key[1]["partition"]] = orjson.loads(record.value)

        reader = LogReader(self._options.conf(Kind.CONSUMER), self.offsets_topic)
        try:
            reader.read_to_end(_READ_S, take)
        finally:
            reader.close()
        return found


def _number(name: str, text: str, low: int) -> int:
    if not text.strip().isdigit() or int(text) < low:
        raise ConfigError(f"option {name} is {text}: it must be a whole number, {low} or more")
    return int(text)
