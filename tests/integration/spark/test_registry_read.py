"""`spark.read` and `spark.readStream` of topics of Avro, with a real registry."""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from page import blocks
from pyspark.errors import PySparkException

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.spark.session.session import SparkRuntime
from support.avro_topic import AVRO, AvroTopic
from support.schema_registry import shared_registry
from support.spark_python import started

FIRST = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}  # fmt: skip
SECOND = {
    **FIRST,
    "fields": [
        *FIRST["fields"][:3], {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "buyer", "default": None, "type": ["null", {
            "type": "record", "name": "Buyer",
            "fields": [
                {"name": "name", "type": "string"}, {"name": "scores", "type": {"type": "map", "values": "double"}},
            ],
        }]},
        {"name": "at", "default": 0, "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "time", "default": 0, "type": {"type": "int", "logicalType": "time-millis"}},
    ],
}  # fmt: skip
DAY = dt.date(2026, 2, 28)


@pytest.fixture
def topic(kafka: EmbeddedKafka, topic_name: str) -> str:
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=2, replication=1)
    return topic_name


@pytest.fixture
def avro(kafka: EmbeddedKafka, topic: str) -> AvroTopic:
    return AvroTopic(kafka, shared_registry(), topic)


def reader(of: Any, kafka: EmbeddedKafka, topic: str, **more: str) -> Any:
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest",
        "value.converter": AVRO, "value.converter.schema.registry.url": shared_registry(), **more,
    }  # fmt: skip
    return of.format("fencepost").options(**options)


def orders(first: int, last: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": n, "price": Decimal(n).scaleb(-2), "day": DAY, "tags": ["a", str(n)][: n % 3], **more}
        for n in range(first, last)
    ]


def test_values_are_structs_of_the_newest_schema(
    runtime: SparkRuntime, kafka: EmbeddedKafka, topic: str, avro: AvroTopic
) -> None:
    avro.write(avro.register(FIRST), FIRST, {0: orders(0, 50)})
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    more = {"buyer": {"name": "Eve", "scores": {"x": 0.5}}, "at": at, "time": dt.time(1, 2, 3, 4000)}
    avro.write(avro.register(SECOND), SECOND, {1: orders(50, 60, **more)})
    avro.write_bytes({1: [None]})
    frame = reader(runtime.session.read, kafka, topic).load()
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:int,price:decimal(9,2),day:date,tags:array<string>,"
        "buyer:struct<name:string,scores:map<string,double>>,at:timestamp,time:time(6)>"
    )
    query = (
        "value.id",
        "value.price",
        "value.day",
        "size(value.tags) AS tags",
        "value.buyer.scores['x'] AS x",
        ("unix_micros(value.at) AS at"),
        "cast(value.time AS string) AS time",
    )
    found = [tuple(row) for row in frame.orderBy("partition", "offset").selectExpr(*query).collect()]
    micros = int(at.timestamp()) * 1_000_000 + 6
    assert found == [
        *((n, Decimal(n).scaleb(-2), DAY, n % 3, None, 0, "00:00:00") for n in range(50)),
        *((n, Decimal(n).scaleb(-2), DAY, n % 3, 0.5, micros, "01:02:03.004") for n in range(50, 60)),
        (None,) * 7,
    ]
    assert frame.select("topic", "offset").count() == 61


def test_selected_columns_are_read_and_other_types_are_refused(
    runtime: SparkRuntime, kafka: EmbeddedKafka, topic: str, avro: AvroTopic
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    avro.write(avro.register(schema), schema, {0: [{"id": 7}]})
    found = reader(runtime.session.read, kafka, topic).schema("value STRUCT<id: INT>, key STRING").load().collect()
    assert [(row.value.id, row.key) for row in found] == [(7, None)]
    with pytest.raises(PySparkException, match="the columns of records are fixed"):
        reader(runtime.session.read, kafka, topic).schema("value STRING").load().collect()


def test_a_value_that_cannot_be_read_fails_the_query(
    runtime: SparkRuntime, kafka: EmbeddedKafka, topic: str, avro: AvroTopic
) -> None:
    avro.write(avro.register(FIRST), FIRST, {0: orders(0, 3)})
    avro.write_bytes({0: [b"bad"]})
    with pytest.raises(PySparkException, match=rf"{topic}-0 at offset 3: the value cannot be read .*0x626164"):
        reader(runtime.session.read, kafka, topic).load().collect()


def test_a_stream_reads_by_the_schema_that_it_began_with(
    runtime: SparkRuntime, kafka: EmbeddedKafka, topic: str, avro: AvroTopic, tmp_path: Path
) -> None:
    first = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    second = {**first, "fields": [*first["fields"], {"name": "more", "type": "string", "default": ""}]}
    avro.write(avro.register(first), first, {0: [{"id": n} for n in range(5)]})

    def written() -> Sequence[Any]:
        stream = reader(runtime.session.readStream, kafka, topic).load().select("value.*")
        query = stream.writeStream.format("parquet").trigger(availableNow=True)
        query = query.option("checkpointLocation", str(tmp_path / "mark"))
        started(lambda: query.start(str(tmp_path / "out"))).awaitTermination()
        return [tuple(row) for row in runtime.session.read.parquet(str(tmp_path / "out")).sort("id").collect()]

    assert written() == [(n,) for n in range(5)]
    avro.write(avro.register(second), second, {1: [{"id": n, "more": "x"} for n in range(5, 8)]})
    assert [row[0] for row in written()] == list(range(8))


def test_the_example_of_the_page_works(
    runtime: SparkRuntime, kafka: EmbeddedKafka, topic: str, avro: AvroTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "price", "type": "double"}]}
    avro.write(avro.register(schema), schema, {0: [{"price": price} for price in (7.25, 123.5)]})
    [text] = [b.text for b in blocks("python") if "registry:8081" in b.text and b.page.name.startswith("read-kafka")]
    for given, own in (
        ("localhost:9092", kafka.bootstrap_servers), ('"orders"', f'"{topic}"'),
        ("http://registry:8081", shared_registry()),
    ):  # fmt: skip
        text = text.replace(given, own)
    exec(text, {"spark": runtime.session})
    out = capsys.readouterr().out
    assert "123.5" in out
    assert "7.25" not in out


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"value.converter": "JsonConverter"}, "option value.converter=JsonConverter is not supported"),
        ({"value.converter.schema.registry.url": ""}, "schema.registry.url"),
        ({"value.converter.schema.registry.url": "http://127.0.0.1:1"}, "cannot be reached"),
        ({"value.schema.subject": "none"}, "register one, or set value.schema.subject"),
    ],
)
def test_wrong_options_are_refused(
    runtime: SparkRuntime, kafka: EmbeddedKafka, topic: str, options: dict[str, str], text: str
) -> None:
    with pytest.raises(PySparkException, match=text):
        reader(runtime.session.read, kafka, topic, **options).load()
