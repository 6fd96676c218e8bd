"""`writeStream.format("fencepost")` on real Spark and a real broker."""

import shutil
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyspark
import pytest

from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.spark.session.session import SparkRuntime
from fencepost.spark.write.decision import newest_decision
from fencepost.testing import eventually
from support.log_writer import LogWriter
from support.spark_python import started

pytestmark = pytest.mark.timeout(600)


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
        if pyspark.__version__ < "4.2":
            pytest.skip("reading streams needs Spark 4.2, as the page says")
        reader = self.runtime.session.readStream.format("fencepost")
        reader = reader.option("kafka.bootstrap.servers", self.writer.bootstrap).option("subscribe", self.source)
        return reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=most, **options).load()

    def write(self, frame: Any, trigger: Any = None, **options: str | None) -> Any:
        """Start the query, by default to the end there is now."""
        given = {"kafka.bootstrap.servers": self.writer.bootstrap, "topic": self.target} | options
        writer = frame.writeStream.format("fencepost")
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        writer = writer.options(**{key: value for key, value in given.items() if value is not None})
        return started(writer.trigger(**(trigger or {"availableNow": True})).start)

    def run(self, most: int = 100, **options: str) -> None:
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
    assert [path.name for path in copy.checkpoint.glob("fencepost*")] == ["fencepost-decisions"]


def test_decided_batch_is_skipped_when_spark_runs_it_again(copy: Copy) -> None:
    """Spark was ended between the transaction of the batch and its own commit log."""
    copy.send(250)
    copy.run()
    copy.forget("commits", copy.batches()[-1])
    copy.send(100)
    copy.run()
    copy.check()


def test_query_over_files_writes_each_line_once_when_a_batch_runs_again(copy: Copy, tmp_path: Path) -> None:
    """The sink takes what any source reads."""
    lines = tmp_path / "lines"
    lines.mkdir()
    for number in range(3):
        (lines / f"{number}.txt").write_text("".join(f"{number}-{n}\n" for n in range(50)))
        for _ in range(2):
            copy.write(copy.runtime.session.readStream.text(str(lines))).awaitTermination()
            copy.forget("commits", copy.batches()[-1])
    expected = [f"{number}-{n}".encode() for number in range(3) for n in range(50)]
    assert sorted(record.value or b"" for record in copy.found()) == sorted(expected)


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


def test_columns_choose_topic_partition_timestamp_and_headers_of_a_stream(copy: Copy) -> None:
    copy.send(20)
    odd = copy.writer.topic(f"{copy.target}-odd", 2)
    rows = copy.frame().selectExpr(
        f"if(cast(value AS string) % 2 = 0, '{copy.target}', '{odd}') AS topic",
        "key",
        "value",
        "1 AS partition",
        "timestamp_millis(1700000000000 + cast(cast(value AS string) AS long)) AS timestamp",
        "array(struct('origin' AS key, cast('spark' AS binary) AS value)) AS headers",
    )
    copy.write(rows, topic=None).awaitTermination()
    found = {topic: copy.found(topic) for topic in (copy.target, odd)}
    numbers = {topic: sorted(int(each.value or b"") for each in records) for topic, records in found.items()}
    assert list(numbers.values()) == [list(range(0, 20, 2)), list(range(1, 20, 2))]
    for record in (each for records in found.values() for each in records):
        assert (record.partition, list(record.headers)) == (1, [("origin", b"spark")])
        assert record.timestamp_ms == 1_700_000_000_000 + int(record.value or b"")


def test_stateful_query_writes_each_row_once_when_a_decided_batch_runs_again(copy: Copy) -> None:
    """Another number of shuffle partitions changes nothing: Spark keeps the one of the checkpoint."""
    conf = copy.runtime.session.conf
    try:
        for shuffles in ("3", "2"):
            conf.set("spark.sql.shuffle.partitions", shuffles)
            copy.send(70)
            rows = copy.frame(50).selectExpr("cast(cast(cast(value AS string) AS int) % 90 AS string) AS value")
            copy.write(rows.dropDuplicates()).awaitTermination()
            copy.forget("commits", copy.batches()[-1])
        copy.send(70)
        copy.write(rows.dropDuplicates()).awaitTermination()
    finally:
        conf.unset("spark.sql.shuffle.partitions")
    assert sorted(int(record.value or b"") for record in copy.found()) == list(range(90))


