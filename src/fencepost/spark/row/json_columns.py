"""JSON text to columns by Arrow, where its parser and Spark's agree; the rest is left to Spark, which is the judge.

A batch is parsed as a whole or not at all. What Arrow refuses may be right for Spark (`'a'` for `"a"`, a comment, a
number for a column of text), or wrong for both: its text stays, and `from_json` looks at it. What Arrow takes is only
kept where Spark makes the same of it.
"""

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from fencepost.record.binary_column import lines
from fencepost.spark.row.kafka_columns import PARSED_TYPES

_NO_NUMBER = re.compile(rb"Inf(?![A-Za-z])|-NaN")  # of which Arrow's parser says that they are
# Of each constant that Arrow is given without a type it asks whether it is a time, at the cost of ten of its steps.
_ONE, _ZERO, _WHOLE = pa.scalar(1, pa.int64()), pa.scalar(0.0, pa.float64()), pa.scalar(1.0, pa.float64())
_LONG_BYTES, _VERY_LONG_BYTES = 1_000, 50_000  # Spark's parser refuses longer names, and texts of 20 million
_DEEP, _DIGITS = 500, 250  # far below what it refuses: it takes 1,000 of either


class JsonColumns:
    """Parses the texts of many batches."""

    def __init__(self, types: Mapping[str, str], empty: str) -> None:
        """`types` are the columns', of PARSED_TYPES; the structs get one more, `empty`: a text, null in all of them."""
        self._schema = pa.schema([(name, PARSED_TYPES[kind]) for name, kind in types.items()])
        self.type = pa.struct([*self._schema, (empty, pa.string())])

    def parsed(self, texts: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return what is left of the texts, and the structs made of the others; each is in its place, or null."""
        count = len(texts)
        given = texts.drop_null().cast(pa.binary())
        table = self._table(given) if len(given) else None
        if table is None:
            return texts, pa.nulls(count, self.type)
        made = pa.StructArray.from_arrays(
            [*(_whole(column) for column in table.columns), pa.nulls(len(given), pa.string())], fields=list(self.type)
        )
        if len(given) < count:
            there = pc.is_valid(texts)
            places = pc.subtract(pc.cumulative_sum(there.cast(pa.int64())), _ONE)
            made = made.take(pc.if_else(there, places, pa.scalar(None, pa.int64())))
        return pa.nulls(count, texts.type), made

    def _table(self, texts: pa.Array) -> pa.Table | None:
        """Return the columns of texts, none of which is null; None where Spark has to say what they are."""
        # Each begins and ends as an object does, and no line break may stand in a text: so none goes on in the next.
        is_object = pc.and_(pc.starts_with(texts, b"{"), pc.ends_with(texts, b"}"))
        if not pc.all(is_object).as_py() or _is_extreme(texts):
            return None
        data = lines(texts).to_pybytes()
        if (b"Inf" in data or b"-NaN" in data) and _NO_NUMBER.search(data):  # the former are quick
            return None
        try:
            table = arrow_json.read_json(
                pa.BufferReader(data),
                arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                arrow_json.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore"),
            )
            table.validate(full=True)  # Spark puts U+FFFD where bytes are no text
        except pa.ArrowException:
            return None
        is_as_spark_has_it = table.num_rows == len(texts) and all(map(_is_plain, table.columns))
        return table.select(self._schema.names) if is_as_spark_has_it else None


def _is_plain(column: pa.ChunkedArray) -> bool:
    """Say whether there is no number that the parsers may read otherwise: to Spark `-0` is 0, and `NaN` a name."""
    if not pa.types.is_floating(column.type):
        return True
    if not pc.all(pc.is_finite(column), min_count=0).as_py():
        return False
    zeros = column.filter(pc.equal(column, _ZERO))
    return bool(pc.all(pc.greater(pc.divide(_WHOLE, zeros), _ZERO), min_count=0).as_py())


def _is_extreme(texts: pa.Array) -> bool:
    """Say whether a text may be deeper, or have a longer number, name or text in it, than Spark's parser takes."""
    longest = pc.max(pc.binary_length(texts)).as_py()
    if not _LONG_BYTES < longest <= _VERY_LONG_BYTES:
        return bool(longest > _VERY_LONG_BYTES)
    depths = pc.add(pc.count_substring(texts, b"{"), pc.count_substring(texts, b"["))
    if pc.max(depths).as_py() > _DEEP:
        return True
    return bool(pc.any(pc.match_substring_regex(texts, b"[0-9.eE+-]{%d}" % _DIGITS)).as_py())


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
