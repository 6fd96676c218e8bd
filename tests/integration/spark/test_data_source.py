"""`df.write.format("fencepost")` on real Spark and a real broker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyspark
import pytest
from page import blocks

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.log import LogReader
from fencepost.spark.session.session import SparkRuntime

pytestmark = pytest.mark.drawn(3)

Write = Callable[..., None]


@pytest.fixture
def read(kafka: EmbeddedKafka) -> Callable[[str], list[tuple[bytes | None, bytes | None]]]:
    """Return (key, value) of all committed records of a topic."""

    def read_topic(topic: str) -> list[tuple[bytes | None, bytes | None]]:
        records: list[tuple[bytes | None, bytes | None]] = []
        reader = LogReader({"bootstrap.servers": kafka.bootstrap_servers}, topic)
        reader.read_to_end(30, lambda record: records.append((record.key, record.value)))
        reader.close()
        return records

    return read_topic


@pytest.fixture
def topic(kafka: EmbeddedKafka, topic_name: str) -> str:
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=2, replication=1)
    return topic_name


@pytest.fixture
def write(kafka: EmbeddedKafka, topic: str) -> Write:
    def write_frame(frame: Any, mode: str = "append", **options: str | None) -> None:
        named = {k.replace("_", "."): v for k, v in options.items()}
        writer = frame.write.format("fencepost").mode(mode).option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        writer.options(**{key: value for key, value in ({"topic": topic} | named).items() if value is not None}).save()

    return write_frame


@pytest.mark.parametrize("client", ["librdkafka", "batch"])
def test_rerun_writes_nothing_more_when_the_write_has_an_id(
    client: str, runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]]
) -> None:
    frame = runtime.session.range(0, 25_000, 1, 2).selectExpr(
        "cast(id as string) as key", "cast(id as string) as value"
    )
    for _ in range(2):
        write(frame, write_id=topic, write_partitions="2", producer_client=client)
    values = [int(value) for _, value in read(topic)]
    assert len(values) == 25_000
    assert set(values) == set(range(25_000))


def test_rerun_is_refused_when_the_frame_has_other_partitions(runtime: SparkRuntime, write: Write, topic: str) -> None:
    frame = runtime.session.range(0, 10, 1, 2).selectExpr("cast(id as string) as value")
    write(frame, write_id=topic, write_partitions="2")
    with pytest.raises(Exception, match=r"was begun with write.partitions=2, and now it is 1"):
        write(frame.coalesce(1), write_id=topic, write_partitions="1")


def test_partitions_are_counted_and_a_rerun_is_compared_when_no_number_is_given(
    runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]]
) -> None:
    """Also with Spark's own mode, which means "append" here as in its own Kafka sink."""
    frame = runtime.session.range(0, 300, 1, 3).selectExpr("cast(id as string) as value")
    for _ in range(2):
        write(frame, mode="errorifexists", write_id=topic)
        assert sorted(int(value) for _, value in read(topic)) == list(range(300))
    with pytest.raises(Exception, match=r"was begun with write.partitions=3, and now it is 2"):
        write(frame.coalesce(2), write_id=topic)


def test_rows_go_to_the_topics_that_their_column_names(
    kafka: EmbeddedKafka, runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]]
) -> None:
    other = f"{topic}-other"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(other, partitions=1, replication=1)
    names = f"if(id % 2 = 0, '{topic}', '{other}') as topic"
    frame = runtime.session.range(4).selectExpr(names, "cast(id as string) as value")
    write(frame, topic=None)
    assert sorted(value for _, value in read(topic)) == [b"0", b"2"]
    assert sorted(value for _, value in read(other)) == [b"1", b"3"]
    write(frame, topic=other)
    assert (len(read(topic)), len(read(other))) == (2, 6)


@pytest.mark.parametrize("declared", ["4", "1"])
@pytest.mark.parametrize("is_adaptive", [False, True])
def test_a_wrong_partition_count_is_refused_before_any_row_and_can_be_corrected(
    declared: str, is_adaptive: bool, runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]]
) -> None:
    """Also where Spark knows the number only once the stages before have run."""
    frame = runtime.session.range(0, 300, 1, 2).selectExpr("cast(id as string) as value")
    if is_adaptive:
        frame = frame.repartition(6, "value").coalesce(2).groupBy("value").count().repartition(2).select("value")
    with pytest.raises(
        Exception, match=rf"partitions is {declared}, but the frame has 2: nothing is written. Set write."
    ):
        write(frame, write_id=topic, write_partitions=declared)
    assert read(topic) == []
    for _ in range(2):
        write(frame, write_id=topic, write_partitions="2")
        assert sorted(int(value) for _, value in read(topic)) == list(range(300))


def test_partitions_coalesced_at_run_time_are_counted_after_coalescing(
    runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]]
) -> None:
    """AQE puts small partitions together, whatever spark.sql.shuffle.partitions says."""
    frame = runtime.session.range(0, 300, 1, 2).groupBy("id").count().selectExpr("cast(id as string) as value")
    count = frame.rdd.getNumPartitions()
    with pytest.raises(Exception, match=f"but the frame has {count}: nothing is written"):
        write(frame, write_id=topic, write_partitions="200")
    write(frame, write_id=topic, write_partitions=str(count))
    assert sorted(int(value) for _, value in read(topic)) == list(range(300))


