"""`spark.read.format("fencepost")` beside Spark's own Kafka source: the same rows for the same options."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyspark
import pytest
import stream_program
from bench.sink_jars import sink_jars
from layouts import Layout, producers
from page import blocks

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.spark.session.session import SparkRuntime
from fencepost.testing import eventually
from support.batch_topic import Records, difference, written_batches
from support.log_writer import LogWriter
from support.long_form import IS_LONG
from support.quick import spark_properties
from support.seed import new_seed
from support.slow_batch import PlainRecord
from support.spark_python import started, with_sparks_python

pytestmark = [
    pytest.mark.timeout(900),  # a Spark, its jars, and twenty topics that two sources read
]
Rows = dict[tuple[str, int], list[tuple[Any, ...]]]
Read = Callable[..., Any]
_STREAMS = pytest.mark.skipif(pyspark.__version__ < "4.2", reason="streams need Spark 4.2, as the page says")
LAYOUTS = 30 if IS_LONG else 20
_TIME_MS = 1_700_000_000_000
_NEVER_MS = "4102444800000"
_COMMITTED = {"kafka.isolation.level": "read_committed"}  # where Spark's own source differs, unless it is told


@pytest.fixture(scope="module")
def runtime(no_shared_runtime: None) -> Iterator[SparkRuntime]:
    started = SparkRuntime({**spark_properties(), "spark.master": "local[3]"})
    started.start()
    for jar in sink_jars():  # on the class path, they would keep the JVM from using its archived classes
        started.session.sql(f"ADD JAR '{jar}'")
    yield started
    started.stop()


@pytest.fixture
def read(runtime: SparkRuntime, log_writer: LogWriter) -> Read:
    def read_by(source: str, **options: str) -> Any:
        reader = runtime.session.read.format(source).option("kafka.bootstrap.servers", log_writer.bootstrap)
        return reader.options(**_COMMITTED | options).load()

    return read_by


def rows(frame: Any) -> Rows:
    """Return the rows by partition, in the order in which they came."""
    found: Rows = {}
    for row in frame.collect():
        found.setdefault((row.topic, row.partition), []).append(tuple(row))
    return found


@pytest.fixture(scope="module")
def layouts(log_writer: LogWriter) -> Iterator[list[Layout]]:
    """Topics of random layouts; in some a transaction is open."""
    seed = new_seed()
    prefix = f"layout-{uuid.uuid4().hex[:6]}"
    made = [Layout(f"{prefix}-{n}", random.Random(f"{seed} {n}")) for n in range(LAYOUTS)]
    for number, times in enumerate(("CreateTime", "LogAppendTime"), LAYOUTS):  # whatever is drawn
        log_writer.send(log_writer.topic(f"{prefix}-{number}", message_timestamp_type=times), ["a"])
    with producers(log_writer.bootstrap) as codecs:
        for layout in made:
            layout.fill(log_writer, codecs)
        log_writer.settle([layout.name for layout in made])
        _compact(log_writer, [layout for layout in made if layout.is_compacted])
        for layout in made:
            layout.shorten(log_writer)
    another = LogWriter(log_writer.bootstrap)
    with another.transaction(is_committed=False) as producer:
        for layout in made[::4]:
            if not layout.is_compacted:  # they take no record without a key
                producer.produce(layout.name, "open", partition=0)
        producer.flush(30)
        yield made
    another.close()


def _compact(writer: LogWriter, compacted: list[Layout]) -> None:
    """Write one key over and over, until each log has been compacted in front of its last segments."""
    left = {(layout.name, partition) for layout in compacted for partition in range(layout.partitions)}
    for topic, partition in left:
        writer.send(topic, ["a"] * 9, partition, key="again")

    def are_compacted() -> bool:
        for topic, partition in left:
            writer.send(topic, ["b"], partition, key="last")  # a segment is closed by the next record
        left.difference_update([place for place in left if _count(writer, *place) < 9])
        return not left

    eventually(are_compacted, within_s=120, every_s=0.5)
    # Two readers are to find the same: nothing goes any more.
    stays = {layout.name: {"cleanup.policy": "delete"} for layout in compacted}
    assert not Admin({"bootstrap.servers": writer.bootstrap}).configs.alter(stays)


def _count(writer: LogWriter, topic: str, partition: int) -> int:
    """Return how many records of the key that is written over and over there are."""
    found: list[object] = []

    def take(record: LogRecord) -> None:
        if record.partition == partition and record.key == b"again":
            found.append(record)

    reader = LogReader({"bootstrap.servers": writer.bootstrap}, topic)
    reader.read_to_end(30, take)
    reader.close()
    return len(found)


def test_rows_equal_the_rows_of_sparks_own_source_for_random_layouts(read: Read, layouts: list[Layout]) -> None:
    """Byte for byte, and in order within each partition."""
    chosen = {"subscribePattern": rf"{layouts[0].name.rpartition('-')[0]}-\d+", "includeHeaders": "true"}
    ours, theirs = read("fencepost", **chosen), read("kafka", **chosen)
    assert ours.schema == theirs.schema
    found, expected = rows(ours), rows(theirs)
    assert found == expected
    assert sum(map(len, found.values())) > 100
    offsets = [[row[4] for row in each] for each in found.values()]
    assert any(b - a > 1 for each in offsets for a, b in pairwise(each))  # something is skipped
    assert {row[6] for each in found.values() for row in each} == {0, 1}  # times of producers, and of the broker


def test_columns_that_a_schema_names_are_read_and_no_others(
    runtime: SparkRuntime, log_writer: LogWriter, topic_name: str
) -> None:
    topic = log_writer.topic(topic_name)
    for value in (b"a", b"\xff\xfe", None):
        log_writer.plain.produce(topic, value, key=b"k")
    log_writer.plain.flush(30)
    reader = runtime.session.read.format("fencepost").option("kafka.bootstrap.servers", log_writer.bootstrap)
    reader = reader.option("subscribe", topic)
    found = reader.schema("offset BIGINT, value STRING").load()
    assert found.columns == ["offset", "value"]
    assert found.collect() == reader.load().selectExpr("offset", "cast(value AS STRING) AS value").collect()
    assert [row.hex for row in found.selectExpr("hex(value) AS hex").collect()] == ["61", "FFFE", None]


def test_batches_that_were_made_column_by_column_are_read(
    read: Read, kafka: EmbeddedKafka, topic_name: str, seed: int
) -> None:
    written = written_batches(kafka.bootstrap_servers, topic_name, random.Random(seed))
    frame = read("fencepost", subscribe=topic_name, includeHeaders="true").orderBy("partition", "offset")
    found: Records = {partition: [] for partition in written}
    for row in frame.selectExpr("partition", "key", "value", "unix_millis(timestamp) AS at", "headers").collect():
        data = (None if field is None else bytes(field) for field in (row.key, row.value))
        headers = tuple((name, None if value is None else bytes(value)) for name, value in row.headers or ())
        found[row.partition].append(PlainRecord(*data, row.at, headers))
    assert difference(found, written) is None


def test_uncommitted_records_are_read_when_asked_for(read: Read, layouts: list[Layout], log_writer: LogWriter) -> None:
    taken_back = log_writer.topic(f"taken-back-{uuid.uuid4().hex[:6]}", 1)
    with log_writer.transaction(is_committed=False) as producer:
        producer.produce(taken_back, "v")
    log_writer.settle([taken_back])
    chosen = {"subscribe": ",".join([taken_back, *(layout.name for layout in layouts[:5])])}
    uncommitted = rows(read("fencepost", **chosen, **{"kafka.isolation.level": "read_uncommitted"}))
    assert uncommitted == rows(read("kafka", **chosen, **{"kafka.isolation.level": "read_uncommitted"}))
    assert len(uncommitted[taken_back, 0]) == 1
    assert (taken_back, 0) not in rows(read("fencepost", **chosen))


@pytest.fixture(scope="module")
def timed(log_writer: LogWriter) -> str:
    """A topic of two partitions with ten records each, a second apart; a transaction's marker is at offset 10."""
    topic = log_writer.topic(f"timed-{uuid.uuid4().hex[:6]}", 2, retention_ms="-1")
    with log_writer.transaction() as producer:
        for n in range(20):
            producer.produce(topic, f"v{n}", partition=n % 2, timestamp=_TIME_MS + n // 2 * 1_000)
    log_writer.settle([topic])
    return topic


def _of_each(topic: str, first: int, second: int) -> str:
    return json.dumps({topic: {"0": first, "1": second}})


def test_ranges_follow_the_options(read: Read, timed: str) -> None:
    ranges: list[dict[str, str]] = [
        {"startingOffsets": _of_each(timed, 3, -2), "endingOffsets": _of_each(timed, 5, -1)},
        {"startingOffsets": "earliest", "endingOffsets": _of_each(timed, 0, 11)},
        {"startingOffsets": _of_each(timed, 10, 9), "endingOffsets": _of_each(timed, 11, 9)},
        {"startingTimestamp": str(_TIME_MS + 3_500), "endingTimestamp": str(_TIME_MS + 7_000)},
        {"startingOffsetsByTimestamp": _of_each(timed, _TIME_MS, _TIME_MS + 9_000)},
        {"endingOffsetsByTimestamp": _of_each(timed, _TIME_MS + 99_000, _TIME_MS + 1)},
        {"startingTimestamp": _NEVER_MS, "startingOffsetsByTimestampStrategy": "latest"},
    ]
    for options in ranges:
        assert rows(read("fencepost", subscribe=timed, **options)) == rows(read("kafka", subscribe=timed, **options))
    some = {"assign": json.dumps({timed: [1]}), "startingOffsets": json.dumps({timed: {"1": 4}})}
    assert [row[4] for row in rows(read("fencepost", **some))[timed, 1]] == [4, 5, 6, 7, 8, 9]
    with pytest.raises(Exception, match=r"option startingTimestamp: \S+-0 has no record of \d+ or later"):
        read("fencepost", subscribe=timed, startingTimestamp=_NEVER_MS).count()


def test_ranges_are_cut_when_more_partitions_are_asked_for(read: Read, timed: str) -> None:
    whole, cut = read("fencepost", subscribe=timed), read("fencepost", subscribe=timed, minPartitions="7")
    assert whole.rdd.getNumPartitions() == 2
    assert cut.rdd.getNumPartitions() == 7
    assert rows(cut) == rows(whole)
    fine = read("fencepost", subscribe=timed, maxRecordsPerPartition="4")
    assert fine.rdd.getNumPartitions() == 6


def test_lost_records_fail_the_query_unless_fail_on_data_loss_is_false(
    read: Read, log_writer: LogWriter, topic_name: str
) -> None:
    topic = log_writer.topic(topic_name)
    log_writer.send(topic, [str(n) for n in range(10)])
    log_writer.truncate(topic, 4)
    assert [row[4] for row in rows(read("fencepost", subscribe=topic))[topic, 0]] == [4, 5, 6, 7, 8, 9]
    gone = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 2}})}
    with pytest.raises(Exception, match=r"offsets 2 to 3 are gone, the log begins at 4.*failOnDataLoss to false"):
        read("fencepost", **gone).count()
    left = rows(read("fencepost", failOnDataLoss="false", **gone))
    assert [row[4] for row in left[topic, 0]] == [4, 5, 6, 7, 8, 9]
    at_the_end = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 10}})}
    assert rows(read("fencepost", **at_the_end)) == {}
    beyond = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 11}})}
    with pytest.raises(
        Exception, match=r"offset 11 of \S+-0 cannot be read: the log ends at 10.*failOnDataLoss to false"
    ):
        read("fencepost", **beyond).count()
    assert rows(read("fencepost", failOnDataLoss="false", **beyond)) == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of the options subscribe, subscribePattern, assign"),
        ({"subscribe": "nowhere"}, "option subscribe names what does not exist: topic nowhere"),
        ({"subscribe": "TIMED", "startingOffsets": "latest"}, "option startingOffsets is latest for every partition"),
        ({"subscribe": "TIMED", "endingOffsets": '{"TIMED":{"0":-2,"1":1}}'}, "option endingOffsets is earliest for"),
        ({"subscribe": "TIMED", "startingOffsets": '{"TIMED":{"0":1}}'}, r"does not name TIMED-1"),
        (
            {
                "subscribe": "TIMED",
                "startingOffsets": '{"TIMED":{"0":5,"1":5}}',
                "endingOffsets": '{"TIMED":{"0":6,"1":4}}',
            },
            "option endingOffsets is 4 for TIMED-1, before startingOffsets, which is 5",
        ),
        ({"subscribe": "TIMED", "startingofsets": "earliest"}, "option startingofsets is unknown to a reader"),
        ({"subscribe": "TIMED", "kafka.auto.offset.reset": "latest"}, r"option kafka\.auto\.offset\.reset is not supp"),
    ],
)
def test_unsupported_reads_are_refused_with_the_option(
    read: Read, timed: str, options: dict[str, str], message: str
) -> None:
    given = {key: value.replace("TIMED", timed) for key, value in options.items()}
    with pytest.raises(Exception, match=message.replace("TIMED", timed)):
        read("fencepost", **given).count()


