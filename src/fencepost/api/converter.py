"""The contract of converters, which turn Python values into the bytes of a Kafka record and back."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from fencepost.config import Config
from fencepost.record import HeaderBytes, HeaderColumn, Schema


class Converter(Config):
    """Converts keys or values. Its config is the properties under its prefix, plus `converter.type`.

    `from_column` and `to_column` do for many values what the other methods do for one. If your class derives from
    another converter and overrides one of those, or any method that this converter has of its own, the methods for
    columns are not called unless your class overrides them, too.

    `headers_read` are the names of record headers that `to_connect_record` reads, or `from_connect_record` replaces. A
    batch of which a record has one is converted record by record.

    >>> from typing import Any
    >>> from fencepost.api import Converter, Schema
    >>> class Latin1Converter(Converter):
    ...     def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
    ...         return None if value is None else str(value).encode("latin-1")
    ...
    ...     def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
    ...         return None, None if data is None else data.decode("latin-1")
    >>> Latin1Converter().from_connect_data("t", None, "é")
    b'\\xe9'
    """

    headers_read: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a value; None for no value. Raises RecordError if the value does not fit."""

    @abstractmethod
    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return the schema and the value that the bytes hold. Raises RecordError if they cannot be parsed."""

    def from_connect_record(
        self, topic: str, headers: list[HeaderBytes], schema: Schema | None, value: Any
    ) -> bytes | None:
        """Return the bytes of a record's value or key. A converter that adds headers to the record appends them.

        After a RetriableError this is called again with the same list.
        """
        return self.from_connect_data(topic, schema, value)

    def to_connect_record(
        self, topic: str, headers: Sequence[HeaderBytes], data: bytes | None
    ) -> tuple[Schema | None, Any]:
        """Return the schema and the value of a record, for a converter that reads the record's headers, too."""
        return self.to_connect_data(topic, data)

    def for_topic(self, topic: str) -> "Converter":
        """Return the converter whose columns are those of one topic, if they depend on the topic.

        The runtime calls `from_column` and `to_column` of the result. It may call this for each batch.
        """
        return self

    def from_column(self, schema: Schema | None, values: Sequence[Any]) -> Sequence[bytes | None] | None:
        """Convert a whole column at once, on the hot path.

        Returns None if this converter or this column must be converted record by record. Return None also if some
        value does not fit: `from_connect_data` then finds out which one.
        """
        return None

    def to_column(self, column: Sequence[bytes | None]) -> tuple[Schema | None, Sequence[Any]] | None:
        """Convert a whole column of bytes at once, on the hot path, if all values share a schema.

        Returns None if this converter or this column must be converted record by record.
        """
        return None


class HeaderConverter(Config):
    """Converts header values.

    >>> from typing import Any
    >>> from fencepost.api import HeaderConverter, Schema
    >>> class TextHeaders(HeaderConverter):
    ...     def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
    ...         return None if value is None else str(value).encode()
    ...
    ...     def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
    ...         return None, None if data is None else data.decode()
    >>> TextHeaders().from_connect_header("t", "trace", None, 17)
    b'17'
    """

    @abstractmethod
    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a header value. Raises RecordError if the value does not fit."""

    @abstractmethod
    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return the schema and the value that the bytes of a header hold."""

    def to_header_column(self, headers: Sequence[Sequence[HeaderBytes]]) -> HeaderColumn | None:
        """Convert the headers of many records at once, on the hot path, if their values are bytes.

        Returns None if they must be converted one by one.
        """
        return None

    def from_header_column(self, headers: HeaderColumn) -> Sequence[Sequence[HeaderBytes]] | None:
        """Convert the headers of many records at once, on the hot path; their values are bytes.

        Returns None if they must be converted one by one.
        """
        return None
