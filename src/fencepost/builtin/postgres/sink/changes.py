"""What records change in tables: batches become columns, one piece for each run of records with the same schemas.

Debezium's envelope is unwrapped as its JDBC sink does: `after` is the row, `d` a delete. A record without a value is a
delete, too. Other operations (`t`, `m`) and, unless `delete.enabled`, deletes are skipped.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple

from fencepost.api import RecordError, Repeated, Schema, SchemaType, SinkBatch, StructColumn
from fencepost.builtin.postgres.envelope.unavailable import Placeholders
from fencepost.builtin.postgres.sink.settings import INSERT, KAFKA, NONE, RECORD_KEY, SinkSettings
from fencepost.builtin.postgres.sink.table_name import TableName
from fencepost.record import picked
from fencepost.record.schema import INT32, INT64, STRING

_KAFKA_FIELDS = ("__connect_topic", "__connect_partition", "__connect_offset")
_DELETE, _SKIPPED = "d", frozenset({"t", "m"})
_ENVELOPE = {"op", "before", "after", "source"}
_NO_VALUE = "its key's column {} is null, so no row can be found by it"


class BadRecordsError(Exception):
    """Records of a batch that cannot be written: the index and the reason of each, in order."""

    def __init__(self, found: Sequence[tuple[int, Exception]]) -> None:
        super().__init__(f"{len(found)} records cannot be written: {found[0][1]}")
        self.found = found


class Column(NamedTuple):
    """Values for a column, in order; those of deletes are None unless it is of the key. `schema` None: schemaless."""

    name: str
    schema: Schema | None
    values: Sequence[Any]


@dataclass(frozen=True)
class Changes:
    """Changes of a table, in order.

    `keys` are the names of the columns of the primary key. `is_delete` has an entry for each row; None if there is no
    delete. `rows` are the indexes of the records in their batch.
    """

    table: TableName
    columns: Sequence[Column]
    keys: Sequence[str]
    is_delete: Sequence[bool] | None
    rows: Sequence[int]

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, stop: int) -> "Changes":
        """Return the changes `start` up to before `stop`."""
        columns = [each._replace(values=each.values[start:stop]) for each in self.columns]
        deletes = None if self.is_delete is None else self.is_delete[start:stop]
        return Changes(self.table, columns, self.keys, deletes, self.rows[start:stop])


class _Run(NamedTuple):
    topic: str
    key_schema: Schema | None
    value_schema: Schema | None
    rows: Sequence[int]


def runs(batch: SinkBatch) -> Iterator[_Run]:
    """Yield the records of each topic in order, cut where a schema changes. Records without a value cut nothing."""
    schemas = (batch.topics, batch.key_schemas, batch.value_schemas)
    if all(isinstance(column, Repeated) for column in schemas) and len(batch):
        yield _Run(batch.topics[0], batch.key_schemas[0], batch.value_schemas[0], range(len(batch)))
        return
    open_: dict[str, _Run] = {}
    for row, (topic, key, schema, value) in enumerate(zip(*schemas, batch.values, strict=True)):
        run = open_.get(topic)
        if value is None:
            schema = None if run is None else run.value_schema
        elif run is not None and run.value_schema is None and not _has_values(batch, run):
            run = open_[topic] = run._replace(value_schema=schema)
        if run is None or not (_same(run.key_schema, key) and _same(run.value_schema, schema)):
            if run is not None:
                yield run
            run = open_[topic] = _Run(topic, key, schema, [])
        run.rows.append(row)  # type: ignore[attr-defined]
    yield from open_.values()


def _has_values(batch: SinkBatch, run: _Run) -> bool:
    return any(batch.values[row] is not None for row in run.rows)


def _same(one: Schema | None, other: Schema | None) -> bool:
    return one is other or one == other


class Layout:
    """Finds the table and the columns of records, by the sink's settings."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._mode = settings.pk_mode.lower()
        self._whitelist = frozenset(settings.fields_whitelist)
        self._name: Callable[[str], str] = str.lower if settings.quote_sql_identifiers.lower() == "never" else str

    def table(self, topic: str) -> TableName:
        text = self._settings.table_name_format.replace("${topic}", topic)
        return TableName.parse(self._name(text), self._settings.default_schema)

    def changes(self, batch: SinkBatch) -> list[Changes]:
        """Return the changes of a batch. Raises BadRecordsError for records that are no rows of any table."""
        bad: list[tuple[int, Exception]] = []
        found = [self._of_run(batch, run, bad) for run in runs(batch)]
        if bad:
            raise BadRecordsError(sorted(bad, key=itemgetter(0)))
        return [each for each in found if len(each)]

    def _of_run(self, batch: SinkBatch, run: _Run, bad: list[tuple[int, Exception]]) -> Changes:
        schema, rows = run.value_schema, run.rows
        values = _picked(batch.values, rows)
        is_delete: list[bool] | None = None
        if schema is not None and _is_envelope(schema):
            rows, values, is_delete = _unwrapped(rows, values)
            after = schema.field("after")
            schema = None if after is None else after.schema
        elif not isinstance(values, StructColumn) and any(value is None for value in values):
            is_delete = [value is None for value in values]
        if is_delete is not None and not self._settings.delete_enabled:
            kept = [at for at, deletes in enumerate(is_delete) if not deletes]
            rows, values, is_delete = [rows[at] for at in kept], _picked(values, kept), None
        elif is_delete is not None and not any(is_delete):
            is_delete = None
        flat = _flat(values) if schema is None and is_delete is None else None
        may_have_faults = flat is None and (schema is None or schema.type is not SchemaType.STRUCT)
        values = values if flat is None else flat
        faults = [(row, RecordError(fault)) for row, value in zip(rows, values, strict=True)
                  if (fault := _fault(schema, value))] if may_have_faults else []  # fmt: skip
        if faults:
            bad.extend(faults)
            return Changes(self.table(run.topic), (), (), None, ())
        columns = self._value_columns(schema, values, is_delete is not None)
        keys, all_columns = self._with_key(batch, run, rows, columns, bad)
        return Changes(self.table(run.topic), all_columns, keys, is_delete, rows)

    def _value_columns(self, schema: Schema | None, values: Sequence[Any], has_deletes: bool) -> list[Column]:
        structs = None if has_deletes else StructColumn.of_rows(values)
        members: list[tuple[str, Schema | None]]
        if schema is not None:
            members = [(field.name, field.schema) for field in schema.fields]
        else:
            rows = [structs.columns] if structs else values
            members = [(name, None) for name in dict.fromkeys(name for row in rows if row for name in row)]
        if structs is not None and all(name in structs.columns for name, _ in members):
            return [Column(self._name(name), kind, structs.columns[name]) for name, kind in members]
        return [
            Column(self._name(name), kind, [None if value is None else value.get(name) for value in values])
            for name, kind in members
        ]

    def _with_key(
        self, batch: SinkBatch, run: _Run, rows: Sequence[int], columns: list[Column], bad: list[tuple[int, Exception]]
    ) -> tuple[Sequence[str], Sequence[Column]]:
        """Return the names of the key's columns, and all columns, those of the key first."""
        if self._mode == NONE:
            return (), self._listed(columns, ())
        if self._mode == KAFKA:
            key = self._kafka_key(batch, rows)
        elif self._mode == RECORD_KEY:
            key = self._record_key(run.key_schema, _picked(batch.keys, rows), rows, bad)
        else:
            names = [self._name(name) for name in self._settings.pk_fields] or [each.name for each in columns]
            key = [each for each in columns if each.name in names]
            missing = set(names) - {each.name for each in key}
            if missing:
                bad.extend((row, RecordError(_lacks("value", missing))) for row in rows)
        if self._settings.insert_mode.lower() != INSERT or self._settings.delete_enabled:
            bad.extend((row, RecordError(_NO_VALUE.format(each.name))) for each in key if None in each.values
                       for row, value in zip(rows, each.values, strict=True) if value is None)  # fmt: skip
        keys = [each.name for each in key]
        return keys, [*key, *self._listed([each for each in columns if each.name not in keys], keys)]

    def _listed(self, columns: Sequence[Column], keys: Sequence[str]) -> Sequence[Column]:
        if not self._whitelist:
            return columns
        wanted = {self._name(name) for name in self._whitelist}
        return [each for each in columns if each.name in wanted or each.name in keys]

    def _kafka_key(self, batch: SinkBatch, rows: Sequence[int]) -> list[Column]:
        names = [self._name(name) for name in self._settings.pk_fields or _KAFKA_FIELDS]
        places = _picked(batch.places, rows)
        values = ([place.topic for place in places], [place.partition for place in places])
        columns = zip(names, (STRING, INT32, INT64), (*values, _picked(batch.offsets, rows)), strict=True)
        return [Column(name, schema, column) for name, schema, column in columns]

    def _record_key(
        self, schema: Schema | None, keys: Sequence[Any], rows: Sequence[int], bad: list[tuple[int, Exception]]
    ) -> list[Column]:
        wanted = self._settings.pk_fields
        structs = keys if isinstance(keys, StructColumn) else None
        without = [] if structs else [row for row, key in zip(rows, keys, strict=True) if key is None]
        bad.extend((row, RecordError("the record has no key, which pk.mode=record_key needs")) for row in without)
        if without:
            return []
        is_map = schema is None and len(keys) > 0 and all(isinstance(key, dict) for key in keys)
        if not is_map and (schema is None or schema.type is not SchemaType.STRUCT):
            if len(wanted) != 1 and len(keys):
                text = "the key is no struct: name its column in pk.fields, which must have one name then"
                bad.extend((row, RecordError(text)) for row in rows)
            return [Column(self._name(name), schema, keys) for name in wanted[:1]]
        kinds = {name: None for key in keys for name in key} if schema is None else {
            field.name: field.schema for field in schema.fields
        }  # fmt: skip
        names = wanted or list(kinds)
        missing = set(names) - set(kinds)
        if missing and len(keys):
            bad.extend((row, RecordError(_lacks("key", missing))) for row in rows)
            return []
        of = structs.columns if structs else {name: [key.get(name) for key in keys] for name in names}
        return [Column(self._name(name), kinds[name], of[name]) for name in names if name in kinds]


