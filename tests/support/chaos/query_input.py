"""The input of streaming queries: numbers with keys, some of them twice, some of them in aborted transactions."""

import functools
import random
from collections.abc import Sequence

from confluent_kafka import Producer

from support.log_writer import LogWriter

PARTITIONS, KEYS = 2, 5
BLOCK, PER_S = 10, 10
_ABORTED_EVERY = 6
_SENT_S = 300.0


class QueryInput:
    """Writes blocks of numbers for a `Feed`, and knows how much queries have to make of them."""

    def __init__(self, topic: str, producer: Producer, writer: LogWriter | None = None) -> None:
        """Without a `writer` nothing is written in transactions."""
        self.records = 0
        self.values = 0
        self._topic = topic
        self._producer = producer
        self._writer = writer

    def write(self, numbers: range) -> bool:
        """Write a block to one partition, with one number of the block before it, which is written again."""
        chosen = random.Random(numbers[0])
        partition = chosen.randrange(PARTITIONS)
        if self._writer is not None and (numbers[0] // BLOCK) % _ABORTED_EVERY == 0:
            values = [f"aborted-{n}" for n in numbers]
            self._writer.write(self._topic, values, partition, is_committed=False, key="k0")
        again = [chosen.randrange(max(1, numbers[0] - BLOCK), numbers[0] + 1)]
        self._send([*numbers, *again], partition)
        self.values += len(numbers)
        self.records += len(numbers) + len(again)
        return True

    def _send(self, numbers: Sequence[int], partition: int) -> None:
        errors: list[object] = []
        note = functools.partial(lambda error, _: errors.append(error) if error else None)
        for n in numbers:
            self._producer.produce(self._topic, str(n), f"k{n % KEYS}", partition, on_delivery=note)
        assert self._producer.flush(_SENT_S) == 0
        assert not errors, errors
