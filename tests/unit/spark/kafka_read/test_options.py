"""What the options of a reader mean, and which are refused."""

import pickle

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from fencepost.config import ConfigError
from fencepost.record import TopicPartition
from fencepost.spark.datasource import FencepostDataSource
from fencepost.spark.kafka_read.options import KafkaReadConfig
from fencepost.spark.kafka_read.selection import Bound, Edge
from fencepost.spark.row.kafka_columns import chosen, columns, with_value

BASE = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "a, b"}
ONE = TopicPartition("a", 0)


def parsed(**options: str) -> KafkaReadConfig:
    return KafkaReadConfig.of(BASE | {key.replace("__", "."): value for key, value in options.items()})


def test_option_names_are_read_in_any_case() -> None:
    """Spark hands them over in lower case."""
    config = KafkaReadConfig.of({**BASE, "STARTINGOFFSETS": "earliest", "failondataloss": "false"})
    assert config.starting == Bound("startingOffsets", offsets=Edge.EARLIEST)
    assert not config.fails_on_loss
    assert config.choice.names == ("a", "b")


def test_only_committed_records_are_read_by_default() -> None:
    assert parsed().conf()["isolation.level"] == "read_committed"
    for key in ("isolation__level", "kafka__isolation__level"):
        config = parsed(**{key: "read_uncommitted"})
        assert config.conf()["isolation.level"] == "read_uncommitted"
        assert not config.is_committed_only
    with pytest.raises(ConfigError, match=r"options isolation\.level and kafka\.isolation\.level differ"):
        parsed(isolation__level="read_committed", kafka__isolation__level="read_uncommitted")


def test_reader_group_is_named_and_never_commits() -> None:
    assert parsed().conf()["group.id"] == "fencepost-reader"
    assert parsed(groupIdPrefix="mine").conf()["group.id"] == "mine"
    conf = parsed(groupIdPrefix="mine", kafka__group__id="theirs").conf()
    assert (conf["group.id"], conf["enable.auto.commit"], conf["auto.offset.reset"]) == ("theirs", "false", "error")


def test_single_timestamp_wins_over_partition_timestamps_and_offsets() -> None:
    offsets = {"startingOffsets": '{"a":{"0":5}}'}
    times = {"startingOffsetsByTimestamp": '{"a":{"0":7}}'}
    assert parsed(**offsets).starting == Bound("startingOffsets", offsets={ONE: 5})
    assert parsed(**offsets, **times).starting == Bound("startingOffsetsByTimestamp", times_ms={ONE: 7})
    every = parsed(**offsets, **times, startingTimestamp="9").starting
    assert every == Bound("startingTimestamp", times_ms=9)
    assert parsed().starting is None
    assert parsed().ending == Bound("endingOffsets", offsets=Edge.LATEST)


def test_durations_are_read_in_the_notation_of_spark() -> None:
    written = {"15m": 900, "90s": 90, "2 min": 120, "1h": 3_600, "250ms": 0.25, "40": 0.04}
    assert {text: parsed(maxTriggerDelay=text).max_trigger_delay_s for text in written} == written


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": ""}, "option subscribe is empty"),
        ({"assign": "{}"}, "exactly one of the options .*: too many: subscribe, assign"),
        ({"startingOffsets": "first"}, "option startingOffsets is first: it must be earliest, latest or JSON"),
        ({"startingOffsets": '{"a":[0]}'}, "option startingOffsets is .*: write it as in"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "option startingOffsets is .*: write it as in"),
        ({"startingOffsets": '{"a":{"x":3}}'}, "option startingOffsets is .*: write it as in"),
        ({"endingOffsetsByTimestamp": '{"a":{"0":-1}}'}, "option endingOffsetsByTimestamp is .*: write it as in"),
        ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay is soon: write a time such as 15m"),
        ({"minPartitions": "0"}, "Invalid value 0 for configuration minPartitions"),
        ({"failOnDataLoss": "maybe"}, "Invalid value maybe for configuration failOnDataLoss"),
        ({"kafka.bootstrap.servers": ""}, r"option kafka\.bootstrap\.servers is missing"),
        ({"kafka.enable.auto.commit": "true"}, r"option kafka\.enable\.auto\.commit is not supported"),
        ({"kafka.key.deserializer": "x"}, r"option kafka\.key\.deserializer is not supported"),
        ({"kafka.interceptor.classes": "x"}, r"option kafka\.interceptor\.classes is not supported"),
        ({"kafka.fetch.min.bytes": "few"}, r"fetch\.min\.bytes"),
        ({"startingofset": "latest"}, "option startingofset is unknown to a reader; there are subscribe, "),
    ],
)
def test_wrong_reader_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        KafkaReadConfig.of(BASE | options)


