"""ReplaceField: removes and renames fields."""

import logging
from collections.abc import Mapping
from typing import Any, TypeVar

from fencepost.api import LOW, ConnectRecord, Schema, setting
from fencepost.builtin.transform.side import Columns, FieldTransform, NullReplacing, both_sides
from fencepost.config.check import Check
from fencepost.record import Field, RecordColumns

log = logging.getLogger(__name__)
T = TypeVar("T")


def _bad_rename(pairs: list[str]) -> str | None:
    for pair in pairs:
        old, colon, new = pair.partition(":")
        if not (old and colon and new) or ":" in new:
            return f"Invalid rename mapping: {pair}"
    return None


class ReplaceField(NullReplacing, FieldTransform):
    """Keeps the fields that are included and not excluded, and renames them."""

    purpose = "field replacement"

    exclude: list[str] = setting(
        "exclude", default=[], doc="Fields to exclude. This takes precedence over the fields to include."
    )
    include: list[str] = setting(
        "include", default=[], doc="Fields to include. If specified, only these fields will be used."
    )
    renames: list[str] = setting(
        "renames",
        default=[],
        check=Check(_bad_rename, "list of colon-delimited pairs, e.g. foo:bar,abc:xyz"),
        doc="Field rename mappings.",
    )
    blacklist: list[str] | None = setting("blacklist", default=None, importance=LOW, doc="Deprecated. Use exclude.")
    whitelist: list[str] | None = setting("whitelist", default=None, importance=LOW, doc="Deprecated. Use include.")

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._excluded = frozenset(self._either("exclude", self.exclude, "blacklist", self.blacklist))
        self._included = frozenset(self._either("include", self.include, "whitelist", self.whitelist))
        self._new_names: dict[str, str] = dict(pair.split(":") for pair in self.renames)

    def changed_fields(self, record: ConnectRecord, schema: Schema | None, fields: dict[str, Any]) -> dict[str, Any]:
        return self._replaced(fields)

    def changed_columns(self, batch: RecordColumns, schema: Schema | None, fields: Columns) -> Columns | None:
        return self._replaced(fields)

    def changed_members(self, schema: Schema) -> tuple[Field, ...]:
        kept = (field for field in schema.fields if self._is_kept(field.name))
        return tuple(Field(self._new_names.get(f.name, f.name), f.schema) for f in kept)

    def _replaced(self, fields: dict[str, T]) -> dict[str, T]:
        return {self._new_names.get(name, name): value for name, value in fields.items() if self._is_kept(name)}

    def _is_kept(self, name: str) -> bool:
        return name not in self._excluded and (not self._included or name in self._included)

    def _either(self, key: str, value: list[str], old_key: str, old_value: list[str] | None) -> list[str]:
        if old_value is None:
            return value
        log.warning("Configuration %s of ReplaceField is deprecated: use %s", old_key, key)
        return value or old_value


ReplaceFieldKey, ReplaceFieldValue = both_sides(ReplaceField, "Removes or renames fields of record {side}s.")
