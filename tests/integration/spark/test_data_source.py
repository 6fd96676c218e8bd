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
from support.spark_python import with_sparks_python

Write = Callable[..., None]
_PAGE = "write-kafka-from-spark.md"


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
    def write_frame(frame: Any, **options: str | None) -> None:
        named = {k.replace("_", "."): v for k, v in options.items()}
        writer = frame.write.format("fencepost").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        writer.options(**{key: value for key, value in ({"topic": topic} | named).items() if value is not None}).save()

    return write_frame


def test_rerun_writes_nothing_more_when_the_write_has_an_id(
    runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]]
) -> None:
    """The mode is left out: it means "append" here, as in Spark's own Kafka sink."""
    frame = runtime.session.range(0, 25_000, 1, 2).selectExpr(
        "cast(id as string) as key", "cast(id as string) as value"
    )
    for _ in range(2):
        write(frame, write_id=topic)
    values = [int(value) for _, value in read(topic)]
    assert len(values) == 25_000
    assert set(values) == set(range(25_000))


@pytest.mark.parametrize(("mode", "why"), [("overwrite", 'use mode."append".'), ("ignore", "SAVE_MODE")])
def test_other_modes_are_refused(runtime: SparkRuntime, mode: str, why: str) -> None:
    writer = runtime.session.range(1).selectExpr("'x' as value").write.mode(mode).format("fencepost")
    with pytest.raises(Exception, match=why):
        writer.option("kafka.bootstrap.servers", "localhost:1").option("topic", "t").save()


def test_large_output_is_staged_in_a_folder_that_is_empty_afterwards(
    runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]], tmp_path: Path
) -> None:
    frame = runtime.session.range(0, 3_000, 1, 2).selectExpr("cast(id as string) as key", "repeat('x', 2000) as value")
    write(frame, staging_location=str(tmp_path))
    assert sorted(int(key) for key, _ in read(topic)) == list(range(3_000))
    assert list(tmp_path.iterdir()) == []


def test_output_above_one_transaction_is_refused_in_a_task(
    runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]], tmp_path: Path
) -> None:
    """A driver sends 100 MB/s, so 10 ms are 1 MB."""
    frame = runtime.session.range(0, 3_000, 1, 1).selectExpr("repeat('x', 2000) as value")
    options = {"kafka.transaction.timeout.ms": "10", "staging_location": str(tmp_path)}
    with pytest.raises(Exception, match=r"more than 1,000,000 bytes.*write it in several writes, each with a write.id"):
        write(frame, **options)
    assert read(topic) == []
    assert list(tmp_path.iterdir()) == []


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


def test_rows_are_json_objects_when_there_is_no_value_column(
    runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]]
) -> None:
    frame = runtime.session.sql("select 1 as a, 'x' as b, cast(2.50 as decimal(5,2)) as c, null as d")
    write(frame)
    assert [orjson.loads(value) for _, value in read(topic)] == [{"a": 1, "b": "x", "c": 2.5, "d": None}]


def test_nothing_is_committed_when_spark_fails_in_the_middle(
    runtime: SparkRuntime, write: Write, topic: str, read: Callable[[str], list[Any]], tmp_path: Path
) -> None:
    """PyArrow takes the broken pipe for the end of the rows: half a file must not be committed as done."""
    file = tmp_path / "broken.csv"
    file.write_text("".join(f"{n}\n" if n != 45_000 else "oops\n" for n in range(60_000)))
    frame = runtime.session.read.schema("a int").option("mode", "FAILFAST").csv(str(file)).coalesce(1)
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        write(frame, write_id=topic)
    assert read(topic) == []
    file.write_text(file.read_text().replace("oops", "45000"))
    whole = runtime.session.read.schema("a int").csv(str(file)).coalesce(1)
    write(whole, write_id=topic)
    assert len(read(topic)) == 60_000


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({"topic": "t", "nonsense": "1"}, "'x' as value", "option nonsense is unknown"),
        ({"topic": "t"}, "1 as value", "column value is int: it must be string or binary"),
        ({"topic": "t"}, "'x' as value, 1 as other", "column other is not allowed in a frame with value"),
        (
            {"topic": "t", "write_partitions": "1"},
            "'x' as value",
            "option write.partitions is unknown; use one of topic",
        ),
        (
            {"topic": "t", "kafka.send.buffer.bytes": "1"},
            "'x' as value",
            "option kafka.send.buffer.bytes: the batch client has no such setting: remove it",
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
        # What a declarative pipeline defines, only `spark-pipelines` can run.
        if block.page.name == _PAGE and "pipelines" not in block.text:
            text = block.text.replace("localhost:9092", kafka.bootstrap_servers)
            text = text.replace("shouted.checkpoint", str(tmp_path / "checkpoint"))
            with_sparks_python(lambda text=text: exec(text, names))  # type: ignore[misc]
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
    [text] = [b.text for b in blocks("python") if b.page.name == _PAGE and "shouted.checkpoint" in b.text]
    text = text.replace("localhost:9092", kafka.bootstrap_servers).replace("shouted.checkpoint", str(checkpoint))
    with_sparks_python(lambda: exec(text, {"spark": runtime.session}))
