"""Arrow tries to import a library for times for each constant without a type: none on the ways that many records go."""

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fencepost.builtin.connector.file_stream.lines import joined_lines, split_into_columns
from fencepost.kafka.codec.compress import Codec
from fencepost.kafka.codec.decode_columns import decoded_columns
from fencepost.kafka.codec.encode import encode_batch
from fencepost.kafka.codec.encode_header import BatchProducer
from fencepost.spark.row.json_columns import JsonColumns
from support.batch_records import rows_of
from support.slow_batch import PlainRecord

_OF_TIMES = "dateutil"


class Attempts(MetaPathFinder):
    """Notes what is looked for, and finds nothing."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        self.names.append(name)


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    finder = Attempts()
    monkeypatch.delitem(sys.modules, _OF_TIMES, raising=False)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    return finder.names


def lines() -> None:
    lines = split_into_columns(b"a\nb\nc\n")[0].lines
    joined_lines(lines.chunks[0])  # type: ignore[union-attr]


def batches() -> None:
    records = [PlainRecord(key, b"x" * size, 1_000 + size) for size in (1, 70, 200) for key in (None, b"k", b"k" * 70)]
    encoded = [b"".join(encode_batch(rows_of(records), Codec("none")).stamped(BatchProducer(), 0)) for _ in range(4)]
    decoded_columns([memoryview(batch) for batch in encoded])


def json() -> None:
    texts = pa.array(['{"n":1,"d":0.0,"s":"a"}', None, '{"n":2,"d":1.5}'], pa.string())
    left, _ = JsonColumns({"n": "int", "d": "double", "s": "string"}, "corrupt").parsed(texts)
    assert left.null_count == 3


@pytest.mark.parametrize("way", [lines, batches, json])
def test_arrow_constants_are_built_with_explicit_types(way: Callable[[], None], attempts: list[str]) -> None:
    way()
    assert _OF_TIMES not in attempts


def test_arrow_imports_a_time_library_for_an_untyped_constant(attempts: list[str]) -> None:
    """The test of the test above; once it asks no more, neither is needed."""
    pc.add(pa.array([1], pa.int64()), 1)
    assert _OF_TIMES in attempts
