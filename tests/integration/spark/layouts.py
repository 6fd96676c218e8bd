"""Random layouts of topics: everything that a log can hold, and what can be missing from it."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka import Producer

from support.log_writer import LogWriter

_TIME_MS = 1_700_000_000_000
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Layout:
    """One topic, drawn from a number. `is_compacted` says that old values of its keys are to be removed."""

    def __init__(self, name: str, number: random.Random) -> None:
        self.name = name
        self.is_compacted = number.random() < 0.3
        self.is_truncated = not self.is_compacted and number.random() < 0.3
        self.partitions = number.choice((1, 1, 2, 3))
        self._number = number
        self._rounds = number.randint(1, 5)

    def configs(self) -> dict[str, str]:
        configs = {
            "max_message_bytes": "4000000",
            "compression_type": self._number.choice(("producer", *_CODECS[1:])),
            "retention_ms": "-1",  # the records are from 2023
        }
        if self._number.random() < 0.3:
            configs["message_timestamp_type"] = "LogAppendTime"
        if self.is_compacted:
            configs |= {
                "cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.001",
                "delete_retention_ms": "0",
            }  # fmt: skip
        return configs

    def fill(self, writer: LogWriter, codecs: list[Producer]) -> None:
        """Write rounds: with and without transactions, committed and aborted; some partitions stay empty."""
        writer.topic(self.name, self.partitions, **self.configs())
        filled = [p for p in range(self.partitions) if self._number.random() < 0.8]
        for _ in range(self._rounds if filled else 0):
            with ExitStack() as stack:
                producer = self._number.choice(codecs)
                if self._number.random() < 0.6:
                    is_committed = self._number.random() < 0.6
                    producer = stack.enter_context(writer.transaction(is_committed=is_committed))
                for _ in range(self._number.randint(1, 40)):
                    producer.produce(self.name, partition=self._number.choice(filled), **self._record())
            producer.flush(30)

    def shorten(self, writer: LogWriter) -> None:
        """Delete what comes before some offset, where the layout has that."""
        ends = writer.admin.offsets.ends([(self.name, p) for p in range(self.partitions)], read_committed=True)
        for (topic, partition), end in ends.items() if self.is_truncated else ():
            if end:
                writer.truncate(topic, self._number.randint(0, end), partition)

    def _record(self) -> dict[str, Any]:
        number = self._number
        key = f"k{number.randint(0, 5)}" if self.is_compacted else number.choice([None, b"", f"k{number.random()}"])
        value = number.choice([None, b"", number.randbytes(number.randint(1, 200))])
        if number.random() < 0.01:
            value = number.randbytes(2_000_000)
        headers = [(number.choice("abü"), number.choice([None, b"", number.randbytes(5)])) for _ in range(3)]
        return {
            "key": key,
            "value": value,
            "headers": headers[: number.randint(0, 3)] or None,
            "timestamp": _TIME_MS + number.randint(0, 10**9),
        }


@contextmanager
def producers(bootstrap: str) -> Iterator[list[Producer]]:
    """Make a producer without transactions for each codec."""
    yield [
        Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "message.max.bytes": 8_000_000, "linger.ms": 1}
        )
        for codec in _CODECS
    ]
