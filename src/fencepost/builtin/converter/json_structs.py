"""Encodes structs that are columns as JSON, without making an object of any row.

All values of all columns are encoded in one call, with marks between them. The names of fields, and values that are the
same in all rows, are then put in place of the marks.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter.json_column import MARK, MARK_BYTES, column_encoder
from fencepost.builtin.converter.json_encoding import EncodingOptions, decimal_fallback, encoder
from fencepost.builtin.converter.logical import LOGICAL_TYPES
from fencepost.record import Repeated, SchemaType, StructColumn, Utf8Column

Piece = bytes | Sequence[Any]
"""A part of every row: a text that all rows share, or a column of values for `orjson`, one for each row."""


def dumped_structs(
    schema: Schema | None, structs: StructColumn, options: EncodingOptions, prefix: bytes, suffix: bytes
) -> Sequence[bytes] | None:
    """Return the JSON of each row between `prefix` and `suffix`, or None if they cannot be encoded together.

    Raises RecordError for a row that does not fit the schema, and TypeError for a value that JSON cannot hold.
    """
    if not len(structs):
        return []
    constants, columns = _alternating([prefix, *_pieces(schema, structs, options), suffix])
    if any(MARK_BYTES in constant for constant in constants):
        return None
    if not columns:
        return Repeated(constants[0], len(structs))
    return _joined(constants, columns, len(structs))


def _joined(constants: list[bytes], columns: list[Sequence[Any]], count: int) -> list[bytes] | None:
    """Return for each row: constant, value of a column, constant, and so on; the last one is a constant."""
    width = 2 * len(columns)
    marked: list[Any] = [None] * (width * count)
    for place, column in enumerate(columns):
        marked[2 * place :: width] = column
        marked[2 * place + 1 :: width] = [f"{MARK}{place}"] * count
    written = orjson.dumps(marked, default=decimal_fallback)
    if written.count(MARK_BYTES) != len(columns) * count:
        return None
    between = [*constants[1:-1], constants[-1] + MARK_BYTES + constants[0]]
    ends = b',"' + MARK_BYTES + str(len(columns) - 1).encode() + b'"]'
    written = constants[0] + written[1 : -len(ends)] + constants[-1]
    for place, constant in enumerate(between):
        written = written.replace(b',"' + MARK_BYTES + str(place).encode() + b'",', constant)
    return written.split(MARK_BYTES)


def _alternating(pieces: Sequence[Piece]) -> tuple[list[bytes], list[Sequence[Any]]]:
    """Return the texts around the columns, of which there is one more than columns, and the columns."""
    constants, columns = [b""], []
    for piece in pieces:
        if isinstance(piece, bytes):
            constants[-1] += piece
        else:
            columns.append(piece)
            constants.append(b"")
    return constants, columns


def _pieces(schema: Schema | None, column: Sequence[Any], options: EncodingOptions) -> list[Piece]:
    if isinstance(column, Repeated):
        value = column.value if schema is None else encoder(schema, options)(column.value)
        return [orjson.dumps(value, default=decimal_fallback)]
    if isinstance(column, StructColumn):
        if schema is None:
            return _members([(name, None, each) for name, each in column.columns.items()], options)
        if schema.type is SchemaType.STRUCT and schema.name not in LOGICAL_TYPES:
            return _members(_of_fields(schema, column), options)
    values = column.texts() if isinstance(column, Utf8Column) else column
    return [values if schema is None else column_encoder(schema, options)(values)]


def _of_fields(schema: Schema, structs: StructColumn) -> list[tuple[str, Schema | None, Sequence[Any]]]:
    known = {field.name for field in schema.fields}
    unknown = [name for name in structs.columns if name not in known]
    if unknown:
        raise RecordError(f"{sorted(unknown)[0]} is not a valid field name")
    nothing = Repeated(None, len(structs))
    return [(field.name, field.schema, structs.columns.get(field.name, nothing)) for field in schema.fields]


def _members(fields: Sequence[tuple[str, Schema | None, Sequence[Any]]], options: EncodingOptions) -> list[Piece]:
    pieces: list[Piece] = []
    opening = b"{"
    for name, schema, column in fields:
        pieces += [opening + orjson.dumps(name) + b":", *_pieces(schema, column, options)]
        opening = b","
    return [*pieces, b"}" if fields else b"{}"]
