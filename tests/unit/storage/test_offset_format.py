import math
from typing import Any

import pytest

from fencepost.kafka.read.log import LogRecord
from fencepost.storage.offset_topic import (
    KnownOffset,
    OffsetFormatError,
    OffsetTable,
    StoredOffset,
    encode,
    merge,
    stored,
)
from fencepost.storage.offset_view import OffsetView


def record(key: bytes, value: bytes | None, *, partition: int = 0, offset: int = 0, timestamp_ms: int = 0) -> LogRecord:
    return LogRecord(partition, offset, timestamp_ms, key, value)


def test_key_bytes_do_not_depend_on_the_order_of_names():
    assert encode("c", {"b": 1, "a": "ü"}, {"n": 1}) == ('["c",{"a":"ü","b":1}]'.encode(), b'{"n":1}')
    assert encode("c", {"a": "ü", "b": 1}, {"n": 1}) == encode("c", {"b": 1, "a": "ü"}, {"n": 1})


def test_missing_offset_is_a_tombstone():
    assert encode("c", {"a": 1}, None) == (b'["c",{"a":1}]', None)


@pytest.mark.parametrize("value", [None, "", "ü", 0, -(1 << 63), (1 << 63) - 1, 1.5, True])
def test_primitives_are_stored(value: Any):
    encode("c", {"p": value}, {"o": value})


@pytest.mark.parametrize("value", [1 << 63, math.nan, math.inf, b"x", [1], {"a": 1}, object()])
def test_offset_values_other_than_primitives_are_refused_by_name(value: Any):
    with pytest.raises(OffsetFormatError, match=r"source partition .* 'p' holds"):
        encode("c", {"p": value}, {"o": 1})
    with pytest.raises(OffsetFormatError, match=r"source offset .* 'o' holds"):
        encode("c", {"p": 1}, {"o": value})


@pytest.mark.parametrize("text", [b'"\\ud800"', b'"\xed\xa0\x80"'])
def test_lone_surrogate_is_stored_and_read_also_as_java_writes_it(text: bytes):
    table = OffsetTable()
    table.apply(record(b'["c",{"p":' + text + b"}]", b'{"o":' + text + b"}"))
    (known,) = table.known("c")
    assert (known.partition, known.offset) == ({"p": "\ud800"}, {"o": "\ud800"})
    key, value = encode("c", known.partition, known.offset)
    assert (key, value) == (b'["c",{"p":"\\ud800"}]', b'{"o":"\\ud800"}')
    assert table.key("c", known.partition) == b'["c",{"p":' + text + b"}]"


@pytest.mark.parametrize("value", [b"{", b"[" * 100_000, b'{"o":NaN}'])
def test_offset_record_that_is_not_json_is_skipped(value: bytes):
    table = OffsetTable()
    table.apply(record(b'["c",{"p":1}]', value))
    assert table.known("c") == []


def test_offset_names_must_be_strings():
    with pytest.raises(OffsetFormatError, match="only use strings as names, but has 1"):
        encode("c", {1: 2}, {"o": 1})  # type: ignore[dict-item]
    with pytest.raises(OffsetFormatError, match="must be a mapping, not str"):
        encode("c", "p", {"o": 1})  # type: ignore[arg-type]


def test_key_bytes_of_a_known_partition_are_used_again():
    table = OffsetTable()
    theirs = b'["c",{"b":1,"a":"x"}]'
    table.apply(record(theirs, b'{"n":1}'))
    assert table.key("c", {"a": "x", "b": 1}) == theirs
    assert table.key("c", {"a": "x", "b": 1.0}) != theirs
    assert table.key("d", {"a": "x", "b": 1}) == b'["d",{"a":"x","b":1}]'


def test_partition_in_two_spellings_has_the_later_offset():
    table = OffsetTable()
    table.apply(record(b'["c",{"b":1,"a":2}]', b'{"n":2}', partition=3, timestamp_ms=20))
    table.apply(record(b'["c",{"a":2,"b":1}]', b'{"n":1}', partition=1, timestamp_ms=10))
    assert stored(table.known("c")) == [StoredOffset({"b": 1, "a": 2}, {"n": 2})]


def test_forgotten_partitions_are_left_out():
    table = OffsetTable()
    table.apply(record(b'["c",{"a":1}]', b'{"n":1}'))
    table.apply(record(b'["c",{"a":2}]', b'{"n":1}'))
    table.apply(record(b'["c",{"a":1}]', None))
    assert stored(table.known("c")) == [StoredOffset({"a": 2}, {"n": 1})]
    assert stored(table.known("d")) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"", b"{}"), (b"x", b"{}"), (b'["c"]', b"{}"), (b'[1,{"a":1}]', b"{}"), (b'["c",{"a":[1]}]', b"{}"),
     (b'{"c":1,"d":2}', b"{}"), (b'["c",{"a":1}]', b"[1]"), (b'["c",{"a":1}]', b"{half"), (b"null", b"{}")],
)  # fmt: skip
def test_foreign_record_is_skipped(key: bytes, value: bytes):
    table = OffsetTable()
    table.apply(record(key, value))
    assert stored(table.known("c")) == []


def known(name: object, n: int | None, timestamp_ms: int = 0) -> KnownOffset:
    return KnownOffset({"p": name}, None if n is None else {"n": n}, b"", timestamp_ms)


def test_merge_prefers_the_own_topic_per_partition():
    own, fallback = [known(1, 10)], [known(1, 5, 99), known(2, 7)]
    assert stored(merge(own, fallback)) == [StoredOffset({"p": 1}, {"n": 10}), StoredOffset({"p": 2}, {"n": 7})]


def test_e7_late_copy_of_a_zombie_does_not_revive_a_forgotten_offset():
    assert stored(merge([known(1, None, 20)], [known(1, 5, 19)])) == []


def test_newer_offset_in_the_workers_topic_wins_over_an_older_tombstone():
    """A soft downgrade, for one: what is forgotten in the own topic is older than what the worker's topic has."""
    assert stored(merge([known(1, None, 20)], [known(1, 5, 21)])) == [StoredOffset({"p": 1}, {"n": 5})]


def test_view_writes_under_the_keys_that_each_topic_knows():
    theirs = KnownOffset({"a": 1}, {"n": 1}, b'["c", {"a": 1}]', 0)
    ours = KnownOffset({"a": 1}, {"n": 1}, b'["c",{"a":1}]', 0)
    assert OffsetView("c", [theirs]).change({"a": 1}, None) == ((theirs.key, None), None)
    view = OffsetView("c", [theirs], [ours])
    assert view.change({"a": 1}, {"n": 2}) == ((ours.key, b'{"n":2}'), (theirs.key, b'{"n":2}'))
    assert view.change({"b": 1}, None).is_tombstone
    assert (view.spellings, OffsetView("c", [theirs]).spellings) == ([], [({"a": 1}, theirs.key)])
