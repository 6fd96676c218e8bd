"""A class is called for each record if its methods for batches know nothing of what it overrides."""

from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.api import Record, RecordColumns, Transform
from fencepost.builtin.transform.mask_field import MaskFieldValue
from fencepost.hook.batch_method import covers
from fencepost.plugin import PluginKind, PluginRegistry
from fencepost.plugin.kind import BUILT_IN


class Shouting(Transform):
    """Somebody's transform, for records and for batches."""

    def apply(self, record: Record) -> Record | None:
        return record.replace(topic=self.shouted(record.topic))

    def apply_topics(self, topics: Sequence[str]) -> Sequence[str] | None:
        return [self.shouted(topic) for topic in topics]

    def shouted(self, topic: str) -> str:
        return topic.upper()

    @property
    def mark(self) -> str:
        return "!"


class ForRecords(Transform):
    def apply(self, record: Record) -> Record | None:
        return record


class OwnApply(Shouting):
    def apply(self, record: Record) -> Record | None:
        return None


class OwnHook(Shouting):
    def shouted(self, topic: str) -> str:
        return f"{topic}!"


class OwnProperty(Shouting):
    @property
    def mark(self) -> str:
        return "?"


class OfMixin:
    def shouted(self, topic: str) -> str:
        return topic


class Mixed(OfMixin, Shouting): ...


class HookOfBuiltIn(MaskFieldValue):
    def _masked(self, schema: Any, value: Any) -> Any:
        return "***"


class BelowIt(OwnHook): ...


class OwnBoth(OwnHook):
    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        return super().apply_batch(batch)


class OtherConstant(MaskFieldValue):
    purpose = "hide fields"


class OwnContract(Shouting):
    """Overrides what changes no record, and adds a method that its base does not know."""

    def __init__(self, properties: Any = None) -> None:
        super().__init__(properties)

    def check_together(self) -> list[str]:
        return []

    def close(self) -> None: ...

    def another(self) -> None: ...


def _covers(kind: type[Any]) -> bool:
    return covers(kind, (Transform,), frozenset({"apply"}), frozenset({"apply_batch", "apply_topics"}))


@pytest.mark.parametrize(
    "kind", [ForRecords, OwnApply, OwnHook, OwnProperty, Mixed, HookOfBuiltIn, BelowIt], ids=lambda kind: kind.__name__
)
def test_class_gets_single_records_if_its_batch_methods_would_skip_an_override(kind: type[Any]) -> None:
    assert not _covers(kind)


@pytest.mark.parametrize("kind", [Shouting, OwnBoth, OtherConstant, OwnContract], ids=lambda kind: kind.__name__)
def test_class_gets_batches_if_its_batch_methods_cover_its_record_methods(kind: type[Any]) -> None:
    assert _covers(kind)


def test_all_built_in_kafka_transforms_get_batches() -> None:
    found = PluginRegistry()
    names = [name for name in BUILT_IN[PluginKind.TRANSFORM] if not name.startswith("io.debezium.")]
    assert len(names) > 20
    assert [name for name in names if not _covers(found.find(PluginKind.TRANSFORM, name))] == []
