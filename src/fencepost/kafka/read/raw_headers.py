"""Reading headers again as bytes: librdkafka's Python client cannot give one whose name is not UTF-8."""

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.codec.decode import DecodedRecord, decoded
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.fetched_queue import Unread, UnreadFetched
from fencepost.kafka.setting.batch_settings import readable
from fencepost.kafka.value.fetched import Fetched, Headers
from fencepost.kafka.value.position import LogPosition
from fencepost.record import TopicPartition

_READ_S, _LOOK_S = 60.0, 1.0


class RawHeaders:
    """Reads records again by a client that gives their bytes. Connects at the first; for one thread."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """`conf` is the consumer's, in librdkafka's names."""
        self._conf = conf
        self._known: dict[tuple[TopicPartition, int], Headers] = {}

    def read(self, place: TopicPartition, offset: int) -> Headers:
        """Return the headers of a record, which is in the log.

        Raises KafkaAuthorizationError, CorruptBatchError, or KafkaRequestError where no broker answers for a minute or
        only librdkafka can connect: nothing that passes, for the client has handed the record over already.
        """
        if (place, offset) not in self._known:
            self._known = {(place, record.offset): record.headers for record in self._batch(place, offset)}
        return self._known[place, offset]

    def _batch(self, place: TopicPartition, offset: int) -> list[DecodedRecord]:
        """Return the records of the batch that has an offset; there may be more of their kind in it."""
        doing = f"reading the headers of offset {offset} of {place.topic}-{place.partition} as bytes"
        with closing(BatchReader(readable(self._conf), Unread(), doing=doing)) as reader:
            reader.assign({place: LogPosition(offset)})
            until_s = time.monotonic() + _READ_S
            while time.monotonic() < until_s:
                records = _decoded(_read(reader))
                if any(record.offset == offset for record in records):
                    return records
        raise KafkaRequestError(f"No broker answered within {_READ_S:g} s while {doing}", KafkaError._TIMED_OUT)


def _read(reader: BatchReader) -> Fetched:
    try:
        return reader.read(_LOOK_S, 1).fetched
    except KafkaUnavailableError:
        time.sleep(_LOOK_S)
        return Fetched()


def _decoded(fetched: Fetched) -> list[DecodedRecord]:
    batches = fetched.entries if isinstance(fetched, UnreadFetched) else ()
    return [record for _, batch in batches for record in decoded(batch.sent.view)]
