"""A topic of random records in batches that were encoded column by column: a partition for each compression."""

import random
import socket
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.codec.compress import NAMES, Codec
from fencepost.kafka.codec.encode import encode_batch
from fencepost.kafka.codec.encode_cut import Limits, cuts
from fencepost.kafka.codec.encode_header import BatchProducer, EncodedBatch, taken_batch
from fencepost.testing import eventually
from support.batch_records import rows_of
from support.slow_batch import PlainRecord, headed, slow_body

_LIMITS = Limits(topic_bytes=4_000_000, batch_bytes=200_000)
_ANSWER_S = 60
_LOTS = 6
_NOT_YET_LEADER = (3, 6)  # of a topic that was just made
_NOW = 1_750_000_000_000
_CONFIGS = {
    "max.message.bytes": str(_LIMITS.topic_bytes),
    "message.timestamp.after.max.ms": str(2**62),
    "retention.ms": "-1",
}
Records = dict[int, list[PlainRecord]]


def write_batch(bootstrap: str, topic: str, records: Sequence[PlainRecord], partition: int = 0) -> None:
    """Write records as one batch. Their headers may have names that are no text: bytes as Python escapes them."""
    times = [record.timestamp for record in records]
    data = headed(0, len(records) - 1, slow_body(records), len(records), times[0], max(times))
    with BatchWriter(bootstrap) as writer:
        writer.write(topic, partition, taken_batch(memoryview(data)))


class BatchWriter:
    """One connection to a broker that has everything, and an idempotent producer: the broker checks its sequences."""

    def __init__(self, bootstrap: str) -> None:
        from kafka.protocol.parser import KafkaProtocol

        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), _ANSWER_S)
        self._protocol = KafkaProtocol(client_id="test")
        # A broker that has just started is busy for a moment.
        self.producer = eventually(self._producer, within_s=_ANSWER_S)
        self._sequences: dict[tuple[str, int], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def write(self, topic: str, partition: int, batch: EncodedBatch) -> None:
        """Write a batch; the broker must take it."""
        from kafka.protocol.producer import ProduceRequest as Request

        sequence = self._sequences.get((topic, partition), 0)
        self._sequences[topic, partition] = sequence + batch.count
        records = b"".join(batch.stamped(self.producer, sequence))
        here = Request.TopicProduceData.PartitionProduceData(index=partition, records=records)
        data = [Request.TopicProduceData(name=topic, partition_data=[here])]

        def answered() -> Any:
            answer = self.ask(Request(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=data), 9)
            [found] = answer.responses[0].partition_responses
            return None if found.error_code in _NOT_YET_LEADER else found

        found = eventually(answered, within_s=_ANSWER_S)
        assert found.error_code == 0, (found, batch)

    def read(self, topic: str, partition: int) -> Iterator[memoryview]:
        """Yield a partition's batches as the broker has them."""
        from kafka.protocol.consumer import FetchRequest as Request

        offset = 0
        while True:
            here = Request.FetchTopic.FetchPartition(
                partition=partition, fetch_offset=offset, partition_max_bytes=_LIMITS.topic_bytes, log_start_offset=-1
            )
            topics = [Request.FetchTopic(topic=topic, partitions=[here])]
            asked = Request(replica_id=-1, max_wait_ms=100, min_bytes=1, max_bytes=1 << 26, topics=topics)
            [found] = self.ask(asked, 4).responses[0].partitions
            assert found.error_code == 0, found
            batches = list(_whole_batches(memoryview(found.records or b"")))
            if not batches:
                return
            for batch in batches:
                yield batch
                offset = int.from_bytes(batch[:8], "big") + int.from_bytes(batch[23:27], "big") + 1

    def _producer(self) -> BatchProducer | None:
        from kafka.protocol.producer import InitProducerIdRequest as Request

        nobody = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
        answer = self.ask(Request(transaction_timeout_ms=0, **nobody), 4)
        return None if answer.error_code else BatchProducer(answer.producer_id, answer.producer_epoch)

    def ask(self, request: Any, version: int) -> Any:
        request.API_VERSION = version
        self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())
        answers: list[Any] = []
        while not answers:
            data = self._socket.recv(1 << 16)
            assert data, "the broker closed the connection"
            answers.extend(answer for _, answer in self._protocol.receive_bytes(data))
        return answers[0]


