"""`writeStream.format("fencepost")` on real Spark and a real broker."""

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyspark
import pytest

from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.spark.session.session import SparkRuntime
from support.log_writer import LogWriter

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(pyspark.__version__ < "4.2", reason="reading streams needs Spark 4.2, as the page says"),
]


class Copy:
    """A query that copies a topic of two partitions into one of four, with a checkpoint of its own."""

    def __init__(self, runtime: SparkRuntime, writer: LogWriter, folder: Path) -> None:
        name = uuid.uuid4().hex[:8]
        self.writer = writer
        self.runtime = runtime
        self.source = writer.topic(f"in-{name}", 2)
        self.target = writer.topic(f"out-{name}", 4)
        self.checkpoint = folder / "checkpoint"
        self.sent = 0

    def send(self, count: int) -> None:
        """Write the next numbers, each with one of seven keys; a key is always in the same partition."""
        for partition in (0, 1):
            numbers = [n for n in range(self.sent, self.sent + count) if n % 7 % 2 == partition]
            for key in {n % 7 for n in numbers}:
                self.writer.send(self.source, [str(n) for n in numbers if n % 7 == key], partition, key=f"key-{key}")
        self.sent += count

    def frame(self, most: int = 100, **options: Any) -> Any:
        reader = self.runtime.session.readStream.format("fencepost")
        reader = reader.option("kafka.bootstrap.servers", self.writer.bootstrap).option("subscribe", self.source)
        return reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=most, **options).load()

    def write(self, frame: Any, **options: Any) -> Any:
        """Start the query, to the end there is now."""
        writer = frame.writeStream.format("fencepost").option("kafka.bootstrap.servers", self.writer.bootstrap)
        writer = writer.option("checkpointLocation", str(self.checkpoint)).options(**{"topic": self.target} | options)
        return writer.trigger(availableNow=True).start()

    def run(self, most: int = 100, **options: Any) -> None:
        """Copy everything there is now, and wait for it."""
        self.write(self.frame(most).selectExpr("key", "value"), **options).awaitTermination()

    def batches(self) -> list[int]:
        """Return the micro-batches that Spark knows to be done."""
        return sorted(int(path.name) for path in (self.checkpoint / "commits").iterdir() if path.name.isdigit())

    def forget(self, folder: str, batch: int) -> None:
        """Remove a file of the checkpoint, with its checksum."""
        (self.checkpoint / folder / str(batch)).unlink()
        (self.checkpoint / folder / f".{batch}.crc").unlink(missing_ok=True)

    def found(self, topic: str | None = None) -> list[LogRecord]:
        """Return the committed records of the target, in the order of each partition."""
        records: list[LogRecord] = []
        reader = LogReader({"bootstrap.servers": self.writer.bootstrap}, topic or self.target)
        reader.read_to_end(60, records.append)
        reader.close()
        return records

    def check(self) -> None:
        """Check that each record is there once, and those of a key are in order and in one partition."""
        records = self.found()
        counts = Counter(int(record.value or b"") for record in records)
        assert {n: counts[n] for n in range(self.sent) if counts[n] != 1} == {}
        assert len(counts) == self.sent
        for key in {record.key for record in records}:
            own = [record for record in records if record.key == key]
            assert len({record.partition for record in own}) == 1
            assert [int(record.value or b"") for record in own] == sorted(int(record.value or b"") for record in own)


@pytest.fixture
def copy(runtime: SparkRuntime, log_writer: LogWriter, tmp_path: Path) -> Copy:
    return Copy(runtime, log_writer, tmp_path)


def test_query_that_is_stopped_and_started_writes_each_record_once_in_order(copy: Copy) -> None:
    copy.send(250)
    copy.run()
    copy.send(250)
    copy.run()
    assert len(copy.batches()) > 4
    copy.check()
    assert not (copy.checkpoint / "fencepost").exists()


def test_decided_batch_is_skipped_when_spark_runs_it_again(copy: Copy) -> None:
    """Spark was ended between the transaction of the batch and its own commit log."""
    copy.send(250)
    copy.run()
    copy.forget("commits", copy.batches()[-1])
    copy.send(100)
    copy.run()
    copy.check()


def test_batch_with_other_offsets_is_refused_when_its_number_is_decided(copy: Copy) -> None:
    copy.send(50)
    copy.run()
    (last,) = copy.batches()
    copy.forget("commits", last)
    copy.forget("offsets", last)
    copy.send(50)
    with pytest.raises(Exception, match=r"batch 0 is not written: .* made of other offsets. .* new checkpoint"):
        copy.run()
    assert len(copy.found()) == 50
