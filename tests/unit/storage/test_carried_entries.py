"""What an offsets topic carries of a ledger is kept apart from source offsets."""

import pytest

from fencepost.kafka.read.log import LogRecord
from fencepost.ledger.carried import carried_bounds, carried_key, is_carried
from fencepost.storage.offset_topic import OffsetTable, encode_key
from fencepost.task.channel.message import Admission


def record(key: bytes, value: bytes | None, partition: int = 0, offset: int = 0) -> LogRecord:
    return LogRecord(partition, offset, 0, key, value)


def test_carried_entry_is_not_an_offset_and_its_newest_value_counts() -> None:
    table = OffsetTable()
    for partition, value in ((0, b"old"), (0, b"new"), (3, b"other")):
        table.apply(record(carried_key("c", 1, "l"), value, partition))
    table.apply(record(encode_key("c", {"file": "f"}), b"{}"))
    assert table.carried("c", 1, "l") == {0: b"new", 3: b"other"}
    assert table.carried("c", 0, "l") == table.carried("another", 1, "l") == {}
    assert [each.partition for each in table.known("c")] == [{"file": "f"}]


def test_tombstone_removes_the_carried_entry_of_its_partition() -> None:
    table = OffsetTable()
    for partition in (0, 3):
        table.apply(record(carried_key("c", 1, "l"), b"value", partition))
    table.apply(record(carried_key("c", 1, "l"), None, 3))
    assert table.carried("c", 1, "l") == {0: b"value"}
    table.apply(record(carried_key("c", 1, "l"), None, 0))
    table.apply(record(carried_key("c", 1, "l"), None, 0))
    assert table.carried("c", 1, "l") == {}


def test_undecodable_carried_entry_does_not_keep_a_task_from_starting(caplog: pytest.LogCaptureFixture) -> None:
    table = OffsetTable()
    table.apply(record(carried_key("c", 1, "l"), b"\xff", 3, offset=7))
    admission = Admission(True, carried=tuple(table.carried("c", 1, "l").items()))
    assert Admission.from_json(admission.to_json()).carried == ((3, b""),)
    assert "Skipped 3/7" in caplog.text


def test_carried_entries_of_a_ledger_stay_when_the_task_changes_ledger() -> None:
    table = OffsetTable()
    for ledger, value in (("l", b"value"), ("other", b"others"), ("other", None)):
        table.apply(record(carried_key("c", 1, ledger), value, 3))
    assert table.carried("c", 1, "l") == {3: b"value"}
    assert not carried_key("c", 1, "other").endswith(carried_bounds("c", "l")[1])


@pytest.mark.parametrize("partition", [{"a": ',"ledger"]'}, {}, None, {'"ledger"]': 1}])
def test_no_source_partition_has_the_key_of_carried_entries(partition: dict[str, object] | None) -> None:
    assert not is_carried(encode_key("c", partition))


def test_carried_keys_of_a_connector_exclude_connectors_with_longer_names() -> None:
    beginning, end = carried_bounds("c", "l")
    assert carried_key("c", 12, "l").startswith(beginning)
    assert carried_key("c", 12, "l").endswith(end)
    assert not carried_key("c1", 2, "l").startswith(beginning)
    assert not carried_key('c",1', 2, "l").startswith(beginning)
