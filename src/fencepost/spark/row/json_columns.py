"""JSON text to columns by Arrow, if its parser agrees with Spark's; Spark reads the rest, and its result is decisive.

A batch is parsed as a whole or not at all. If Arrow refuses a text, it may be valid for Spark (`'a'` for `"a"`, a
comment, a number in a column of text) or invalid for both: the text stays, and `from_json` reads it. Arrow's result is
used only if Spark would return the same.
"""

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json
from pyspark.sql import types as T  # noqa: N812

from fencepost.record.binary_column import bytes_of, lines
from fencepost.record.type_table import of_spark
from fencepost.spark.row.exact_json import ExactColumns, has_long_numbers
from fencepost.spark.row.kafka_columns import MISFIT_REASON, PARSED
from fencepost.spark.row.payloads import reason_of

_NO_NUMBER = re.compile(rb"Inf(?![A-Za-z])|-NaN")  # Arrow's parser reports these
# For a constant without a type, Arrow checks whether it is a time, at the cost of ten of its steps.
_ONE, _ZERO, _WHOLE = pa.scalar(1, pa.int64()), pa.scalar(0.0, pa.float64()), pa.scalar(1.0, pa.float64())
_LONG_BYTES, _VERY_LONG_BYTES = 1_000, 50_000  # Spark's parser refuses longer names, and texts of 20 million
_DEEP, _DIGITS = 500, 250  # far below Spark's limit of 1,000 for both


class JsonColumns:
    """Parses the texts of many batches."""

    def __init__(self, types: Mapping[str, str], empty: str) -> None:
        """Prepare columns of `types`, all in PARSED_TYPES; structs get one more, `empty`: a text, always null."""
        rows = {name: of_spark(kind) for name, kind in types.items()}
        self._schema = pa.schema([(name, row.arrow) for name, row in rows.items() if row is not None])
        self.type = pa.struct([*self._schema, (empty, pa.string())])

    def parsed(self, texts: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the remaining texts and the structs made of the others; each is in its place, or null."""
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
        """Return the columns of texts, none of which is null; None if Spark has to read them."""
        # Each text begins and ends like an object, and no line break may occur in it, so none continues in the next
        # one.
        is_object = pc.and_(pc.starts_with(texts, b"{"), pc.ends_with(texts, b"}"))
        if not pc.all(is_object).as_py() or _is_extreme(texts):
            return None
        data = lines(texts).to_pybytes()
        if (b"Inf" in data or b"-NaN" in data) and _NO_NUMBER.search(data):  # checked first because it is fast
            return None
        try:
            table = arrow_json.read_json(
                pa.BufferReader(data),
                arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                arrow_json.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore"),
            )
            table.validate(full=True)  # Spark reads bytes that are not text as U+FFFD
        except pa.ArrowException:
            return None
        is_as_spark_has_it = table.num_rows == len(texts) and all(map(_is_plain, table.columns))
        return table.select(self._schema.names) if is_as_spark_has_it else None


def _is_plain(column: pa.ChunkedArray) -> bool:
    """Return whether both parsers read all numbers alike: Spark reads `-0` as 0, and `NaN` as a name."""
    if not pa.types.is_floating(column.type):
        return True
    if not pc.all(pc.is_finite(column), min_count=0).as_py():
        return False
    zeros = column.filter(pc.equal(column, _ZERO))
    return bool(pc.all(pc.greater(pc.divide(_WHOLE, zeros), _ZERO), min_count=0).as_py())


def _is_extreme(texts: pa.Array) -> bool:
    """Return whether a text may be deeper, or have a longer number, name or text, than Spark's parser accepts."""
    longest = pc.max(pc.binary_length(texts)).as_py()
    if not _LONG_BYTES < longest <= _VERY_LONG_BYTES:
        return bool(longest > _VERY_LONG_BYTES)
    depths = pc.add(pc.count_substring(texts, b"{"), pc.count_substring(texts, b"["))
    if pc.max(depths).as_py() > _DEEP:
        return True
    return bool(pc.any(pc.match_substring_regex(texts, b"[0-9.eE+-]{%d}" % _DIGITS)).as_py())


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


class PayloadColumns:
    """Converts many batches."""

    def __init__(self, exact: T.StructType | None, parsed: Mapping[str, str] | None) -> None:
        """Check the values of columns in `exact`; let Arrow make those of `parsed`, if any.

        The last of `parsed` is null in all rows.
        """
        self._exact = None if exact is None else ExactColumns(exact)
        self._arrow = None
        if parsed is not None:
            *own, empty = parsed
            self._arrow = JsonColumns({name: parsed[name] for name in own}, empty)

    def made(self, batch: Any) -> Any:
        """Return a batch; `value` is null if MISFIT_REASON has a reason, or PARSED, the last column, has the value."""
        texts = batch["value"]
        left, structs = (texts, None) if self._arrow is None else self._arrow.parsed(texts)
        changed = {"value": left}
        if self._exact is not None:
            seen, reasons = self._seen(self._exact, texts, batch[MISFIT_REASON], is_parsed=left.null_count == len(left))
            if seen is not None:
                changed[MISFIT_REASON] = reasons
                if left.null_count == len(left):
                    structs = structs if structs is None else pc.if_else(pc.is_null(reasons), structs, None)
                else:
                    changed["value"] = seen
        arrays = [changed.get(name, batch[name]) for name in batch.schema.names]
        if self._arrow is None:
            return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
        return pa.RecordBatch.from_arrays(
            [*arrays, structs], schema=batch.schema.append(pa.field(PARSED, self._arrow.type))
        )

    def _seen(self, exact: ExactColumns, texts: Any, known: Any, *, is_parsed: bool) -> tuple[Any, Any]:
        """Return the texts for Spark, and the reasons why others do not fit; None instead of reasons if all fit."""
        is_asked = not is_parsed and exact.is_for_all
        if not is_asked and not (exact.is_for_long_numbers and has_long_numbers(bytes(bytes_of(texts)))):
            return None, known
        seen: list[bytes | None] = []
        reasons: list[str | None] = known.to_pylist()
        for place, text in enumerate(texts.cast(pa.binary()).to_pylist()):
            try:
                seen.append(None if text is None else exact.exact(text))
            except Exception as error:  # else one record would end every attempt to read the epoch
                seen.append(None)
                reasons[place] = reason_of(error)
        return pa.array(seen, pa.binary()).view(texts.type), pa.array(reasons, pa.string())