def test_patterns_are_java_s_and_match_whole_names() -> None:
    config = KafkaReadConfig.of({"kafka.bootstrap.servers": "x:1", "subscribePattern": r"\Qa.b\E-\p{Digit}+"})
    assert config.choice.pattern is not None
    assert [bool(config.choice.pattern.fullmatch(name)) for name in ("a.b-12", "axb-1", "a.b-1-x")] == [
        True,
        False,
        False,
    ]
    with pytest.raises(ConfigError, match="option subscribePattern is not a regular expression"):
        KafkaReadConfig.of({"kafka.bootstrap.servers": "x:1", "subscribePattern": "(a"})


def test_settings_without_effect_are_warned_about() -> None:
    [warning] = parsed(kafka__max__poll__records="9").warnings()
    assert "max.poll.records" in warning
    assert parsed(kafka__group__id="g", kafka__isolation__level="read_committed").warnings() == []


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [StructField("offset", StringType())],
        [StructField("nothing", StringType())],
        [StructField("Value", StringType())],
        [StructField("headers", StringType())],
        [StructField("offset", LongType(), nullable=False)],
        [StructField("offset", LongType()), StructField("offset", LongType())],
    ],
)
def test_unknown_columns_are_refused(wrong: list[StructField]) -> None:
    with pytest.raises(ConfigError, match="the columns of records are fixed \\(key binary, value binary, topic string"):
        FencepostDataSource(BASE).reader(StructType(wrong))


def test_columns_may_be_omitted_and_keys_and_values_read_as_text() -> None:
    fields = [("offset", LongType()), ("value", BinaryType()), ("key", StringType())]
    wanted = StructType([StructField(name, kind) for name, kind in fields])
    assert chosen(wanted, has_headers=False) == {"offset": "bigint", "value": "binary", "key": "string"}


def test_reader_options_survive_pickling() -> None:
    config = pickle.loads(pickle.dumps(parsed(includeHeaders="true", startingOffsets='{"a":{"0":5}}')))
    assert config.has_headers
    assert config.starting == Bound("startingOffsets", offsets={ONE: 5})


def test_a_converter_with_a_registry_has_settings_of_its_own() -> None:
    url = {"value__converter__schema__registry__url": "http://localhost:1"}
    config = parsed(value__converter="io.confluent.connect.avro.AvroConverter", **url)
    assert config.converter_conf() == {"schema.registry.url": "http://localhost:1"}
    assert parsed().value_converter is None
    with pytest.raises(
        ConfigError, match=r"option value\.converter=StringConverter is not supported: use AvroConverter, "
    ):
        parsed(value__converter="StringConverter")


@pytest.mark.parametrize("has_headers", [False, True])
def test_schema_with_value_columns_keeps_all_other_columns(has_headers: bool) -> None:
    made = with_value(has_headers=has_headers, value=BinaryType())
    assert ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in made.fields) == columns(has_headers=has_headers)


def test_text_is_not_offered_for_values_with_columns() -> None:
    kind = StructType([StructField("n", LongType())])
    schema = StructType([StructField("value", kind), StructField("key", StringType())])
    assert chosen(schema, has_headers=False, value=kind.simpleString()) == {
        "value": "struct<n:bigint>",
        "key": "string",
    }
    with pytest.raises(ConfigError, match=r"value struct<n:bigint>"):
        chosen(StructType([StructField("value", StringType())]), has_headers=False, value=kind.simpleString())
