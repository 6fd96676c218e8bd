"""The last steps of a mixed chain to Kafka: the converters of headers, key and value, wherever they run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.api import ConnectRecord, Converter, Header, HeaderConverter
from fencepost.api.hosted_chain import RAW, HostedPart, HostedStep, Role
from fencepost.record import HeaderBytes
from fencepost.task.life.mixed import LocalStep, Row, Step


@dataclass(frozen=True)
class ToBytes:
    """Converters that make bytes, in the order in which Kafka Connect calls them."""

    header_converter: HeaderConverter
    key_converter: Converter
    value_converter: Converter

    def steps(self) -> list[Step]:
        return [
            converter_step(Role.HEADER, self.header_converter, self._headers),
            converter_step(Role.KEY, self.key_converter, self._key),
            converter_step(Role.VALUE, self.value_converter, self._value),
        ]

    def _headers(self, row: Row) -> bool:
        if row.record.headers:
            row.record = row.record.replace(
                headers=raw([self._header(row.record, each) for each in row.record.headers])
            )
        return True

    def _header(self, record: ConnectRecord, header: Header) -> HeaderBytes:
        if header.schema is RAW:  # a converter has added it
            return header.key, header.value
        data = self.header_converter.from_connect_header(record.topic, header.key, header.schema, header.value)
        return header.key, data

    def _key(self, row: Row) -> bool:
        record, added = row.record, pairs(row.record)
        key = self.key_converter.from_connect_record(record.topic, added, record.key_schema, record.key)
        row.record = _with_headers(record, added).with_key(RAW, key)
        return True

    def _value(self, row: Row) -> bool:
        record, added = row.record, pairs(row.record)
        value = self.value_converter.from_connect_record(record.topic, added, record.value_schema, record.value)
        row.record = _with_headers(record, added).with_value(RAW, value)
        return True


def converter_step(role: Role, converter: Any, apply: Any) -> Step:
    """Return the step of a converter; `apply` is what it does in this process."""
    if isinstance(converter, HostedPart):
        return HostedStep(role, type(converter), f"{role}.converter.")
    return LocalStep(role, apply)


def pairs(record: ConnectRecord) -> list[HeaderBytes]:
    """Return headers that are bytes."""
    return [(header.key, header.value) for header in record.headers]


def raw(headers: Sequence[HeaderBytes]) -> tuple[Header, ...]:
    return tuple(Header(name, data, RAW) for name, data in headers)


def _with_headers(record: ConnectRecord, headers: list[HeaderBytes]) -> ConnectRecord:
    """Return the record with the headers that a converter has left."""
    return record if headers == pairs(record) else record.replace(headers=raw(headers))
