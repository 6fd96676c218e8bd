"""Whole columns through converters: those of one topic at a time, if they depend on the topic.

The methods of converters for columns are only called here, because a class may override a method for single values of
the class from which it inherits them.

A batch that cannot be processed as columns is divided, so that one unusual record does not make others slow.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from fencepost.api import Converter, HeaderConverter, UnavailableError
from fencepost.hook.batch_method import covers
from fencepost.record import HeaderBytes, HeaderColumn, Repeated, Schema, distinct, is_missing, picked

T = TypeVar("T")

_CONTRACT = (Converter, HeaderConverter)  # a class may be both
_FROM_ONE, _FROM_MANY = frozenset({"from_connect_data", "from_connect_record"}), frozenset({"from_column"})
_TO_ONE, _TO_MANY = frozenset({"to_connect_data", "to_connect_record"}), frozenset({"to_column"})
_FROM_HEADER, _FROM_HEADERS = frozenset({"from_connect_header"}), frozenset({"from_header_column"})
_TO_HEADER, _TO_HEADERS = frozenset({"to_connect_header"}), frozenset({"to_header_column"})

PART = 250
"""Records of a part. A part that cannot be columns is halved: few, as that takes its records twice through columns."""

MISSES = 4
"""After so many unusual records in a part, or so many parts full of them in a row, the others are not tried."""


def values_to_bytes(
    converter: Converter, schema: Schema | None, values: Sequence[Any]
) -> Sequence[bytes | None] | None:
    """Call `from_column`. Returns None if the result may differ from the class's conversion of single values."""
    if not covers(type(converter), _CONTRACT, _FROM_ONE, _FROM_MANY):
        return None
    if isinstance(values, Repeated):
        once = converter.from_column(schema, [values.value])
        return None if once is None else Repeated(once[0], len(values))
    return converter.from_column(schema, values)


def bytes_to_values(converter: Converter, column: Sequence[bytes | None]) -> tuple[Schema | None, Sequence[Any]] | None:
    """Call `to_column`. Returns None if the result may differ from the class's conversion of single values."""
    return converter.to_column(column) if covers(type(converter), _CONTRACT, _TO_ONE, _TO_MANY) else None


def headers_to_bytes(converter: HeaderConverter, headers: HeaderColumn) -> Sequence[Sequence[HeaderBytes]] | None:
    """Call `from_header_column`. Returns None if the result may differ from the class's conversion of one header."""
    is_same = covers(type(converter), _CONTRACT, _FROM_HEADER, _FROM_HEADERS)
    return converter.from_header_column(headers) if is_same else None


def bytes_to_headers(converter: HeaderConverter, headers: Sequence[Sequence[HeaderBytes]]) -> HeaderColumn | None:
    """Call `to_header_column`. Returns None if the result may differ from the class's conversion of one header."""
    is_same = covers(type(converter), _CONTRACT, _TO_HEADER, _TO_HEADERS)
    return converter.to_header_column(headers) if is_same else None


def topic_groups(topics: Sequence[str], *converters: Converter) -> list[Sequence[int]]:
    """Return the groups of records that the converters can convert at once: all, or the records of each topic."""
    names = sorted(distinct(topics))
    if all(each.for_topic(name) is each.for_topic(names[0]) for name in names[1:] for each in converters):
        return [range(len(topics))]
    places: dict[str, list[int]] = {name: [] for name in names}
    for index, topic in enumerate(topics):
        places[topic].append(index)
    return list(places.values())


def column_to_bytes(
    converter: Converter, topics: Sequence[str], schema: Schema | None, values: Sequence[Any]
) -> Sequence[bytes | None] | None:
    """Return the bytes of a column, or None if it must be converted record by record."""
    groups = topic_groups(topics, converter)
    if len(groups) == 1:
        return values_to_bytes(_for(converter, topics), schema, values)
    joined: list[bytes | None] = [None] * len(values)
    for group in groups:
        part = values_to_bytes(converter.for_topic(topics[group[0]]), schema, picked(values, group))
        if part is None:
            return None
        for index, data in zip(group, part, strict=True):
            joined[index] = data
    return joined


