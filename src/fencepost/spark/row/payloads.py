"""Extracts plain JSON texts from values with a schema, on executors, before Spark or Arrow parse them."""

import json
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812

from fencepost.spark.row.kafka_columns import MISFIT_REASON, READ
from fencepost.spark.row.payload_form import Form, Forms
from fencepost.spark.row.payload_text import UNWRITABLE, MisfitError, digits_of, reason_of

_SCHEMA, _PAYLOAD = "schema", "payload"
_BEFORE, _BETWEEN, _AFTER = b'{"schema":', b',"payload":', b"}"
_KNOWN_MAX = 1_000
_LONGEST_INT = 18  # orjson writes all of this many digits


def payload_option(columns: T.StructType, *, has_schemas: bool, is_null_replaced: bool) -> str:
    """Return the option that describes values and their columns to executors."""
    fields = {"columns": columns.jsonValue(), "has_schemas": has_schemas, "is_null_replaced": is_null_replaced}
    return orjson.dumps(fields).decode()


def columns_in_option(option: str) -> T.StructType:
    """Return the columns in an option that `payload_option` made."""
    return T.StructType.fromJson(orjson.loads(option)["columns"])


def with_payloads(batches: Iterator[Any], option: str, *, keeps_read: bool) -> Iterator[Any]:
    """Yield batches with the payload in the column `value`, a column MISFIT_REASON, and READ if it is kept.

    Values without schemas are their own payloads.
    """
    fields = orjson.loads(option)
    payloads = Payloads(columns_in_option(option), is_null_replaced=fields["is_null_replaced"])
    for batch in batches:
        values = batch["value"]
        texts, reasons = (
            payloads.taken(values) if fields["has_schemas"] else (values, pa.nulls(len(values), pa.string()))
        )
        made = {name: texts if name == "value" else batch[name] for name in batch.schema.names}
        made[MISFIT_REASON] = reasons
        if keeps_read:
            made[READ] = batch["value"].cast(pa.binary())
        yield pa.RecordBatch.from_pydict(made)


class Payloads:
    """Extracts payloads from many batches of envelopes.

    If all envelopes with one schema begin alike, as those of one writer do, the schema is parsed once.
    """

    def __init__(self, columns: T.StructType, *, is_null_replaced: bool) -> None:
        self._columns = columns
        self._forms = Forms(is_null_replaced=is_null_replaced)
        self._known: dict[bytes, Form | None] = {}

    def taken(self, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the payloads as text, and why others do not fit; each is in its place, or null."""
        texts: list[bytes | None] = []
        reasons: list[str | None] = []
        for raw in values.cast(pa.binary()).to_pylist():
            text = reason = None
            try:
                text = None if raw is None else self._payload(raw)
            except Exception as error:  # else one record would end every attempt to read the epoch
                reason = reason_of(error)
            texts.append(text)
            reasons.append(reason)
        return pa.array(texts, pa.binary()).view(pa.string()), pa.array(reasons, pa.string())

    def _payload(self, raw: bytes) -> bytes | None:
        end = raw.find(_BETWEEN)
        head = raw[:end]
        if end > 0 and head in self._known and raw.endswith(_AFTER):
            try:
                return _written(self._known[head], raw[end + len(_BETWEEN) : -len(_AFTER)])
            except (ValueError, RecursionError) as error:
                if isinstance(error, MisfitError):
                    raise  # else it is not JSON, or more follows; parsing the whole value finds out
        return self._of_whole(raw, head)

    def _of_whole(self, raw: bytes, head: bytes) -> bytes | None:
        parsed = _parsed(raw)
        if not isinstance(parsed, dict) or _PAYLOAD not in parsed:
            raise MisfitError("", 'it has no envelope of "schema" and "payload"')
        schema = parsed.get(_SCHEMA)
        form = None if schema is None else self._forms.of(schema, self._columns)
        if _is_envelope(raw, head):
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[head] = form
        return _dumped(form, parsed[_PAYLOAD])


def _written(form: Form | None, payload: bytes) -> bytes | None:
    """Return a payload in its form. Raises ValueError if it is not JSON by itself."""
    if form is not None:
        return _dumped(form, _loads(payload))
    return _ensured(orjson.loads(payload), payload)


def _dumped(form: Form | None, value: Any) -> bytes | None:
    try:
        made = value if form is None else form(value)
        return _ensured(made, orjson.dumps(made, default=_digits))
    except (orjson.JSONEncodeError, RecursionError):
        raise MisfitError("", UNWRITABLE) from None


def _ensured(value: Any, text: bytes) -> bytes | None:
    """Return the text of a value with columns; None for a null."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise MisfitError("", "it is not an object, and value.schema names columns")
    return text


def _is_envelope(raw: bytes, head: bytes) -> bool:
    """Return whether a value is the schema of `head`, a payload, and nothing else: only then is that its schema."""
    parts = (head[len(_BEFORE) :], raw[len(head) + len(_BETWEEN) : -len(_AFTER)])
    return head.startswith(_BEFORE) and raw.endswith(_AFTER) and all(map(_is_json, parts))


def _parsed(raw: bytes) -> Any:
    try:
        return _loads(raw)
    except MisfitError:
        raise
    except (ValueError, RecursionError):
        raise MisfitError("", "the value is not JSON") from None


def _is_json(text: bytes) -> bool:
    try:
        _loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _loads(text: bytes) -> Any:
    """Parse JSON; numbers that Python or orjson would change stay text."""
    try:
        return _DECODER.decode(text.decode())
    except InvalidOperation:
        raise MisfitError("", "it has a number whose exponent is too large") from None


def _int(text: str) -> int | Decimal:
    return int(text) if len(text) <= _LONGEST_INT else Decimal(text)


def _digits(value: object) -> orjson.Fragment:
    if isinstance(value, Decimal):
        return orjson.Fragment(digits_of(value))
    raise TypeError(f"a {type(value).__name__} came out of JSON")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_int=_int, parse_constant=Decimal)