def test_updates_by_foreach_batch_are_written_once_when_a_batch_runs_again(copy: Copy) -> None:
    def write(batch: Any, number: int) -> None:
        writer = batch.write.format("fencepost").mode("append").option("topic", copy.target)
        writer = writer.option("kafka.bootstrap.servers", copy.writer.bootstrap).option("batch.id", number)
        writer.option("checkpointLocation", str(copy.checkpoint)).save()

    def run() -> None:
        counts = copy.frame(50).groupBy("key").count().selectExpr("key", "cast(count AS string) AS value")
        writer = counts.writeStream.foreachBatch(write).outputMode("update").trigger(availableNow=True)
        started(writer.option("checkpointLocation", str(copy.checkpoint)).start).awaitTermination()

    conf = copy.runtime.session.conf
    conf.set("spark.sql.shuffle.partitions", "2")
    try:
        for _ in range(2):
            copy.send(70)
            run()
            copy.forget("commits", copy.batches()[-1])
        run()
    finally:
        conf.unset("spark.sql.shuffle.partitions")
    counts: dict[Any, list[int]] = {}
    for record in copy.found():
        counts.setdefault(record.key, []).append(int(record.value or b""))
    assert {key: found[-1] for key, found in counts.items()} == {f"key-{n}".encode(): 20 for n in range(7)}
    assert all(found == sorted(set(found)) for found in counts.values())


def test_frame_without_value_is_streamed_as_json_objects(copy: Copy) -> None:
    copy.send(3)
    rows = copy.frame().selectExpr("cast(cast(value AS string) AS int) AS number", "cast(key AS string) AS key")
    copy.write(rows).awaitTermination()
    found = sorted(record.value or b"" for record in copy.found())
    assert found == [b'{"number":%d,"key":"key-%d"}' % (n, n) for n in range(3)]


def test_queries_of_one_driver_write_to_one_topic_each_record_once(
    copy: Copy, runtime: SparkRuntime, log_writer: LogWriter, tmp_path: Path
) -> None:
    """With a group for the offsets of one of them, and output of tasks above what a message takes."""
    others = [Copy(runtime, log_writer, tmp_path / str(n)) for n in range(2)]
    for n, each in enumerate((copy, *others)):
        each.target, each.sent = copy.target, 1_000 * n
        each.send(300)
    big = others[1].frame(300).selectExpr("key", "concat(value, repeat('x', 20000)) AS value")
    queries = [
        copy.write(copy.frame(50).selectExpr("key", "value"), **{"commit.group": f"group-{copy.target}"}),
        others[0].write(others[0].frame(70).selectExpr("key", "value")),
        others[1].write(big, **{"kafka.compression.type": "none", "staging.location": str(tmp_path / "stage")}),
    ]
    for query in queries:
        query.awaitTermination()
    counts = Counter(int((record.value or b"").rstrip(b"x")) for record in copy.found())
    assert set(counts.values()) == {1}
    assert sorted(counts) == [*range(300), *range(1_000, 1_300), *range(2_000, 2_300)]
    assert [*(tmp_path / "stage").iterdir()] == []
    found = read_stable({"bootstrap.servers": log_writer.bootstrap}, f"group-{copy.target}", 30)
    assert sum(each.offset for each in found.values()) == 300
    decision = newest_decision(queries[0].id, {"kafka.bootstrap.servers": log_writer.bootstrap})
    assert decision is not None
    assert decision.batch == copy.batches()[-1]


def test_task_that_fails_in_spark_leaves_nothing_in_the_topic(copy: Copy) -> None:
    copy.send(50)
    rows = copy.frame().selectExpr("key", "if(value = '30', raise_error('broken'), value) AS value")
    with pytest.raises(Exception, match="broken"):
        copy.write(rows).awaitTermination()
    assert copy.found() == []
    copy.run()
    copy.check()


def test_checkpoint_that_was_copied_is_refused_once_both_went_on(copy: Copy, tmp_path: Path) -> None:
    copy.send(50)
    copy.run()
    shutil.copytree(copy.checkpoint, tmp_path / "copied")
    copy.send(50)
    copy.run()
    copy.checkpoint = tmp_path / "copied"
    copy.send(50)
    with pytest.raises(Exception, match=r"batch 1 is not written: .*its checkpoint was copied"):
        copy.run()
    assert len(copy.found()) == 100


def test_trigger_by_time_writes_new_records_until_the_query_is_stopped(copy: Copy) -> None:
    copy.send(20)
    query = copy.write(copy.frame().selectExpr("key", "value"), trigger={"processingTime": "100 milliseconds"})
    try:
        eventually(lambda: len(copy.found()) == 20, within_s=120, every_s=1)
        copy.send(20)
        eventually(lambda: len(copy.found()) == 40, within_s=120, every_s=1)
    finally:
        query.stop()
    copy.check()