def _lacks(part: str, missing: set[str]) -> str:
    return f"the record's {part} has no field {', '.join(sorted(missing))}, which pk.fields names"


def _picked(column: Sequence[Any], rows: Sequence[int]) -> Sequence[Any]:
    return column if len(rows) == len(column) else picked(column, rows)


def _is_envelope(schema: Schema) -> bool:
    return schema.type is SchemaType.STRUCT and {field.name for field in schema.fields} >= _ENVELOPE


def _unwrapped(rows: Sequence[int], values: Sequence[Any]) -> tuple[Sequence[int], Sequence[Any], list[bool]]:
    """Return the rows of the table that envelopes have, and which of them are deleted."""
    kept = [at for at, value in enumerate(values) if value is None or value["op"] not in _SKIPPED]
    found = [values[at] for at in kept]
    is_delete = [value is None or value["op"] == _DELETE for value in found]
    after = [None if deletes else value["after"] for value, deletes in zip(found, is_delete, strict=True)]
    return [rows[at] for at in kept], after, is_delete


def _flat(values: Sequence[Any]) -> StructColumn | None:
    """Return rows without a schema as columns, if all have the same fields and no value is a map or a list."""
    found = StructColumn.of_rows(values)
    kinds: set[type] = set() if found is None else set().union(*(map(type, each) for each in found.columns.values()))
    return None if any(issubclass(kind, dict | list) for kind in kinds) else found


