"""Makes columns of the JSON texts of an epoch, on executors: Arrow's if possible, else texts that Spark reads
exactly.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T  # noqa: N812

from fencepost.spark.row.exact_json import ExactColumns, has_long_numbers
from fencepost.spark.row.json_columns import JsonColumns
from fencepost.spark.row.json_text import bytes_of
from fencepost.spark.row.kafka_columns import MISFIT_REASON, PARSED
from fencepost.spark.row.payload_text import reason_of


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
