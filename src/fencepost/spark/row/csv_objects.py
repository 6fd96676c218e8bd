"""Lines of CSV as JSON objects, identical to the output of Spark's CSV source and `to_json`, for plain lines only.

Lines come as blocks of bytes: from lines that Spark has read, or from files that executors open themselves. A block
consists of whole lines of one file; each ends with a line feed, except perhaps the last. Arrow cuts the lines, with all
columns as text, and joins them again. If Spark might read a line differently from Arrow, all lines are left to Spark
(docs/decisions/0055).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import orjson

from fencepost.builtin.converter.json_arrow import ESCAPE, FIRST_PRINTABLE, NULL, QUOTE, quoted
from fencepost.builtin.converter.json_encoding import dumped_all
from fencepost.record.binary_column import bytes_of, constant

VALUE_COLUMN = "value"
LINE_END, _RETURN = b"\n", b"\r"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_READ_BYTES = 1 << 20
_LONGEST_LINE_BYTES = 64 << 20

Block = tuple[str | None, bytes]
"""The name of a file (`mark`; None if there is only one), and some of its lines."""


class LeftToSparkError(Exception):
    """The lines are not plain: Spark has to read them."""


def blocks_of_lines(batches: Iterable[Any], mark: str) -> Iterator[Block]:
    """Yield the lines of Arrow batches with one line per row in `value`."""
    for batch in batches:
        lines = batch.column(VALUE_COLUMN)
        if mark not in batch.schema.names:
            if batch.num_rows:
                yield None, _together(lines)
            continue
        start = 0
        for file, run in groupby(batch.column(mark).to_pylist()):
            count = sum(1 for _ in run)
            yield file, _together(lines.slice(start, count))
            start += count


def _together(lines: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines.cast(pa.binary()))
    return bytes(memoryview(bytes_of(pc.binary_join(whole, constant(LINE_END)))))


def blocks_of_files(
    batches: Iterable[Any], mark: str, read_bytes: int = _READ_BYTES, longest_line_bytes: int = _LONGEST_LINE_BYTES
) -> Iterator[Block]:
    """Yield the lines of the files whose paths Arrow batches have in `value`. Raises OSError, LeftToSparkError."""
    for batch in batches:
        marks = batch.column(mark).to_pylist() if mark in batch.schema.names else [None] * batch.num_rows
        for path, file in zip(batch.column(VALUE_COLUMN).to_pylist(), marks, strict=True):
            for block in _blocks_of(path, read_bytes, longest_line_bytes):
                yield file, block


def _blocks_of(path: str, read_bytes: int, longest_line_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a file, with line feeds instead of other line ends, and without a byte order mark."""
    rest, is_first = b"", True
    with open(path, "rb", buffering=0) as file:
        while read := file.read(read_bytes):
            lines, end, begun = read.rpartition(LINE_END)
            if end:
                yield _plain(rest + lines + end, is_first=is_first)
                rest, is_first = begun, False
            else:
                rest += read
            if len(rest) > longest_line_bytes:
                raise LeftToSparkError("lines are very long")
    if rest:
        yield _plain(rest, is_first=is_first)


def _plain(lines: bytes, *, is_first: bool) -> bytes:
    if is_first:
        lines = lines.removeprefix(BYTE_ORDER_MARK)
    if _RETURN in lines:
        lines = lines.replace(_RETURN + LINE_END, LINE_END)
        if _RETURN in lines:
            raise LeftToSparkError("there are carriage returns without line feeds")
    return lines


_TAB = b"\t"
_BLANKS = (b" ", _TAB)
_TRIMMED = bytes(range(FIRST_PRINTABLE + 1))  # the characters of a line that Java calls blank
_OF_NUMBERS = b"0123456789-"
_BLANK_LINE = re.compile(rb"^[ \t]+$", re.MULTILINE)
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class CsvForm:
    """How lines become objects.

    `names`: the columns, at least two. `bits`: for each column, 8, 16, 32 or 64 for a whole number, 0 for text.
    `header`: the first line of each file; None if that is a record, "" for any header. An object is written between
    `before` and `after`. `is_of_files`: the executor opens the files that the lines are in.
    """

    names: tuple[str, ...]
    bits: tuple[int, ...]
    separator: str
    null_value: str
    header: str | None
    before: str = ""
    after: str = ""
    is_of_files: bool = False

    def encoded(self) -> str:
        return orjson.dumps(asdict(self)).decode()

    @classmethod
    def decoded(cls, text: str) -> "CsvForm":
        found = orjson.loads(text)
        return cls(**{**found, "names": tuple(found["names"]), "bits": tuple(found["bits"])})


def with_objects(batches: Iterable[Any], form: CsvForm, mark: str) -> Iterator[Any]:
    """Yield the objects of Arrow batches of lines, or of files, as batches of the same columns.

    `value` has a line in each row, or the path of a file. The column `mark`, if present, names the file of a line:
    files follow one another, each complete. Raises LeftToSparkError.
    """
    import pyarrow as pa

    blocks = blocks_of_files if form.is_of_files else blocks_of_lines
    last: str | None = ""  # no file has this name
    for file, block in blocks(batches, mark):
        lines = block
        if form.header is not None and file != last:
            first, _, lines = block.partition(LINE_END)
            if not first.strip(_TRIMMED) or form.header.encode() not in (b"", first):
                raise LeftToSparkError("the first line is not the header that Spark has seen")
        last = file
        written = objects(lines, form)
        columns = {VALUE_COLUMN: written}
        if file is not None:
            columns[mark] = pa.repeat(pa.scalar(file, pa.string()), len(written))
        if len(written):
            yield pa.RecordBatch.from_pydict(columns)