def _fault(schema: Schema | None, value: Any) -> str | None:
    """Return why a value is no row: it is neither a struct nor a flat map."""
    if value is None:
        return None
    if schema is not None:
        return f"its value is a {schema.type.value}, not a struct"
    if not isinstance(value, dict):
        return "its value has no schema and is no map: use a converter with schemas, such as Avro's"
    if any(isinstance(each, dict | list) for each in value.values()):
        return "its value has no schema and is not flat: use a converter with schemas, such as Avro's"
    return None


def cut(changes: Changes, known: Placeholders) -> Iterator[Changes]:
    """Yield changes in order, in pieces without the columns that all rows of a piece lack: those keep their values."""
    lacking: dict[str, set[int]] = {}
    for column in changes.columns:
        marks = known.get(None if column.schema is None else column.schema.type, ())
        if column.name not in changes.keys and any(mark in column.values for mark in marks):
            lacking[column.name] = {at for at, value in enumerate(column.values) if value in marks}
    if not lacking:
        yield changes
        return
    absent = [frozenset(name for name, rows in lacking.items() if at in rows) for at in range(len(changes))]
    start = 0
    for stop in range(1, len(changes) + 1):
        if stop == len(changes) or absent[stop] != absent[start]:
            piece = changes.part(start, stop)
            yield replace(piece, columns=[each for each in piece.columns if each.name not in absent[start]])
            start = stop
