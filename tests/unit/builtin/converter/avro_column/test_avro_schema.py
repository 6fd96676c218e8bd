"""What the parser of Avro schemas accepts, and the columns that it leads to."""

import json

import pyarrow as pa
import pytest

from fencepost.builtin.converter.avro_column.kind import AvroSchemaError, Logical, arrow_type, logical_of, parsed


def test_avro_names_are_resolved_in_their_namespaces() -> None:
    found = parsed(
        json.dumps(
            {
                "type": "record", "name": "R", "namespace": "a.b", "fields": [
                    {"name": "own", "type": {"type": "fixed", "name": "F", "size": 2}},
                    {"name": "again", "type": "F"},
                    {"name": "full", "type": ["null", "a.b.F"]},
                    {"name": "other", "type": {"type": "enum", "name": "c.E", "symbols": ["X"]}},
                    {"name": "other_again", "type": "c.E"},
                ],
            }
        )
    )  # fmt: skip
    assert arrow_type(found) == pa.struct(
        {
            "own": pa.binary(),
            "again": pa.binary(),
            "full": pa.binary(),
            "other": pa.string(),
            "other_again": pa.string(),
        }
    )


def test_avro_schema_references_define_names() -> None:
    reference = json.dumps({"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]})
    found = parsed(json.dumps({"type": "record", "name": "R", "fields": [{"name": "m", "type": "Money"}]}), [reference])
    assert arrow_type(found) == pa.struct([("m", pa.struct([("cents", pa.int64())]))])


def test_branches_of_an_avro_union_become_struct_members() -> None:
    records = [{"type": "record", "name": name, "fields": []} for name in ("a.R", "b.R")]
    assert arrow_type(parsed(json.dumps(["null", "int", "string"]))) == pa.struct(
        [("int", pa.int32()), ("string", pa.string())]
    )
    assert [field.name for field in arrow_type(parsed(json.dumps(records)))] == ["a.R", "b.R"]
    assert [field.name for field in arrow_type(parsed(json.dumps([records[0], "int"])))] == ["R", "int"]


def test_unknown_and_invalid_avro_logical_types_are_ignored() -> None:
    for text in (
        '{"type": "long", "logicalType": "date"}',
        '{"type": "string", "logicalType": "colour"}',
        '{"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}',
    ):
        assert logical_of(parsed(text)) is None
    found = parsed('{"type": {"type": "int", "logicalType": "date"}}')
    assert (found.kind, logical_of(found)) == ("int", Logical("date"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid Avro"),
        ("7", "not valid Avro"),
        ('{"type": "record", "name": "R"}', "not valid Avro"),
        ('"Unknown"', "the name Unknown is not defined"),
        ('["null", ["int"]]', "not valid Avro"),
        ('{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}', "L contains itself"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 40}', "scale 40 has no column"),
        ('{"type": "array", "items": ' * 101 + '"int"' + "}" * 101, "more than 100 deep"),
        ('{"type": "array", "items": ' * 1_000 + '"int"' + "}" * 1_000, "too deep|more than 100 deep|not valid Avro"),
    ],
)  # fmt: skip
def test_avro_schema_without_a_column_form_is_refused(text: str, reason: str) -> None:
    with pytest.raises(AvroSchemaError, match=reason):
        arrow_type(parsed(text))