@pytest.mark.parametrize("declared", ["4", "1"])
def test_a_write_begun_with_a_wrong_partition_count_resumes_with_the_right_one(
    declared: str, runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]]
) -> None:
    """Other ways to begin a write than `save` find out late, as older versions did."""
    frame = runtime.session.range(0, 300, 1, 2).selectExpr("cast(id as string) as value")
    with pytest.MonkeyPatch.context() as uncounted:
        uncounted.setattr("fencepost.spark.direct_write.rerun.with_counted_partitions", lambda writer: writer)
        with pytest.raises(Exception, match=r"write\.partitions"):
            write(frame, write_id=topic, write_partitions=declared)
    with pytest.raises(Exception, match="but the frame has 2: nothing is written"):
        write(frame, write_id=topic, write_partitions=declared)
    write(frame, write_id=topic, write_partitions="2")
    assert sorted(int(value) for _, value in read(topic)) == list(range(300))


def test_rows_are_json_objects_when_there_is_no_value_column(
    runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]]
) -> None:
    frame = runtime.session.sql("select 1 as a, 'x' as b, cast(2.50 as decimal(5,2)) as c, null as d")
    write(frame)
    assert [orjson.loads(value) for _, value in read(topic)] == [{"a": 1, "b": "x", "c": 2.5, "d": None}]


@pytest.mark.parametrize("client", ["librdkafka", "batch"])
def test_nothing_is_committed_when_spark_fails_in_the_middle(
    client: str, runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]], tmp_path: Path
) -> None:
    """PyArrow takes the broken pipe for the end of the rows: half a file must not be committed as done."""
    file = tmp_path / "broken.csv"
    file.write_text("".join(f"{n}\n" if n != 45_000 else "oops\n" for n in range(60_000)))
    frame = runtime.session.read.schema("a int").option("mode", "FAILFAST").csv(str(file)).coalesce(1)
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        write(frame, write_id=topic, write_partitions="1", producer_client=client)
    assert read(topic) == []
    file.write_text(file.read_text().replace("oops", "45000"))
    whole = runtime.session.read.schema("a int").csv(str(file)).coalesce(1)
    write(whole, write_id=topic, write_partitions="1", producer_client=client)
    assert len(read(topic)) == 60_000


@pytest.mark.parametrize("client", ["librdkafka", "batch"])
def test_rows_are_committed_in_parts_when_asked(
    client: str, runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]]
) -> None:
    frame = runtime.session.range(0, 1000, 1, 1).selectExpr("cast(id as string) as value")
    write(frame, write_id=topic, write_partitions="1", rows_per_commit="300", producer_client=client)
    assert sorted(int(value) for _, value in read(topic)) == list(range(1000))


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({"topic": "t", "nonsense": "1"}, "'x' as value", "option nonsense is unknown"),
        ({"topic": "t"}, "1 as value", "column value is int: it must be string or binary"),
        ({"topic": "t"}, "'x' as value, 1 as other", "column other is not allowed in a frame with value"),
        ({"topic": "t", "rows_per_commit": "x"}, "'x' as value", "Invalid value x for configuration rows.per.commit"),
        (
            {"topic": "t", "producer_client": "java"},
            "'x' as value",
            "option producer.client is java: it must be one of",
        ),
        (
            {"topic": "t", "producer_client": "batch", "kafka.send.buffer.bytes": "1"},
            "'x' as value",
            "option kafka.send.buffer.bytes: the batch client has no such setting: remove it, or set producer",
        ),
    ],
)
def test_bad_options_are_refused_with_their_name(
    runtime: SparkRuntime, write: Write, options: dict[str, str], columns: str, message: str
) -> None:
    with pytest.raises(Exception, match=message):
        write(runtime.session.sql(f"select {columns}"), **options)


@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="streams from Kafka need Spark 4.2, as the page says")
def test_the_examples_of_writing_run_as_they_are_shown(
    kafka: EmbeddedKafka, runtime: SparkRuntime, read: Callable[[str], list[Any]], tmp_path: Path
) -> None:
    """With a batch whose stream fails after it is written: Spark repeats it."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    for name in ("prices", "even", "odd", "orders", "shouted"):
        admin.topics.ensure(name, partitions=1, replication=1)
    orders = runtime.session.range(6).selectExpr("concat('order-', id) as value")
    orders.write.format("fencepost").options(**_to(kafka, "orders")).save()
    names: dict[str, Any] = {}
    for block in blocks("python"):
        if block.page.name == "write-kafka-from-spark.md":
            text = block.text.replace("localhost:9092", kafka.bootstrap_servers)
            exec(text.replace("shouted.checkpoint", str(tmp_path / "checkpoint")), names)
    assert len(read("prices")) == 1000
    assert sorted(int(key or b"") for key, _ in read("odd")) == [1, 3, 5, 7, 9]
    shouted = [f"ORDER-{n}".encode() for n in range(6)]
    assert sorted(value for _, value in read("shouted")) == shouted
    for commit in ("0", ".0.crc"):
        (tmp_path / "checkpoint/commits" / commit).unlink()
    _again(runtime, kafka, tmp_path / "checkpoint")
    assert sorted(value for _, value in read("shouted")) == shouted


def _to(kafka: EmbeddedKafka, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic}


def _again(runtime: SparkRuntime, kafka: EmbeddedKafka, checkpoint: Path) -> None:
    """Run the page's query again, as after a failure before the commit of its batch."""
    [text] = [b.text for b in blocks("python") if "shouted.checkpoint" in b.text]
    text = text.replace("localhost:9092", kafka.bootstrap_servers).replace("shouted.checkpoint", str(checkpoint))
    exec(text, {"spark": runtime.session})
