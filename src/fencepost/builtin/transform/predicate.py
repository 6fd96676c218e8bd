"""The predicates that are shipped, and Filter, which drops the records that a predicate chooses."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from fencepost.api import ConnectRecord, Header, Predicate, Record, Transform, non_empty, setting
from fencepost.builtin.transform.java_regex import compiled
from fencepost.builtin.transform.router import REMEMBERED_TOPICS
from fencepost.builtin.transform.side import mapped
from fencepost.config.java_regex import java_regex
from fencepost.record import HeaderColumn, RecordColumns, Repeated, StructColumn, Utf8Column


class HasHeaderKey(Predicate):
    """True for records with at least one header of that name."""

    name: str = setting("name", check=non_empty(), doc="The header name.")

    def test(self, record: ConnectRecord) -> bool:
        return self._is_among(record.headers)

    def matches(self, batch: RecordColumns) -> Sequence[bool] | None:
        if isinstance(batch.headers, HeaderColumn):
            return [any(key == self.name for key, _ in pairs) for pairs in batch.headers.raw]
        return mapped(self._is_among, batch.headers)

    def _is_among(self, headers: Sequence[Header]) -> bool:
        return any(header.key == self.name for header in headers)


class RecordIsTombstone(Predicate):
    """True for records without a value."""

    def test(self, record: ConnectRecord) -> bool:
        return record.value is None

    def matches(self, batch: RecordColumns) -> Sequence[bool] | None:
        values = batch.value.values
        if isinstance(values, StructColumn | Utf8Column):
            return Repeated(False, len(values))
        return mapped(lambda value: value is None, values)


class TopicNameMatches(Predicate):
    """True for records whose whole topic name matches a regular expression."""

    pattern: str = setting(
        "pattern",
        check=java_regex(is_empty_allowed=False),
        doc="A Java regular expression for matching against the name of a record's topic.",
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._pattern = compiled(self.pattern)
        self._remembered = lru_cache(REMEMBERED_TOPICS)(self._matches)

    def test(self, record: ConnectRecord) -> bool:
        return self._remembered(record.topic)

    def matches(self, batch: RecordColumns) -> Sequence[bool] | None:
        return mapped(self._remembered, batch.topics)

    def _matches(self, topic: str) -> bool:
        return self._pattern.fullmatch(topic) is not None


class Filter(Transform):
    """Drops all records; use it with a predicate."""

    def apply(self, record: Record) -> Record | None:
        return None

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        return batch.select(())
