"""The frames of epochs: of each record only what the query needs is read, and the rows are as if all of it was."""

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any

import pyspark
import pytest
from confluent_kafka import Producer
from secret_values import CHANNEL_SECRET

from fencepost.api import DataFrameSink, Epoch, OffsetRange, Schema, SchemaType
from fencepost.builtin.converter.json import JsonConverter
from fencepost.config import ConfigError
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.record.schema import BYTES, DATE, INT32, STRING, TIME, TIMESTAMP, decimal
from fencepost.spark.epoch import frame as epoch_frame
from fencepost.spark.epoch import values
from fencepost.spark.epoch.dead_letters import Tally
from fencepost.spark.epoch.frame import EpochFrames
from fencepost.spark.epoch.records import ensure_is_read
from fencepost.spark.row.frame import ConverterChoice, record_columns
from fencepost.spark.row.kafka_columns import MISFIT_REASON, PARSED
from fencepost.spark.session.session import SparkRuntime
from fencepost.task.channel.message import Path
from fencepost.task.channel.split_message import EpochReading
from fencepost.worker.channel import ChannelServer

SCHEMA = {"value.schema": "n INT, name STRING"}
TOLERANT = {**SCHEMA, "errors.tolerance": "all"}
EVERYTHING = ["key", "value", "topic", "partition", "offset", "timestamp"]
ROWS = 8
_TELLS_S, _TELLS_NOT_S = 60.0, 2.0  # Spark tells when its listeners get to it
# What the epoch has of one topic, and what is read of it.
CASES: list[tuple[dict[str, str], str | None, list[str]]] = [
    ({}, None, ["value"]),
    (SCHEMA, None, ["value", "partition", "offset", MISFIT_REASON, PARSED]),
    ({"value.schema": "n INT"}, None, ["value", "partition", "offset", PARSED]),
    (TOLERANT, None, ["value", MISFIT_REASON, PARSED]),
    (SCHEMA, "SELECT * FROM records", [*EVERYTHING, MISFIT_REASON, PARSED]),
    ({"value.schema": "n INT, name ARRAY<STRING>"}, "SELECT partition, offset FROM records", ["partition", "offset"]),
    ({}, "SELECT Value AS v FROM records WHERE OFFSET > 1 AND offset <> 3", ["value", "offset"]),
    ({}, "SELECT r.value FROM (SELECT *, topic AS `from` FROM records) AS r WHERE `from` <> 'x'", ["value", "topic"]),
    ({}, "WITH other AS (SELECT key, timestamp AS at FROM records) SELECT hex(KEY) AS k FROM other", ["key"]),
    ({}, "SELECT 1 AS one FROM records", ["partition"]),
    ({}, "SELECT value FROM records WHERE 1 = 0", ["value"]),
    ({}, "SELECT headers[0].value AS first FROM records WHERE value IS NOT NULL", ["value", "headers"]),
    (TOLERANT, "SELECT value.n, partition FROM records WHERE value.n % 2 = 0",
     ["value", "partition", MISFIT_REASON, PARSED]),
]  # fmt: skip

Frame = Callable[..., Any]


class _Sink(DataFrameSink):
    """Is asked for its settings only."""

    def write(self, session: Any, frame: Any, epoch: Epoch) -> str:
        raise NotImplementedError


@pytest.fixture(scope="module")
def topics(kafka: EmbeddedKafka) -> Sequence[str]:
    """Two topics of two partitions: with keys, headers and tombstones, and one value that is no JSON; all from 2023."""
    made = ("frames-a", "frames-b")
    configs = {"retention.ms": "-1"}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for topic in made:
        Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(
            topic, partitions=2, replication=1, configs=configs
        )
        for n in range(2 * ROWS):
            value = None if n == 4 else json.dumps({"n": n, "name": f"name {n}"})
            headers = [("h", str(n).encode())] if n % 3 else None
            producer.produce(
                topic, value, key=str(n), partition=n % 2, headers=headers, timestamp=1_700_000_000_000 + n
            )
    producer.produce(made[1], "no JSON", partition=1)
    assert producer.flush(30) == 0
    return made