def test_secrets_appear_in_no_plan(read: Read, timed: str, capsys: pytest.CaptureFixture[str]) -> None:
    frame = read("fencepost", subscribe=timed, **{"kafka.ssl.key.password": "hunter2"})
    frame.explain("extended")
    assert "fencepost" in capsys.readouterr().out
    assert "hunter2" not in frame._jdf.queryExecution().toString()


@_STREAMS
def test_a_stream_goes_on_where_spark_s_own_source_has_stopped(
    runtime: SparkRuntime, log_writer: LogWriter, timed: str, tmp_path: Path
) -> None:
    """With the checkpoint that is there: the query moves by one word."""

    def run(source: str) -> None:
        reader = runtime.session.readStream.format(source).option("kafka.bootstrap.servers", log_writer.bootstrap)
        chosen = reader.options(**_COMMITTED, subscribe=timed, startingOffsets="earliest", maxOffsetsPerTrigger="7")
        values = chosen.load().selectExpr("cast(value AS string) AS value", "offset", "partition")
        writer = values.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        started(lambda: writer.trigger(availableNow=True).start(str(tmp_path / "out"))).awaitTermination()

    run("kafka")
    log_writer.write(timed, ["more"] * 9)
    log_writer.settle([timed])
    run("fencepost")
    log_writer.write(timed, ["most"] * 3)
    log_writer.settle([timed])
    run("fencepost")
    written = [tuple(row) for row in runtime.session.read.parquet(str(tmp_path / "out")).collect()]
    expected = _all_of(runtime, log_writer, timed).selectExpr("cast(value AS string)", "offset", "partition")
    assert sorted(written) == sorted(tuple(row) for row in expected.collect())
    assert len(written) == 32


