"""How the id of a schema travels: as confluent-kafka writes it, which is not ours."""

from uuid import UUID

import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import RecordError
from fencepost.builtin.converter.registry.wire import SchemaKey, common_id, framed, guid_header, prefix

GUID = UUID("89791762-2336-186f-9674-299b90a802e2")


@given(st.integers(0, (1 << 32) - 1))
def test_schema_id_is_encoded_as_in_confluents_client(number: int) -> None:
    assert prefix(number) == SchemaId("AVRO", number).id_to_bytes()
    assert framed(prefix(number) + b"x") == (SchemaKey(number), 5, b"")


def test_schema_guid_is_encoded_as_in_confluents_client() -> None:
    assert guid_header(GUID) == SchemaId("AVRO", guid=str(GUID)).guid_to_bytes()
    assert framed(b"\0payload", guid_header(GUID)) == (SchemaKey(guid=GUID), 0, b"")
    assert framed(b"x", guid_header(GUID, b"\2\4")).lead == b"\2\4"


def test_schema_id_header_overrides_the_prefix_of_the_value() -> None:
    assert framed(prefix(7) + b"x", guid_header(GUID)).key == SchemaKey(guid=GUID)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\1", b'{"a": 1}', b"\1" * 16, b"\2\0\0\0\1"])
def test_bytes_without_a_schema_id_are_refused(data: bytes) -> None:
    with pytest.raises(RecordError, match=r"Unknown magic byte.*not written with a schema registry"):
        framed(data)


def test_column_has_a_common_schema_id_only_if_all_values_share_it() -> None:
    assert common_id([prefix(3) + b"a", prefix(3)]) == 3
    assert common_id([prefix(3), prefix(4)]) is None
    assert common_id([prefix(3), b""]) is None
    assert common_id([b"\0\0", b"\0\0"]) is None
    assert common_id([guid_header(GUID)]) is None