@pytest.fixture(scope="module")
def frame(runtime: SparkRuntime, kafka: EmbeddedKafka, topics: Sequence[str]) -> Iterator[Frame]:
    """Returns the frame of an epoch of some topics, and where its last range ends."""
    conf = range_conf({"bootstrap.servers": kafka.bootstrap_servers}, "frames").conf
    server = ChannelServer(CHANNEL_SECRET.encode())
    server.start({Path.EPOCH_READING: lambda _: EpochReading(conf).to_json()})

    def made(
        settings: dict[str, str],
        query: str | None,
        *,
        of: Sequence[str] = topics[:1],
        last: int = ROWS,
        tally: Tally | None = None,
        are_left_out: bool = False,
    ) -> Any:
        properties = {"name": "c", "connector.class": "c", "value.converter.schemas.enable": "false", **settings}
        if query is not None:
            properties["transforms.sql"] = query
        ranges = [OffsetRange(topic, partition, 0, ROWS) for topic in of for partition in range(2)]
        epoch = Epoch(1, (*ranges[:-1], replace(ranges[-1], end=last)))
        reader = EpochFrames(_Sink(properties), properties)
        if are_left_out:
            return reader.left_out(runtime.session, epoch, server.url, "run")
        return reader.frame(runtime.session, epoch, server.url, "run", tally)

    yield made
    server.stop()


def columns_read(frame: Any) -> list[str]:
    leaf = frame._jdf.queryExecution().analyzed().collectLeaves().apply(0)
    return [leaf.output().apply(i).name() for i in range(leaf.output().length())]


def fail(_: Any) -> set[str]:
    raise AttributeError("there is no such plan")