def column_to_connect(
    converter: Converter, topics: Sequence[str], column: Sequence[bytes | None]
) -> tuple[Schema | None, Sequence[Any]] | None:
    """Return the schema and values of a column of one of the `topic_groups`; one without values is read at once.

    Returns None if it must be converted record by record.
    """
    converter = _for(converter, topics)
    if not is_missing(column):
        return bytes_to_values(converter, column)
    read = bytes_to_values(converter, [None])
    return None if read is None else (read[0], Repeated(read[1][0], len(column)))


def unless_empty(column: Sequence[T]) -> Sequence[T] | None:
    """Return the column, or None if all its values are None or all its lists of headers are empty."""
    return None if isinstance(column, Repeated) and column.value in (None, ()) else column


def have_header_of(converters: Iterable[Converter], headers: Iterable[Sequence[tuple[Any, ...]]]) -> bool:
    """Say whether a record has a header that a converter reads or replaces, which it does record by record."""
    names = {name for each in converters for name in each.headers_read}
    return bool(names) and any(header[0] in names for pairs in headers for header in pairs)


def _for(converter: Converter, topics: Sequence[str]) -> Converter:
    return converter.for_topic(topics[0]) if len(topics) else converter


def in_parts(
    count: int,
    columns: Callable[[int, int], T | None],
    one_by_one: Callable[[int, int], T],
    *,
    is_divided: bool,
    is_away: bool = False,
) -> list[T]:
    """Return the results of a batch of `count` records that could not be processed as columns as a whole, in order.

    A part that cannot be columns is halved until the unusual record is alone. A part with many of them goes one by one,
    and the parts after it are not halved until one of them is columns as a whole.

    Both functions process the records from the first index up to before the second. `columns` returns None if it
    cannot, or raises UnavailableError; `one_by_one` always can, and waits for what is away: one record does, and no
    other columns are tried before. Each try could take as long as a registry is waited for that answers nothing. If it
    did not have to wait, a later record of the part does: halves lead to it, with few tries.

    Args:
        is_divided: False if there is no use in trying parts.
        is_away: The whole batch failed with UnavailableError.
    """
    division = _Division(columns, one_by_one)
    full = away_before = 0
    while is_divided and division.end < count and full < MISSES:
        start, stop = division.end, min(division.end + PART, count)
        if start < away_before:
            stop = (start + away_before + 1) // 2
        if is_away:
            division.add_one_by_one(start + 1)
            is_away = False
            continue
        try:
            if stop - start < count and division.adds_columns(stop):
                full = 0
            elif full:
                division.add_one_by_one(stop)
                full += 1
            else:
                full = int(division.adds_many(stop))
        except UnavailableError:
            is_away, away_before = True, stop
    if division.end < count:
        division.add_one_by_one(count)
    return division.found


class _Division(Generic[T]):
    """The results for the records before `end`."""

    def __init__(self, columns: Callable[[int, int], T | None], one_by_one: Callable[[int, int], T]) -> None:
        self.found: list[T] = []
        self.end = 0
        self._misses = 0
        self._columns = columns
        self._one_by_one = one_by_one

    def add_one_by_one(self, stop: int) -> None:
        self.found.append(self._one_by_one(self.end, stop))
        self.end = stop

    def adds_columns(self, stop: int) -> bool:
        """Add the records up to `stop` if they can be columns together."""
        part = self._columns(self.end, stop)
        if part is None:
            return False
        self.found.append(part)
        self.end = stop
        return True

    def adds_many(self, stop: int) -> bool:
        """Add the records up to `stop`, which cannot be columns together. Say whether many of them are unusual."""
        self._misses = 0
        self._halve(stop)
        return self._misses >= MISSES

    def _halve(self, stop: int) -> None:
        if stop - self.end == 1 or self._misses >= MISSES:
            self._misses += 1
            self.add_one_by_one(stop)
            return
        middle = (self.end + stop) // 2
        if self.adds_columns(middle):
            self._halve(stop)  # what is unusual must be in this half: it is not tried as a whole
            return
        self._halve(middle)
        if self._misses >= MISSES or not self.adds_columns(stop):
            self._halve(stop)
