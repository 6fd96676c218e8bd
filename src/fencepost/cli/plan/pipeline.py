"""What transforms and converters make of single records, as the runtime applies them: in order, each once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.api import ConnectError, ConnectRecord, Converter, Header, RecordError, Schema, SinkRecord, SourceRecord
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.registry.converter import RegistryConverter
from fencepost.builtin.transform.chain import Chain, Find
from fencepost.kafka.read.browse import TopicRecord
from fencepost.task.life.plugins import ChainConfig, converter_of

_MOST = 400


@dataclass(frozen=True)
class Seen:
    """A record before and after; `written` is what a source's converters make of it. `fault` says why it would fail.

    `unwritten` says why the converters were not asked.
    """

    place: str
    before: ConnectRecord | None = None
    after: ConnectRecord | None = None
    written: tuple[bytes | None, bytes | None] | None = None
    fault: str = ""
    unwritten: str = ""

    @property
    def is_filtered(self) -> bool:
        return self.after is None and not self.fault

    @property
    def topics(self) -> set[str]:
        return {one.topic for one in (self.after or self.before,) if one is not None}

    def lines(self, number: int) -> Iterator[str]:
        """Yield what people read."""
        yield f"{number}  {self.place}"
        if self.before is not None:
            yield from _shown("before", self.before)
        if self.fault:
            yield f"  fails    {self.fault}"
        elif self.after is None:
            yield "  after    (filtered)"
        else:
            yield from _shown("after", self.after)
        if self.written is not None:
            key, value = map(_bytes, self.written)
            yield f"  written  key {key}  value {value}"
        elif self.unwritten:
            yield f"  written  (not shown: {self.unwritten})"


class Pipeline:
    """Transforms and converters of one connector, in this process."""

    def __init__(self, properties: Mapping[str, str], find: Find) -> None:
        chain = ChainConfig(properties, find)
        self._chain = Chain.from_config(properties, find)
        self._key, self._value = (converter_of(chain, f"{role}.converter") for role in ("key", "value"))
        self._header = converter_of(chain, "header.converter", kind="header_converter")

    def of_source(self, record: SourceRecord) -> Seen:
        """Return what would be sent for a record that a source has polled."""
        place = f"{dict(record.source_partition)} at {record.source_offset}"
        try:
            after = self._chain.apply(record)
            if after is None:
                return Seen(place, record)
            if registering := _registering(key=self._key, value=self._value):
                return Seen(place, record, after, unwritten=registering)
            key = self._key.from_connect_record(after.topic, [], after.key_schema, after.key)
            value = self._value.from_connect_record(after.topic, [], after.value_schema, after.value)
        except Exception as error:
            return Seen(place, record, fault=reason(error))
        return Seen(place, record, after, (key, value))

    def of_sink(self, found: tuple[str, TopicRecord]) -> Seen:
        """Return what the task would be given for a record that is in a topic."""
        topic, read = found
        place = f"{topic}-{read.partition}@{read.offset}"
        record = None
        try:
            record = self._read(topic, read)
            return Seen(place, record, self._chain.apply(record))
        except Exception as error:
            return Seen(place, record, fault=reason(error))

    def _read(self, topic: str, read: TopicRecord) -> SinkRecord:
        key_schema, key = self._key.to_connect_record(topic, read.headers, read.key)
        value_schema, value = self._value.to_connect_record(topic, read.headers, read.value)
        headers = tuple(self._read_header(topic, name, data) for name, data in read.headers)
        return SinkRecord(
            topic, read.partition, read.offset, value, value_schema, key, key_schema, read.timestamp_ms, headers
        )

    def _read_header(self, topic: str, name: str, data: bytes | None) -> Header:
        schema, value = self._header.to_connect_header(topic, name, data)
        return Header(name, value, schema)


def reason(error: BaseException) -> str:
    """Return what an error says, after the name of its class if that is not one of ours."""
    return str(error) if isinstance(error, ConnectError) else f"{type(error).__name__}: {error}"


def _registering(**converters: Converter) -> str:
    """Return which converter would write to a schema registry; empty if none would."""
    registering = (
        f"{type(one).__name__} would register a schema of the {role}"
        for role, one in converters.items()
        if isinstance(one, RegistryConverter) and one.auto_register_schemas
    )
    return next(registering, "")


def _shown(what: str, record: ConnectRecord) -> Iterator[str]:
    key, value = _text(record.key_schema, record.key), _text(record.value_schema, record.value)
    yield f"  {what:<7}  topic {record.topic}  key {key}  value {value}"
    for header in record.headers:
        yield f"           header {header.key} {_text(header.schema, header.value)}"


def _text(schema: Schema | None, value: Any) -> str:
    try:
        return _bytes(JsonConverter({"schemas.enable": "false"}).from_connect_data("", schema, value))
    except RecordError:
        return repr(value)[:_MOST]


def _bytes(data: bytes | None) -> str:
    text = "null" if data is None else data.decode("utf-8", "backslashreplace")
    return text if len(text) <= _MOST else f"{text[:_MOST]}… of {len(data or b'')} bytes"
