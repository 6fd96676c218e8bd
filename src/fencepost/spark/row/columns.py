"""Arrow batches as records for the producer. The columns are those of Spark's own Kafka sink."""

from collections.abc import Sequence
from typing import Any

from fencepost.config import ConfigError
from fencepost.record import BinaryColumn, HeaderBytes, Repeated
from fencepost.spark.row.json_rows import json_rows
from fencepost.task.delivery.outgoing import OutgoingColumns

_BYTES = ("string", "binary")
_ALLOWED = {"value": _BYTES, "key": _BYTES, "topic": ("string",), "partition": ("int", "integer")}


class RecordMaker:
    """Turns batches into records.

    If there is a column `value` (string or binary), the columns `key`, `topic`, `partition` and `headers` have their
    usual meaning, and any other is refused. Without it, each row becomes a JSON object of all its columns.
    """

    def __init__(self, names: Sequence[str], topic: str | None) -> None:
        self._topic = topic
        self._is_json = "value" not in names
        if topic is None and (self._is_json or "topic" not in names):
            raise ConfigError("option topic is missing: name a topic, or give the frame columns topic and value")
        unknown = [] if self._is_json else [n for n in names if n not in (*_ALLOWED, "headers")]
        if unknown:
            raise ConfigError(
                f"column {unknown[0]} is not allowed in a frame with value: use {', '.join(_ALLOWED)} and headers, "
                "or no value, so that rows are written as JSON objects"
            )

    def outgoing(self, batch: Any) -> OutgoingColumns:
        """Return the records of an Arrow batch."""
        topics: Sequence[str] | None = None if self._topic is None else Repeated(self._topic, batch.num_rows)
        if self._is_json:
            return OutgoingColumns(topics or (), json_rows(batch))
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        return OutgoingColumns(
            topics or topic_names(columns["topic"]),
            _bytes(columns["value"]),
            keys=_bytes(columns["key"]) if "key" in columns else None,
            partitions=columns["partition"].to_pylist() if "partition" in columns else None,
            headers=_headers(columns["headers"]) if "headers" in columns else None,
        )


def check_types(types: dict[str, str]) -> None:
    """Check Spark's types (column -> simple name) of a frame with `value`. Raises ConfigError."""
    if "value" not in types:
        return
    for name, allowed in _ALLOWED.items():
        if name in types and types[name] not in allowed:
            raise ConfigError(f"column {name} is {types[name]}: it must be {' or '.join(allowed)}")


def _bytes(column: Any) -> Sequence[bytes | None]:
    """Return bytes or text as bytes, without copying unless the column has 64-bit offsets."""
    import pyarrow as pa

    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        values: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
        return values
    return BinaryColumn(column.cast(pa.binary()))


def topic_names(column: Any) -> list[str]:
    """Return the names in the column `topic`. Raises ConfigError for a row without one."""
    if column.null_count:
        raise ConfigError("column topic has rows without a topic: fill it, or set option topic")
    names: list[str] = column.to_pylist()
    return names


def _headers(column: Any) -> list[list[HeaderBytes]]:
    return [[(header["key"], header["value"]) for header in row or ()] for row in column.to_pylist()]
