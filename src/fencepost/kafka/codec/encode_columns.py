"""Encodes columns and their producer as the bytes of a batch, in one step."""

from typing import Any, Protocol

from fencepost.kafka.codec.compress import Codec
from fencepost.kafka.codec.encode import encode_batch
from fencepost.kafka.codec.encode_header import BatchProducer
from fencepost.kafka.codec.encode_rows import rows


class Columns(Protocol):
    """Records of one partition, in order. `headers` is None if no record has any; all may have the same timestamp."""

    @property
    def values(self) -> Any: ...
    @property
    def keys(self) -> Any: ...
    @property
    def timestamps(self) -> Any: ...
    @property
    def headers(self) -> Any: ...


def encode_columns(
    columns: Columns,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool,
    compression: str,
) -> tuple[bytes, int]:
    """Return the bytes of a batch of these records (at least one), and the number of records."""
    times = columns.timestamps
    now_ms, each = (times, None) if isinstance(times, int) else (0, times)
    made = rows(columns.values, now_ms=now_ms, keys=columns.keys, timestamps=each, headers=columns.headers)
    batch = encode_batch(made, Codec(compression))
    return b"".join(
        batch.stamped(BatchProducer(producer_id, producer_epoch, transactional), base_sequence)
    ), batch.count