def without_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Spark parse all values."""
    monkeypatch.setattr(values, "for_arrow", lambda _: None)


def test_only_columns_that_a_query_needs_are_read_and_rows_stay_the_same(
    frame: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = [frame(settings, query) for settings, query, _ in CASES]
    assert [columns_read(each) for each in read] == [columns for _, _, columns in CASES]
    monkeypatch.setattr(epoch_frame, "needed", fail)
    without_arrow(monkeypatch)
    whole = [frame(settings, query) for settings, query, _ in CASES]
    assert all(set(columns_read(each)) >= set(EVERYTHING) for each in whole)
    for pruned, all_ in zip(read, whole, strict=True):
        assert pruned.schema == all_.schema
        assert pruned.collect() == all_.collect()


def test_a_frame_has_the_rows_of_its_ranges_in_their_order(frame: Frame, topics: Sequence[str]) -> None:
    found = frame({}, "SELECT value, offset, topic, spark_partition_id() AS n FROM records", of=topics).collect()
    expected = [
        (None if 2 * offset + partition == 4 else 2 * offset + partition, offset, topic, 2 * number + partition)
        for number, topic in enumerate(topics)
        for partition in range(2)
        for offset in range(ROWS)
    ]
    assert [(row.value and json.loads(row.value)["n"], row.offset, row.topic, row.n) for row in found] == expected
    assert [row.n for row in frame(SCHEMA, None).collect()] == [0, 2, None, *range(6, 16, 2), *range(1, 16, 2)]


def test_dropped_and_read_records_together_are_all_records(frame: Frame, kafka: EmbeddedKafka) -> None:
    """Whoever parses a batch: one that Arrow may take, and one that is for Spark since a record is no JSON."""
    topic, texts = (
        "frames-nasty",
        ['{"n":1}', '{"n":2,"x":-Inf}', '{"n":3,"x":Inf}', '{"n":4,"' + "k" * 50_001 + '":1}'],
    )
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic, partitions=2, replication=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for n in range(ROWS):
        producer.produce(topic, texts[n % 4], partition=0)
        producer.produce(topic, "no JSON" if n == 0 else texts[n % 4], partition=1)
    assert producer.flush(30) == 0
    settings = {**TOLERANT, "errors.deadletterqueue.topic.name": "dlq"}
    rows = frame(settings, "SELECT partition, offset, value.n FROM records", of=[topic]).collect()
    letters = frame(settings, None, of=[topic], are_left_out=True).collect()
    assert sorted((r.partition, r.offset) for r in [*rows, *letters]) == [(p, n) for p in range(2) for n in range(ROWS)]
    assert {row.n for row in rows} == {1}


def put(kafka: EmbeddedKafka, topic: str, values: Sequence[bytes | None]) -> None:
    """Make a topic of two partitions that have these values, again and again."""
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic, partitions=2, replication=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for partition in range(2):
        for n in range(ROWS):
            producer.produce(topic, values[n % len(values)], partition=partition)
    assert producer.flush(30) == 0


@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="Spark 4.1 reads no TIME from a source in Python")
def test_a_value_with_a_schema_has_the_types_of_its_schema(frame: Frame, kafka: EmbeddedKafka) -> None:
    far = dt.datetime(9999, 12, 31, 23, 59, 59, 999_000, dt.UTC)
    inner = Schema.struct({"at": TIMESTAMP, "n": decimal(1).optional()}, is_optional=True)
    whole = Schema.struct({
        "d": DATE, "t": TIME, "at": TIMESTAMP, "local": TIMESTAMP, "n": decimal(2), "inner": inner, "b": BYTES,
        "days": Schema(SchemaType.ARRAY, value_schema=DATE.optional()),
        "by": Schema(SchemaType.MAP, key_schema=STRING, value_schema=TIME), "i": INT32, "text": STRING,
    })  # fmt: skip
    record = {
        "d": dt.date(1582, 10, 10), "t": dt.time(12, 34, 56, 789_000), "at": far, "local": far, "b": b"\x00\xff",
        "n": Decimal("-123456789012345678.90"), "days": [dt.date(2026, 2, 28), None], "by": {"x": dt.time(1)},
        "inner": {"at": dt.datetime(1, 1, 1, tzinfo=dt.UTC), "n": Decimal("1.5")}, "i": 7, "text": 'é "x"',
    }  # fmt: skip
    convert = JsonConverter().from_connect_data
    nothing = Schema.struct({field.name: field.schema.optional() for field in whole.fields})
    put(kafka, "frames-typed", [
        convert("t", whole, record), convert("t", Schema.struct({"d": DATE}), {"d": 10_000_000}), None,
        convert("t", nothing, dict.fromkeys(record)),
    ])  # fmt: skip
    settings = {
        "value.converter.schemas.enable": "true",
        "value.schema": "d DATE, t TIME(3), at TIMESTAMP, local TIMESTAMP_NTZ, n DECIMAL(20,2), days ARRAY<DATE>, "
        "inner STRUCT<at: TIMESTAMP, n: DECIMAL(3,1)>, by MAP<STRING, TIME(3)>, b BINARY, i TINYINT, text STRING",
    }
    rows = frame(settings, None, of=["frames-typed"]).selectExpr(
        "unix_date(d)", "t", "unix_millis(at)", "cast(local AS STRING)", "n", "days", "unix_millis(inner.at)",
        "inner.n", "by.x", "b", "i", "text",
    ).collect()  # fmt: skip
    assert [tuple(row) for row in rows[:4]] == [
        (-141_432, dt.time(12, 34, 56, 789_000), 253_402_300_799_999, "9999-12-31 23:59:59.999",
         Decimal("-123456789012345678.90"), [dt.date(2026, 2, 28), None], -62_135_596_800_000, Decimal("1.5"),
         dt.time(1), b"\x00\xff", 7, 'é "x"'),
        (10_000_000, *(None,) * 11), (None,) * 12, (None,) * 12,
    ]  # fmt: skip


def test_columns_written_with_a_schema_are_read_back_unchanged(
    frame: Frame, kafka: EmbeddedKafka, runtime: SparkRuntime
) -> None:
    schema = (
        "d DATE, t TIME(3), at TIMESTAMP, n DECIMAL(10,3), wide DECIMAL(38,10), b BINARY, days ARRAY<DATE>, f FLOAT"
    )
    rows = runtime.session.sql(
        "SELECT date'1582-10-10' d, cast(time'23:59:59.999' AS TIME(3)) t, timestamp'9999-12-31 01:02:03.004' at, "
        "-0.125BD n, 1234567890123456789012345678.9012345678BD wide, X'00ff' b, array(date'2026-01-01', null) days, "
        "cast(0.1 AS FLOAT) f"
    ).selectExpr(*(f"cast({name} AS {kind}) {name}" for name, kind in (each.split(" ") for each in schema.split(", "))))
    written = rows.select(*record_columns(rows.schema, ConverterChoice("value.converter", "JsonConverter", True)))
    put(kafka, "frames-back", [row.value.encode() for row in written.collect()])
    settings = {"value.converter.schemas.enable": "true", "value.schema": schema}
    read = frame(settings, None, of=["frames-back"])
    assert read.dtypes == rows.dtypes
    assert read.distinct().collect() == rows.collect()


def test_plain_columns_of_values_with_a_schema_are_left_to_arrow(frame: Frame, kafka: EmbeddedKafka) -> None:
    plain = Schema.struct({"n": INT32, "name": STRING})
    put(kafka, "frames-plain", [JsonConverter().from_connect_data("t", plain, {"n": 1, "name": "a"}), None])
    settings = {**SCHEMA, "value.converter.schemas.enable": "true"}
    made = frame(settings, "SELECT value.n, value.name FROM records", of=["frames-plain"])
    assert columns_read(made)[-2:] == [MISFIT_REASON, PARSED]
    assert [tuple(row) for row in made.collect()[:2]] == [(1, "a"), (None, None)]


def test_a_value_with_a_misfit_schema_is_named_or_dropped_unchanged(frame: Frame, kafka: EmbeddedKafka) -> None:
    stamp = JsonConverter().from_connect_data("t", Schema.struct({"at": TIMESTAMP}), {"at": 0})
    put(kafka, "frames-misfit", [stamp])
    settings = {"value.converter.schemas.enable": "true", "value.schema": "at DATE"}
    with pytest.raises(
        Exception, match=r"frames-misfit-. at offset 0: .*\(at: its schema is int64 .*Timestamp, which "
    ):
        frame(settings, None, of=["frames-misfit"]).collect()
    tolerant = {**settings, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dlq"}
    assert frame(tolerant, "SELECT value.at, offset FROM records", of=["frames-misfit"]).collect() == []
    left_out = frame(tolerant, None, of=["frames-misfit"], are_left_out=True).collect()
    assert [bytes(row.value) for row in left_out] == [stamp] * 2 * ROWS
    assert left_out[0].reason.startswith("at: its schema is int64 org.apache.kafka.connect.data.Timestamp, which does ")


WRONG = [
    ("t TINYINT", '{"t":200}', "t: 200 does not fit TINYINT"),
    ("d DOUBLE", '{"d":0.12345678901234567890}', "d: 0.12345678901234567890 does not fit DOUBLE"),
    ("e DECIMAL(10,2)", '{"e":1.239}', "e: 1.239 does not fit DECIMAL(10,2)"),
    ("e DECIMAL(10,2)", "{'e':1.239}", "e: 1.239 does not fit DECIMAL(10,2)"),
    ("f FLOAT", '{"f":16777217}', "f: 16777217 does not fit FLOAT"),
    ("at ARRAY<TIMESTAMP>", '{"at":["2020-01-01T00:00:00.1234567Z"]}',
     "at[]: '2020-01-01T00:00:00.1234567Z' does not fit TIMESTAMP"),
    ("s STRUCT<d: DATE>", '{"s":{"d":"2020-01-01T01:02:03"}}', "s.d: '2020-01-01T01:02:03' does not fit DATE"),
]  # fmt: skip


def ensure_refused(
    frame: Frame, kafka: EmbeddedKafka, topic: str, schema: str, wrong: Sequence[tuple[str, str]]
) -> None:
    """Check that each of some values, with the reason, is named or left out, and that `{}` before them is taken."""
    put(kafka, topic, [b"{}", *(value.encode() for value, _ in wrong)])
    settings = {"value.schema": schema}
    with pytest.raises(Exception, match=rf"{topic}-. at offset 1: .*{re.escape(wrong[0][1])}"):
        frame(settings, None, of=[topic]).collect()
    tolerant = {**settings, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dlq"}
    tally, length = Tally(), len(wrong) + 1
    rows = frame(tolerant, "SELECT offset, value FROM records", of=[topic], tally=tally).collect()
    letters = frame(tolerant, None, of=[topic], are_left_out=True).collect()
    assert sorted(row.offset for row in rows) == sorted([*range(0, ROWS, length)] * 2)
    refused = [(offset, *wrong[offset % length - 1]) for offset in range(ROWS) if offset % length]
    assert [(row.offset, bytes(row.value).decode(), row.reason) for row in letters] == refused * 2


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_plain_value_that_spark_would_change_is_named_or_dropped(
    frame: Frame, kafka: EmbeddedKafka, number: int
) -> None:
    """Each alone: what Arrow cannot take is read as Spark reads it, with all that came at once."""
    schema, wrong, reason = WRONG[number]
    ensure_refused(frame, kafka, f"frames-exact-{number}", schema, [(wrong, reason)])


def test_spark_refuses_the_same_values_without_arrow(
    frame: Frame, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_arrow(monkeypatch)
    schema = ", ".join(dict.fromkeys(schema for schema, _, _ in WRONG))
    assert len(WRONG) < ROWS
    ensure_refused(frame, kafka, "frames-exact", schema, [(wrong, reason) for _, wrong, reason in WRONG])


def test_a_column_of_text_has_all_digits_of_a_number(frame: Frame, kafka: EmbeddedKafka) -> None:
    put(kafka, "frames-digits", [b'{"s":0.12345678901234567890123,"n":1}', b'{"s":{"b":0.12345678901234567890123}}'])
    rows = frame({"value.schema": "s STRING, n INT"}, None, of=["frames-digits"]).collect()
    assert [tuple(row) for row in rows[:2]] == [
        ("0.12345678901234567890123", 1), ('{"b":0.12345678901234567890123}', None),
    ]  # fmt: skip


def test_times_without_a_schema_keep_their_microseconds(runtime: SparkRuntime) -> None:
    rows = runtime.session.sql(
        "SELECT timestamp'2020-01-01 00:00:00.123456Z' at, timestamp'9999-12-31 23:59:59.120Z' ms, "
        "timestamp_ntz'2020-03-29 02:30:00.000001' local, array(timestamp'1900-01-01 00:00:00.999999Z', null) many, "
        "named_struct('at', cast(null AS TIMESTAMP)) inner, map('k', timestamp_ntz'2020-01-01 00:00:00') by, 1 n"
    )
    value = ConverterChoice("value.converter", "JsonConverter", False)
    (row,) = rows.select(*record_columns(rows.schema, value)).collect()
    assert json.loads(row.value) == {
        "at": "2020-01-01T00:00:00.123456Z", "ms": "9999-12-31T23:59:59.120Z", "local": "2020-03-29T02:30:00.000001",
        "many": ["1900-01-01T00:00:00.999999Z", None], "inner": {"at": None}, "by": {"k": "2020-01-01T00:00:00.000"},
        "n": 1,
    }  # fmt: skip
    one = rows.select(rows["local"].alias("value"))
    assert one.select(*record_columns(one.schema, value)).collect()[0].value == '"2020-03-29T02:30:00.000001"'
    none = rows.selectExpr("cast(null AS TIMESTAMP) AS value")
    assert none.select(*record_columns(none.schema, value)).collect()[0].value is None


@pytest.mark.parametrize(
    ("where", "is_read"),
    [
        ("true", True),
        ("offset > 99", True),
        ("value.n = 1 AND value.n = 2", True),
        ("offset IS NULL", True),
        ("1 = 0", False),
        ("CAST(NULL AS BOOLEAN)", False),
        ("value.n > 3 AND 'a' > 'b'", False),
        ("rand() < 0", False),
    ],
)
def test_a_query_is_refused_where_spark_does_not_read_the_ranges_for_it(
    frame: Frame, where: str, is_read: bool
) -> None:
    """Whatever Spark finds out: tasks that commit ranges have to be those of the ranges."""
    made = frame(SCHEMA, f"SELECT value.n FROM records WHERE {where}")
    if is_read:
        ensure_is_read(made)
    else:
        with pytest.raises(ConfigError, match="never returns rows: its condition"):
            ensure_is_read(made)
    assert (made.rdd.getNumPartitions() == 2) is is_read


@pytest.mark.parametrize("first", [0, 1], ids=["of several topics", "of one topic"])
def test_a_value_that_fits_no_column_is_reported_with_its_offset(
    frame: Frame, topics: Sequence[str], first: int
) -> None:
    with pytest.raises(Exception, match=rf"{topics[1]}-1 at offset {ROWS}: the value is not JSON that fits value\.sch"):
        frame(SCHEMA, "SELECT value.name FROM records", of=topics[first:], last=ROWS + 1).collect()


def test_dropped_records_are_counted_while_written_unless_nothing_is_read(
    frame: Frame, topics: Sequence[str], tmp_path: FilePath
) -> None:
    counts = []
    for number, (query, last) in enumerate(
        [("SELECT value.n FROM records", 1), ("SELECT 1 AS one FROM records WHERE offset > 99", 1),
         ("SELECT value.n FROM records", 0), ("SELECT value.n FROM records WHERE 1 = 0", 1)]
    ):  # fmt: skip
        tally = Tally()
        made = frame(TOLERANT, query, of=topics, last=ROWS + last, tally=tally)
        made.sortWithinPartitions(made.columns[0]).write.json(str(tmp_path / str(number)))
        counts.append(tally.count(_TELLS_S if number < 3 else _TELLS_NOT_S))
    assert counts == [1, 1, 0, None]