def batch_topic(bootstrap: str, name: str) -> None:
    """Create a topic that takes what is written here."""
    admin = Admin({"bootstrap.servers": bootstrap})
    admin.topics.create(name, partitions=len(NAMES), replication=1, configs=_CONFIGS)


def written_batches(bootstrap: str, topic: str, rng: random.Random) -> Records:
    """Create a topic, write it, and return its records by partition."""
    batch_topic(bootstrap, topic)
    found: Records = {}
    with BatchWriter(bootstrap) as writer:
        for partition, name in enumerate(NAMES):
            found[partition] = []
            for records in _lots(rng):
                rows = rows_of(records)
                for start, stop in cuts(rows, _LIMITS):
                    writer.write(topic, partition, encode_batch(rows.slice(start, stop), Codec(name)))
                found[partition] += records
    return found


def difference(found: Records, written: Records) -> str | None:
    """Return where what was read is not what was written, first; all of it would fill a screen for minutes."""
    for partition, expected in written.items():
        here = found.get(partition, [])
        for offset, (one, other) in enumerate(zip(here, expected, strict=False)):
            if one != other:
                return f"{NAMES[partition]}, offset {offset}: {str(one)[:500]}, not {str(other)[:500]}"
        if len(here) != len(expected):
            return f"{NAMES[partition]}: {len(here)} records of {len(expected)}"
    return None


def _whole_batches(data: memoryview) -> Iterator[memoryview]:
    while len(data) >= 12 and len(data) >= 12 + (size := int.from_bytes(data[8:12], "big")):
        yield data[: 12 + size]
        data = data[12 + size :]


def _lots(rng: random.Random) -> Iterator[Sequence[PlainRecord]]:
    """Yield lots of records: small ones of all kinds, then one of many, then large ones between small ones."""
    for _ in range(_LOTS):
        kinds = [rng.random() < 0.7 for _ in range(3)]
        yield [_record(rng, *kinds) for _ in range(rng.choice((1, 2, 63, 64, 65, 300)))]
    yield [PlainRecord(None, b"line %d of many" % index, _NOW) for index in range(10_000)]
    yield [PlainRecord(b"k", rng.choice((b"ab", b"xyz")) * size, _NOW - size) for size in (1, 150_000, 2, 250_000, 3)]


def _record(rng: random.Random, has_keys: bool, has_times: bool, has_headers: bool) -> PlainRecord:
    return PlainRecord(
        _bytes_or_null(rng) if has_keys else None,
        _bytes_or_null(rng),
        rng.choice((0, 1, _NOW, _NOW + rng.randrange(20_000), rng.randrange(1 << 42))) if has_times else _NOW,
        tuple((rng.choice(("", "h", "ü")), _bytes_or_null(rng)) for _ in range(rng.randrange(3)))
        if has_headers
        else (),
    )


def _bytes_or_null(rng: random.Random) -> bytes | None:
    size = rng.choice((None, 0, 1, 62, 63, 64, 65, rng.randrange(300)))
    if size is None:
        return None
    return rng.randbytes(size) if rng.random() < 0.5 else b"text" * (size // 4)


ODD_NAME = b"\xff\xfebad".decode(errors="surrogateescape")
"""The name of a header that is no text, to be written; it is read as this one:"""
READ_ODD_NAME = "\ufffd\ufffdbad"


def odd_records(time_ms: int = _NOW) -> list[PlainRecord]:
    """Return records of which the second and the last have a header with a name that is not UTF-8."""
    fine, odd = ("fine", b"1"), (ODD_NAME, b"2")
    return [
        PlainRecord(None, b"0", time_ms),
        PlainRecord(b"k", b"1", time_ms, (fine, odd, ("none", None))),
        PlainRecord(None, b"2", time_ms, (fine,)),
        PlainRecord(None, b"3", time_ms, (odd,)),
    ]


ODD_HEADERS = [(), (("fine", b"1"), (READ_ODD_NAME, b"2"), ("none", None)), (("fine", b"1"),), ((READ_ODD_NAME, b"2"),)]
"""The headers of those records, as Kafka's own consumer reads them."""
