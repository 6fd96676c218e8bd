"""Records as changes of tables: keys, columns and deletes, by the settings."""

from typing import Any

import pytest

from fencepost.api import INT32, INT64, STRING, Schema, SinkBatch, SinkRecord, TopicPartition
from fencepost.builtin.postgres.sink.changes import BadRecordsError, Changes, Layout
from fencepost.builtin.postgres.sink.settings import SinkSettings

KEY = Schema.struct({"id": INT32})
ROW = Schema.struct({"id": INT32, "Name": STRING.optional()})
WIDER = Schema.struct({"id": INT32, "Name": STRING.optional(), "size": INT32.optional()})
ENVELOPE = Schema.struct(
    {"before": ROW.optional(), "after": ROW.optional(), "source": Schema.struct({}), "op": STRING}, name="shop.Envelope"
)
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key"}
DELETING = {**UPSERT, "delete.enabled": "true"}


def record(offset: int, value: Any, schema: Schema | None = ROW, key: Any = None, topic: str = "orders") -> SinkRecord:
    given = {"id": offset} if key is None else key
    return SinkRecord(
        topic, 0, offset, value, None if value is None else schema, given, KEY, at=TopicPartition(topic, 0)
    )


def row(number: int, name: str | None = "a", **more: Any) -> dict[str, Any]:
    return {"id": number, "Name": name, **more}


def changes(records: list[SinkRecord], **settings: str) -> list[Changes]:
    return Layout(SinkSettings({"connection.user": "u", **settings})).changes(SinkBatch.of_records(records))


def columns(change: Changes) -> dict[str, list[Any]]:
    return {each.name: list(each.values) for each in change.columns}


def test_rows_become_columns_with_those_of_the_key_first() -> None:
    [found] = changes([record(1, row(1)), record(2, row(2, None))], **UPSERT)
    assert (str(found.table), list(found.keys), found.is_delete) == ("orders", ["id"], None)
    assert columns(found) == {"id": [1, 2], "Name": ["a", None]}


def test_envelope_is_unwrapped_and_its_delete_is_one() -> None:
    envelopes = [
        {"op": "c", "before": None, "after": row(1), "source": {}},
        {"op": "d", "before": row(1), "after": None, "source": {}},
        None,
        {"op": "t", "before": None, "after": None, "source": {}},
    ]
    records = [record(at, value, ENVELOPE, key={"id": 1}) for at, value in enumerate(envelopes)]
    [found] = changes(records, **DELETING)
    assert columns(found) == {"id": [1, 1, 1], "Name": ["a", None, None]}
    assert (found.is_delete, list(found.rows)) == ([False, True, True], [0, 1, 2])


def test_deletes_are_skipped_unless_they_are_enabled() -> None:
    [found] = changes([record(1, None), record(2, row(2)), record(3, None)], **UPSERT)
    assert (columns(found), found.is_delete, list(found.rows)) == ({"id": [2], "Name": ["a"]}, None, [1])
    assert changes([record(1, None)], **UPSERT) == []


def test_batch_is_cut_where_the_schema_changes_but_not_at_a_tombstone() -> None:
    records = [record(1, None), record(2, row(2)), record(3, None), record(4, row(4, size=5), WIDER), record(5, None)]
    found = changes(records, **DELETING)
    assert [list(each.rows) for each in found] == [[0, 1, 2], [3, 4]]
    assert [len(each.columns) for each in found] == [2, 3]


def test_records_of_several_topics_go_to_their_tables_in_order() -> None:
    records = [record(at, row(at), topic=topic) for at, topic in enumerate(["a", "b", "a", "x.shop.orders"])]
    found = {str(each.table): list(each.rows) for each in changes(records, **UPSERT)}
    assert found == {"a": [0, 2], "b": [1], "shop.orders": [3]}


def test_key_of_pk_mode_kafka_is_where_the_record_was_read() -> None:
    [found] = changes([record(7, row(1))], **{"pk.mode": "kafka", "pk.fields": "t,p,o"})
    assert columns(found) == {"t": ["orders"], "p": [0], "o": [7], "id": [1], "Name": ["a"]}
    assert list(found.keys) == ["t", "p", "o"]


def test_key_that_is_no_struct_has_the_column_that_pk_fields_names() -> None:
    record_ = SinkRecord("orders", 0, 1, row(1), ROW, 99, INT64, at=TopicPartition("orders", 0))
    [found] = changes([record_], **UPSERT, **{"pk.fields": "number"})
    assert columns(found)["number"] == [99]
    with pytest.raises(BadRecordsError, match=r"pk\.fields"):
        changes([record_], **UPSERT)


def test_key_of_the_value_has_the_fields_that_pk_fields_names() -> None:
    settings = {"insert.mode": "upsert", "pk.mode": "record_value"}
    assert list(changes([record(1, row(1))], **settings, **{"pk.fields": "Name"})[0].keys) == ["Name"]
    assert list(changes([record(1, row(1))], **settings)[0].keys) == ["id", "Name"]
    with pytest.raises(BadRecordsError, match="no field size"):
        changes([record(1, row(1))], **settings, **{"pk.fields": "size"})


def test_record_without_a_key_is_bad_and_others_are_not() -> None:
    records = [record(1, row(1)), SinkRecord("orders", 0, 2, row(2), ROW, None, KEY, at=TopicPartition("orders", 0))]
    with pytest.raises(BadRecordsError) as caught:
        changes(records, **UPSERT)
    assert [at for at, _ in caught.value.found] == [1]


def test_whitelist_leaves_out_fields_but_not_keys() -> None:
    [found] = changes([record(1, row(1, size=2), WIDER)], **UPSERT, **{"fields.whitelist": "size"})
    assert columns(found) == {"id": [1], "size": [2]}


def test_names_become_lower_case_if_they_are_never_quoted() -> None:
    settings = {"quote.sql.identifiers": "never", "table.name.format": "Shop.${topic}"}
    [found] = changes([record(1, row(1), topic="Orders")], **settings)
    assert (str(found.table), list(columns(found))) == ("shop.orders", ["id", "name"])


def test_flat_map_without_a_schema_is_a_row_and_another_value_is_bad() -> None:
    [found] = changes([record(1, {"a": 1}, None), record(2, {"a": 2, "b": "x"}, None)])
    assert columns(found) == {"a": [1, 2], "b": [None, "x"]}
    with pytest.raises(BadRecordsError) as caught:
        changes([record(1, {"a": 1}, None), record(2, {"a": {}}, None), record(3, "text", None)])
    assert [at for at, _ in caught.value.found] == [1, 2]


def test_part_of_changes_has_the_rows_of_its_records() -> None:
    [found] = changes([record(at, None if at == 2 else row(at)) for at in range(4)], **DELETING)
    part = found.part(1, 3)
    assert (columns(part), part.is_delete, list(part.rows)) == (
        {"id": [1, 2], "Name": ["a", None]},
        [False, True],
        [1, 2],
    )


def test_null_in_a_key_by_which_rows_are_found_is_refused() -> None:
    given = [record(1, row(1)), record(2, row(2), key={"id": None})]
    with pytest.raises(BadRecordsError) as error:
        changes(given, **UPSERT)
    assert [(at, str(reason)) for at, reason in error.value.found] == [
        (1, "its key's column id is null, so no row can be found by it")
    ]
    [found] = changes(given, **{"pk.mode": "record_key"})
    assert columns(found)["id"] == [1, None]
