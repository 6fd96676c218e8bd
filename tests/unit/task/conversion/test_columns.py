"""Columns of several topics go through the converter of each topic, and come back in their order."""

from collections.abc import Sequence
from typing import Any

from fencepost.api import Converter, Repeated, Schema, Utf8Column
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.plain import ByteArrayConverter
from fencepost.builtin.converter.registry.avro.converter import AvroConverter
from fencepost.hook.batch_method import covers
from fencepost.record import BytesColumn, HeaderColumn, Runs
from fencepost.record.schema import STRING
from fencepost.task.conversion.columns import (
    bytes_to_headers,
    bytes_to_values,
    column_to_bytes,
    column_to_connect,
    headers_to_bytes,
    topic_groups,
    values_to_bytes,
)


class Labelling(Converter):
    """Writes the topic before each value; reads only what begins with it."""

    topic: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[str, Labelling] = {}

    def for_topic(self, topic: str) -> Converter:
        made = self.made.setdefault(topic, Labelling())
        made.topic = topic
        return made

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        raise AssertionError("not called for columns")

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        raise AssertionError("not called for columns")

    def from_column(self, schema: Schema | None, values: Sequence[Any]) -> Sequence[bytes | None] | None:
        return None if "bad" in values else [f"{self.topic}:{value}".encode() for value in values]

    def to_column(self, column: Sequence[bytes | None]) -> tuple[Schema | None, Sequence[Any]] | None:
        read = [None if data is None else data.decode().removeprefix(f"{self.topic}:") for data in column]
        return None if any(each is not None and ":" in each for each in read) else (STRING, read)


class Plain(Labelling):
    def for_topic(self, topic: str) -> Converter:
        return self


TOPICS = ["a", "b", "a", "c"]


def test_each_topic_has_its_converter() -> None:
    written = column_to_bytes(Labelling(), TOPICS, STRING, Utf8Column([b"1", b"2", b"3", b"4"]))
    assert written == [b"a:1", b"b:2", b"a:3", b"c:4"]
    assert topic_groups(TOPICS, Plain(), Labelling()) == [[0, 2], [1], [3]]


def test_column_of_one_topic_is_converted_in_one_call() -> None:
    assert column_to_bytes(Labelling(), Repeated("a", 2), STRING, ["1", "2"]) == [b"a:1", b"a:2"]
    read = column_to_connect(Labelling(), Runs(["a"], [2]), [b"a:1", b"a:2"])
    assert read is not None
    assert (read[0], list(read[1])) == (STRING, ["1", "2"])


def test_converter_that_ignores_topics_is_called_once_for_all() -> None:
    assert topic_groups(TOPICS, Plain()) == [range(4)]
    assert column_to_bytes(Plain(), TOPICS, STRING, ["1", "2", "3", "4"]) == [
        b"None:1",
        b"None:2",
        b"None:3",
        b"None:4",
    ]


def test_column_is_refused_when_the_converter_of_one_topic_refuses() -> None:
    assert column_to_bytes(Labelling(), TOPICS, STRING, ["1", "bad", "3", "4"]) is None
    assert column_to_connect(Labelling(), Repeated("a", 2), [b"a:1", b"x:2"]) is None


def test_a_column_without_values_is_read_once() -> None:
    read = column_to_connect(Labelling(), Repeated("a", 3), Repeated(None, 3))
    assert read is not None
    assert isinstance(read[1], Repeated)
    assert (read[1].value, len(read[1])) == (None, 3)


def test_repeated_values_of_several_topics_are_divided() -> None:
    assert column_to_bytes(Labelling(), ["a", "b"], STRING, Repeated("x", 2)) == [b"a:x", b"b:x"]


class Sealed(ByteArrayConverter):
    """Overrides what is done with single values and headers, in one direction."""

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return b"sealed"

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return b"sealed"


class Opened(ByteArrayConverter):
    """Does so in the other direction."""

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return None, "opened"

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return None, "opened"


def test_class_that_overrides_a_value_method_gets_no_columns_that_way() -> None:
    nothing, column, headers = BytesColumn(), [b"a", b"b"], [[("h", b"a")]]
    assert column_to_bytes(Sealed(), ["t", "t"], None, column) is None
    assert values_to_bytes(Sealed(), None, nothing) is None
    assert headers_to_bytes(Sealed(), HeaderColumn(headers)) is None
    assert bytes_to_values(Sealed(), column) == ByteArrayConverter().to_column(column)
    assert bytes_to_headers(Sealed(), headers) is not None
    assert column_to_connect(Opened(), ["t", "t"], column) is None
    assert bytes_to_headers(Opened(), headers) is None
    assert column_to_bytes(Opened(), ["t", "t"], None, column) == column
    assert headers_to_bytes(Opened(), HeaderColumn(headers)) == headers


def test_the_converters_that_come_with_fencepost_get_columns() -> None:
    assert values_to_bytes(JsonConverter(), None, [{"a": 1}]) == JsonConverter().from_column(None, [{"a": 1}])
    assert bytes_to_values(JsonConverter({"schemas.enable": "false"}), [b"1"]) == (None, [1])
    assert covers(AvroConverter, (Converter,), frozenset({"from_connect_data"}), frozenset({"from_column"}))
