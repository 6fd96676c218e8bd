"""Batches and records on their way to another topic."""

from fencepost.record import Repeated, SinkBatch, SinkRecord, TopicPartition, Utf8Column
from fencepost.record.schema import STRING

PLACE = TopicPartition("t", 2)


def batch(*values: str) -> SinkBatch:
    count = len(values)
    return SinkBatch(
        Repeated("t", count),
        Repeated(2, count),
        list(range(count)),
        Utf8Column([value.encode() for value in values]),
        Repeated(STRING, count),
        Repeated(None, count),
        Repeated(None, count),
        [100 + n for n in range(count)],
        Repeated(PLACE, count),
    )


def test_batch_to_another_topic_keeps_its_values_and_no_partition() -> None:
    given = batch("a", "b")
    moved = given.to("out")
    assert (list(moved.topics), list(moved.partitions)) == (["out", "out"], [None, None])
    assert moved.values is given.values
    assert moved.value_schemas is given.value_schemas
    assert moved.places is given.places


def test_replaced_values_are_schemaless_unless_schemas_are_given() -> None:
    given = batch("a", "b")
    assert list(given.to("out", values=[1, 2]).value_schemas) == [None, None]
    named = given.to("out", values=["c", "d"], value_schemas=given.value_schemas)
    assert list(named.value_schemas) == [STRING, STRING]


def test_each_record_may_have_a_topic_and_a_partition_of_its_own() -> None:
    moved = batch("a", "b").to(["x", "y"], partitions=[0, 1])
    assert [(r.topic, r.kafka_partition) for r in moved] == [("x", 0), ("y", 1)]


def test_picked_records_keep_all_fields_and_stay_columnar() -> None:
    picked = batch("a", "b", "c").where([True, False, True])
    assert isinstance(picked.values, Utf8Column)
    assert isinstance(picked.topics, Repeated)
    assert [(r.kafka_offset, r.value, r.timestamp, r.at) for r in picked] == [
        (0, "a", 100, PLACE),
        (2, "c", 102, PLACE),
    ]
    assert [r.kafka_offset for r in batch("a", "b").select([1, 1, 0])] == [1, 1, 0]


def test_record_to_another_topic_has_no_partition_unless_one_is_given() -> None:
    record = SinkRecord("t", 2, 7, "v", key="k", timestamp=5, at=PLACE)
    moved = record.to("out", value="w")
    assert (moved.topic, moved.kafka_partition, moved.value, moved.key, moved.at) == ("out", None, "w", "k", PLACE)
    assert record.to("out", kafka_partition=1).kafka_partition == 1