def objects(lines: bytes, form: CsvForm) -> Any:
    """Return the objects as an Arrow array of bytes, one for each line that is not empty. Raises LeftToSparkError."""
    import pyarrow as pa

    if not lines.strip(LINE_END):
        return pa.array([], pa.binary())
    _check_bytes(lines, form.separator.encode())
    columns = [column.combine_chunks() for column in _cut(lines, form).columns]
    for name, bits, column in zip(form.names, form.bits, columns, strict=True):
        if bits:
            _check_numbers(name, bits, column)
    return _joined(columns, form, is_escaped=ESCAPE in lines)


def _check_bytes(lines: bytes, separator: bytes) -> None:
    """Check that lines are UTF-8, have no quotes and no control characters except the separator, and are not blank.

    Spark skips blank lines. If the separator does not occur, a line has one column here, and is refused for that.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if QUOTE in lines:
        raise LeftToSparkError("there are quotes")
    each = pa.Array.from_buffers(pa.uint8(), len(lines), [None, pa.py_buffer(lines)])
    below = pc.sum(pc.less(each, FIRST_PRINTABLE)).as_py()
    if below != lines.count(LINE_END) + (lines.count(_TAB) if separator == _TAB else 0):
        raise LeftToSparkError("there are control characters")
    if lines.startswith(BYTE_ORDER_MARK):
        raise LeftToSparkError("there is a byte order mark")
    if not _is_utf8(lines):
        raise LeftToSparkError("there is text that is not UTF-8")
    if separator in _BLANKS and _BLANK_LINE.search(lines):
        raise LeftToSparkError("there are blank lines")


def _cut(lines: bytes, form: CsvForm) -> Any:
    """Return a table of texts, with null for the texts that Spark reads as null."""
    import pyarrow as pa
    from pyarrow import csv

    if len(lines) > _MOST_BYTES:
        raise LeftToSparkError("lines are very long")
    try:
        return csv.read_csv(
            pa.BufferReader(lines),
            csv.ReadOptions(use_threads=False, block_size=len(lines) + 1, column_names=list(form.names)),
            csv.ParseOptions(delimiter=form.separator, quote_char=False, escape_char=False, ignore_empty_lines=True),
            csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(form.names, pa.string()),
                null_values=["", form.null_value],
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid as error:
        raise LeftToSparkError(f"a line does not have {len(form.names)} columns") from error


def _check_numbers(name: str, bits: int, column: Any) -> None:
    """Check that texts are whole numbers in their normal form, so that Spark's output equals the text.

    No text of digits and minus signs is shorter than the normal form of its number. So none is longer if the total
    length equals the total length of the normal forms. Arrow also reads hexadecimal numbers.
    """
    import pyarrow as pa

    text = bytes(memoryview(bytes_of(column)))
    try:
        numbers = None if text.translate(None, _OF_NUMBERS) else column.cast(f"int{bits}")
    except pa.ArrowInvalid:
        numbers = None
    if numbers is None or _length_of_all(numbers) != len(text):
        raise LeftToSparkError(f"column {name} has values that are not plain whole numbers")


def _length_of_all(numbers: Any) -> int:
    """Return the number of digits and minus signs of an array of whole numbers; this is cheaper than writing them."""
    import pyarrow.compute as pc

    lowest, highest = (bound.as_py() for bound in pc.min_max(numbers).values())
    if lowest is None:
        return 0
    count: int = len(numbers) - numbers.null_count
    if lowest < 0:
        count += pc.sum(pc.less(numbers, 0)).as_py()
    power = 10
    while power <= max(highest, -lowest):
        if power <= highest:
            count += pc.sum(pc.greater_equal(numbers, power)).as_py()
        if -power >= lowest:
            count += pc.sum(pc.less_equal(numbers, -power)).as_py()
        power *= 10
    return count


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _joined(columns: list[Any], form: CsvForm, *, is_escaped: bool) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    pieces: list[Any] = []
    before = form.before.encode() + b"{"
    for name, bits, column in zip(form.names, form.bits, columns, strict=True):
        before += orjson.dumps(name) + b":"
        if bits or is_escaped or column.null_count:
            pieces += constant(before), _written(column, is_number=bool(bits), is_escaped=is_escaped)
            before = b","
        else:  # the quotes belong to the separators
            pieces += constant(before + QUOTE), column.cast(pa.binary())
            before = QUOTE + b","
    end = before.removesuffix(b",") + b"}" + form.after.encode()
    return pc.binary_join_element_wise(*pieces, constant(end), constant(b""))


def _written(column: Any, *, is_number: bool, is_escaped: bool) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if is_number:
        return pc.fill_null(column.cast(pa.binary()), constant(NULL))
    if not is_escaped or ESCAPE not in bytes(memoryview(bytes_of(column))):
        return quoted(column)
    values = column.to_pylist()
    written = dumped_all(values)
    return pa.array(list(map(orjson.dumps, values)) if written is None else written, pa.binary())