@_STREAMS
def test_a_killed_stream_resumes_from_its_checkpoint_with_each_record_once(
    runtime: SparkRuntime, log_writer: LogWriter, topic_name: str, tmp_path: Path
) -> None:
    topic = log_writer.topic(topic_name, 2)
    for n in range(20):
        values = [f"{n}-{i}" for i in range(400)]
        log_writer.write(topic, values, partition=n % 2, is_committed=n % 5 != 0)
    log_writer.settle([topic])
    given = {"bootstrap": log_writer.bootstrap, "topic": topic, "directory": str(tmp_path)}
    commits = tmp_path / "checkpoint" / "commits"
    endless, log = {**given, "most": 300, "is_ending": False, "conf": spark_properties()}, tmp_path / "log"

    def run_and_kill() -> None:
        with _program(endless, log) as program:
            eventually(lambda: program.poll() is not None or len(list(commits.glob("[0-9]*"))) >= 3, within_s=600)
            assert program.poll() is None, log.read_text()[-3000:]
            os.killpg(program.pid, signal.SIGKILL)

    with_sparks_python(run_and_kill)
    before = len(list(commits.glob("[0-9]*")))
    with_sparks_python(lambda: stream_program.stream(runtime.session, **given, most=3_000, is_ending=True))
    assert 3 <= before < len(list(commits.glob("[0-9]*")))
    written = sorted(tuple(row) for row in runtime.session.read.json(str(tmp_path / "out")).collect())
    expected = _all_of(runtime, log_writer, topic).selectExpr("offset", "partition", "cast(value AS string)")
    assert written == sorted(tuple(row) for row in expected.collect())
    assert len(written) == 16 * 400


