"""The predicates that are shipped."""

from collections.abc import Mapping

from fencepost.api import HIGH, ConnectRecord, Predicate, non_empty, setting
from fencepost.transform.java_regex import compiled, java_regex


class HasHeaderKey(Predicate):
    """True for records with at least one header of that name."""

    name: str = setting("name", check=non_empty(), importance=HIGH, doc="The header name.")

    def test(self, record: ConnectRecord) -> bool:
        return any(header.key == self.name for header in record.headers)


class RecordIsTombstone(Predicate):
    """True for records without a value."""

    def test(self, record: ConnectRecord) -> bool:
        return record.value is None


class TopicNameMatches(Predicate):
    """True for records whose whole topic name matches a regular expression."""

    pattern: str = setting(
        "pattern",
        check=java_regex(),
        importance=HIGH,
        doc="A Java regular expression for matching against the name of a record's topic.",
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._pattern = compiled(self.pattern)

    def test(self, record: ConnectRecord) -> bool:
        return self._pattern.fullmatch(record.topic) is not None
