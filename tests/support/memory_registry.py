"""A schema registry in memory, for tests of what converters do with one. It counts what it was asked for."""

from collections import Counter
from typing import TypeVar
from uuid import UUID, uuid5

from fencepost.api import RecordError, UnavailableError
from fencepost.builtin.converter.registry.client import WrittenSchema
from fencepost.builtin.converter.registry.converter import RegistryConverter
from fencepost.builtin.converter.registry.wire import SchemaKey

_SPACE = UUID(int=1)
C = TypeVar("C", bound=RegistryConverter)


class MemoryRegistry:
    """Stands in for `Registry`. While `is_away`, each question raises UnavailableError."""

    def __init__(self, first_id: int = 1) -> None:
        self.subjects: dict[str, list[WrittenSchema]] = {}
        self.asked: Counter[str] = Counter()
        self.is_away = False
        self._ids: dict[WrittenSchema, int] = {}
        self._first_id = first_id

    def schema(self, key: SchemaKey) -> WrittenSchema:
        self._ask("schema")
        for schema in self._ids:
            if key in (SchemaKey(self._ids[schema]), SchemaKey(guid=self._key(schema).guid)):
                return schema
        raise RecordError(f"no schema with {key}")

    def version(self, subject: str, schema: WrittenSchema) -> int | None:
        self._ask("version")
        versions = self.subjects.get(subject, [])
        return versions.index(schema) + 1 if schema in versions else None

    def register(self, subject: str, schema: WrittenSchema, *, normalize: bool = False) -> SchemaKey:
        self._ask("register")
        versions = self.subjects.setdefault(subject, [])
        if schema not in versions:
            versions.append(schema)
        self._ids.setdefault(schema, self._first_id + len(self._ids))
        return self._key(schema)

    def look_up(self, subject: str, schema: WrittenSchema, *, normalize: bool = False) -> SchemaKey:
        self._ask("look up")
        if schema not in self.subjects.get(subject, []):
            raise RecordError(f"subject {subject} has no such schema")
        return self._key(schema)

    def latest(self, subject: str) -> tuple[SchemaKey, WrittenSchema]:
        self._ask("latest")
        newest = self.subjects[subject][-1]
        return self._key(newest), newest

    def referenced(self, schema: WrittenSchema) -> dict[str, WrittenSchema]:
        self._ask("referenced")
        return {each.name: self.subjects[each.subject][each.version - 1] for each in schema.references}

    def _key(self, schema: WrittenSchema) -> SchemaKey:
        return SchemaKey(self._ids[schema], uuid5(_SPACE, schema.text))

    def _ask(self, what: str) -> None:
        self.asked[what] += 1
        if self.is_away:
            raise UnavailableError("the registry is away")


def with_registry(cls: type[C], registry: MemoryRegistry, kind: str = "value", **settings: str) -> C:
    """Return a converter of keys or values that uses this registry; of its settings, dots are written as `_`."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    made = cls({"schema.registry.url": "http://unused", "converter.type": kind, **given})
    made.__dict__["_registry"] = registry
    return made
