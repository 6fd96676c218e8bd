"""The contract of converters: Python values to the bytes of a Kafka record, and back."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from fencepost.config import Config
from fencepost.record import HeaderBytes, HeaderColumn, Schema


class Converter(Config):
    """Converts keys or values. Configured with the properties below its prefix, plus `converter.type`."""

    @abstractmethod
    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a value (None: no value). Raises RecordError where the value does not fit."""

    @abstractmethod
    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return schema and value of the bytes of a record. Raises RecordError where they cannot be read."""

    def from_column(self, schema: Schema | None, values: Sequence[Any]) -> Sequence[bytes | None] | None:
        """Convert a whole column, for the hot path, if the topic does not matter.

        Returns None where this converter, or this column, has to go record by record (also when any value does
        not fit: the record-by-record way then finds out which).
        """
        return None

    def to_column(self, column: Sequence[bytes | None]) -> tuple[Schema | None, Sequence[Any]] | None:
        """Read a whole column of records of any topic, for the hot path, where they all have one schema.

        Returns None where this converter, or this column, has to go record by record.
        """
        return None


class HeaderConverter(Config):
    """Converts header values."""

    @abstractmethod
    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a header value. Raises RecordError where the value does not fit."""

    @abstractmethod
    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return schema and value of a header's bytes."""

    def to_header_column(self, headers: Sequence[Sequence[HeaderBytes]]) -> HeaderColumn | None:
        """Read the headers of many records, for the hot path, whose values are bytes. None: they go one by one."""
        return None

    def from_header_column(self, headers: HeaderColumn) -> Sequence[Sequence[HeaderBytes]] | None:
        """Convert the headers of many records, which are bytes, for the hot path. None: they go one by one."""
        return None