@contextlib.contextmanager
def _program(given: dict[str, Any], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the program that streams, in a group of processes of its own that ends with the block."""
    command = [sys.executable, stream_program.__file__, json.dumps(given)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    with log.open("wb") as out:
        program = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True, env=environment)
    try:
        yield program
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def _all_of(runtime: SparkRuntime, log_writer: LogWriter, topic: str) -> Any:
    reader = runtime.session.read.format("fencepost").option("kafka.bootstrap.servers", log_writer.bootstrap)
    return reader.option("subscribe", topic).load()


@_STREAMS
def test_the_examples_of_the_how_to_run_as_they_are_shown(
    runtime: SparkRuntime, log_writer: LogWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_writer.recreate("orders", 2)  # another page has a topic of this name, too
    log_writer.send("orders", [f"order-{n}" for n in range(6)])
    log_writer.send("orders", ["another"] * 4, partition=1)
    runtime.session.conf.set("spark.sql.session.timeZone", "UTC")  # and there is a session, which the example takes
    names: dict[str, Any] = {}
    for block in blocks("python"):
        if block.page.name == "read-kafka-from-spark.md" and "registry:8081" not in block.text:
            text = block.text.replace("localhost:9092", log_writer.bootstrap)
            text = re.sub(r'"(orders\.(parquet|checkpoint))"', rf'"{tmp_path}/\1"', text)
            with_sparks_python(lambda text=text: exec(text, names))  # type: ignore[misc]
    out = capsys.readouterr().out
    assert "order-5" in out
    assert "\n7\n" in out  # three of the first partition, all four of the second
    assert runtime.session.read.parquet(str(tmp_path / "orders.parquet")).count() == 10
