"""Which ranges of a table, or of a query, are read next: those whose rows are all visible.

Ids and timestamps are taken before a transaction commits, so rows become visible in another order than theirs. A place
that was the newest one at some moment is complete once all transactions of that moment have ended: later ones take
larger ids and timestamps. Where a database does not show its transactions, time takes their place.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar
from zoneinfo import ZoneInfo

from fencepost.api import ConfigError, Split
from fencepost.builtin.connector.jdbc.database import Column, Database
from fencepost.builtin.connector.jdbc.settings import BOTH, BULK, IDS, TIMES, RangeSettings, Relation

TIMESTAMP, INCREMENTING = "timestamp", "incrementing"
"""The keys of a source offset, as those of Confluent's connector."""

Place = Mapping[str, Any]
"""A source offset: the last row of a range, by its timestamp (text), its id (a whole number), or both."""


@dataclass(frozen=True)
class Order:
    """By which columns rows are read. Both are expressions of SQL; `literal` encloses the text of a timestamp.

    `text` is the expression of that text.

    With both, the id decides among rows of the same timestamp.
    """

    timestamp: str | None = None
    id: str | None = None
    literal: str = "{}"
    text: str = "{}"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for column in (self.timestamp, self.id) if column is not None)

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the expressions of what a place has."""
        return tuple(self.text.format(c) if c == self.timestamp else c for c in self.columns)

    def after(self, place: Place | None) -> str:
        """Return the condition of the rows after a place; None: of all that have one."""
        if place is None:
            return " AND ".join(f"{column} IS NOT NULL" for column in self.columns)
        return self._beyond(place, ">")

    def up_to(self, place: Place) -> str:
        """Return the condition of the rows up to a place, that place included."""
        return self._beyond(place, "<")

    def _beyond(self, place: Place, sign: str) -> str:
        equal = "=" if sign == "<" else ""
        number = place.get(INCREMENTING)
        if self.timestamp is None:
            return f"{self.id} {sign}{equal} {int(number or 0)}"
        time = self.literal.format(place[TIMESTAMP])
        if self.id is None:
            return f"{self.timestamp} {sign}{equal} {time}"
        if number is None:
            return f"{self.timestamp} {sign}{equal} {time} AND {self.id} IS NOT NULL"
        ties = f"{self.timestamp} = {time} AND {self.id} {sign}{equal} {int(number)}"
        return f"({self.timestamp} {sign} {time} AND {self.id} IS NOT NULL OR {ties})"


def place_fault(place: Place, *, has_time: bool, has_id: bool) -> str | None:
    """Return why an offset is no place in an order by these columns; None if it is one.

    With a timestamp alone, all rows that have it are before the place.
    """
    known = {name for name, has in ((TIMESTAMP, has_time), (INCREMENTING, has_id)) if has}
    if unknown := sorted(set(place) - known):
        return f"'{unknown[0]}' has no meaning in this mode"
    if has_time and not (isinstance(time := place.get(TIMESTAMP), str) and _TIME.fullmatch(time)):
        return f"'{TIMESTAMP}' must be text such as 2026-11-29 19:00:00.123456"
    number = place.get(INCREMENTING)
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if has_id and not is_whole and (number is not None or not has_time):
        return f"'{INCREMENTING}' must be a whole number"
    return None


_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?")


Ask = Callable[[str], Sequence[tuple[Any, ...]]]
"""Returns the rows of a query: timestamps as text, ids as whole numbers."""


@dataclass(frozen=True)
class Table:
    """`relation`: what follows FROM. `has_limit`: LIMIT and OFFSET instead of the standard's FETCH."""

    relation: str
    order: Order
    ask: Ask
    has_limit: bool = True

    def newest_id(self) -> int | None:
        """Return the largest visible id; None without rows."""
        found = self.ask(f"SELECT MAX({self.order.id}) FROM {self.relation}")[0][0]
        return None if found is None else int(found)

    def end_of_sequence(self, after: int, most: int) -> int:
        """Return the last id of the unbroken sequence that follows an id, of `most` ids at most.

        All of its rows are visible. Ids are unique, so no other row can appear among them.
        """
        id_, beyond = self.order.id, self.condition({INCREMENTING: after}, {INCREMENTING: after + most})
        first = self.ask(f"SELECT MIN({id_}) FROM {self.relation} WHERE {beyond}")[0][0]
        if first is None or int(first) != after + 1:
            return after
        pairs = f"SELECT {id_} AS one, LEAD({id_}) OVER (ORDER BY {id_}) AS other FROM {self.relation} WHERE {beyond}"
        last = self.ask(f"SELECT MIN(one) FROM ({pairs}) pairs WHERE other IS NULL OR other > one + 1")[0][0]
        return int(last)

    def ranges(self, after: Place | None, complete: Place, most_rows: int) -> Iterator[tuple[Place | None, Place]]:
        """Yield ranges (from, to] of about `most_rows` rows. All rows that have the last one's place are in a range."""
        while (end := self._end(after, complete, most_rows)) is not None:
            yield after, end
            after = end

    def condition(self, after: Place | None, end: Place) -> str:
        """Return the condition of the rows of a range."""
        return f"{self.order.after(after)} AND {self.order.up_to(end)}"

    def _end(self, after: Place | None, complete: Place, most_rows: int) -> Place | None:
        columns = self.order.columns
        chosen = f"SELECT {', '.join(self.order.shown)} FROM {self.relation} WHERE {self.condition(after, complete)}"
        descending = ", ".join(f"{column} DESC" for column in columns)
        full = self.ask(f"{chosen} ORDER BY {', '.join(columns)} {self._one_row(most_rows - 1)}")
        found = full or self.ask(f"{chosen} ORDER BY {descending} {self._one_row(0)}")
        return self._place(found[0]) if found else None

    def _one_row(self, skipped: int) -> str:
        if self.has_limit:
            return f"LIMIT 1 OFFSET {skipped}"
        return f"OFFSET {skipped} ROWS FETCH NEXT 1 ROWS ONLY"

    def _place(self, row: tuple[Any, ...]) -> Place:
        place: dict[str, Any] = {} if self.order.timestamp is None else {TIMESTAMP: str(row[0])}
        return place if self.order.id is None else {**place, INCREMENTING: int(row[-1])}


class _Ordered(Protocol):
    def __gt__(self, other: "_Ordered", /) -> bool: ...


NewestT = TypeVar("NewestT", bound=_Ordered)
_MOST = 100


@dataclass(frozen=True)
class _Sighting(Generic[NewestT]):
    """`newest` was the newest place at `at_s`; of the transactions of that moment these are still open."""

    newest: NewestT
    at_s: float
    open: frozenset[str]


class Settled(Generic[NewestT]):
    """What is known of one table. It is forgotten at a restart, which only lets its rows wait again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds that never go back."""
        self._clock = clock
        self._sightings: list[_Sighting[NewestT]] = []
        self._place: NewestT | None = None

    def up_to(self, newest: NewestT, open_now: frozenset[str], delay_s: float) -> NewestT | None:
        """Return the place up to which the table is complete for whoever reads it from now on; None: nothing is.

        `newest` is read before `open_now`, the transactions that are open. They may be unknown, and so empty, if every
        transaction ends within `delay_s` of taking an id.
        """
        now_s = self._clock()
        known = [_Sighting(each.newest, each.at_s, each.open & open_now) for each in self._sightings]
        if len(known) < _MOST and (not known or newest > known[-1].newest):
            known.append(_Sighting(newest, now_s, open_now))
        self._sightings = [each for each in known if each.open or now_s - each.at_s < delay_s]
        for each in known:
            if each not in self._sightings and (self._place is None or each.newest > self._place):
                self._place = each.newest
        return self._place

    def waits_s(self) -> float:
        """Return for how long the oldest place has not been complete."""
        return self._clock() - self._sightings[0].at_s if self._sightings else 0.0


LOAD, AT = "load", "at"
_AHEAD = 16
"""How many ranges of a table are planned at once."""
_DELAY_MS = 10_000
_CLOCK_S = 1
"""How much older than the clock a timestamp may be that is yet to come: it may be rounded, and is taken before."""
_LONG_S = 300.0
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Columns:
    """The columns that order a relation's rows: timestamps, of which the first that is not null counts, and an id.

    `local`: the timestamps that are in `db.timezone`, whether they order rows or not.
    """

    times: Sequence[Column]
    id: Column | None
    local: Sequence[str]


class Planner:
    """Plans the splits of relations, one after the other. It remembers what it has seen of each."""

    def __init__(self, settings: RangeSettings, zone: str, poll_interval_ms: int) -> None:
        """`zone`: the time zone of timestamps that have none."""
        self._settings = settings
        self._mode = settings.mode.lower()
        self._zone = ZoneInfo(zone)
        self._interval_ms = poll_interval_ms
        self._settled: dict[str, Settled[Any]] = {}
        self._logged: set[str] = set()

    def fault(self, place: Place) -> str | None:
        """Return why an offset is no place in this mode; None if it is one."""
        if self._mode != BULK:
            return place_fault(place, has_time=TIMES in self._mode, has_id=self._mode != TIMES)
        is_load = place.keys() == {LOAD, AT} and all(isinstance(each, int) for each in place.values())
        return None if is_load else f"it must have '{LOAD}' and '{AT}', whole numbers"

    def splits(self, database: Database, relation: Relation, after: Place | None) -> list[Split]:
        """Return the complete ranges after a committed place. Raises ConfigError and DatabaseError."""
        if after is not None and (fault := self.fault(after)) is not None:
            raise ConfigError(
                f"mode={self._mode} cannot continue {relation.name} at {dict(after)}: {fault}. Restore the mode, or "
                "set the offset (PATCH /connectors/NAME/offsets)"
            )
        columns = self._columns(database, relation)
        if self._mode == BULK:
            return self._load(relation, after, columns)
        initial_ms = self._settings.initial_ms
        if after is None and initial_ms is not None:  # it is committed, so that it stays the same
            at_s = database.now_s(time.time()) if initial_ms < 0 else Decimal(initial_ms) / 1000
            place = {TIMESTAMP: self._text(database, at_s, columns)}
            return [_split(relation, "1 = 0", columns, None, place, size_bytes=0)]
        table = self._table(database, relation, columns)
        complete = self._complete(database, relation, table, after, columns)
        if complete is None:
            return []
        found = []
        for start, end in islice(table.ranges(after, complete, self._settings.rows_max), _AHEAD):
            if (fault := self.fault(end)) is not None:
                raise ConfigError(f"{relation.name} has a row at {dict(end)}: {fault}. Leave such rows out by query")
            found.append(_split(relation, table.condition(start, end), columns, start, end))
        return found

    def _load(self, relation: Relation, after: Place | None, columns: Columns) -> list[Split]:
        now_ms, number = int(time.time() * 1000), 0
        if after is not None:
            number = after[LOAD]
            if now_ms < after[AT] + self._interval_ms:
                return []
        return [_split(relation, "1 = 1", columns, after, {LOAD: number + 1, AT: now_ms})]

    def _complete(
        self, database: Database, relation: Relation, table: Table, after: Place | None, columns: Columns
    ) -> Place | None:
        """Return the place up to which all rows are visible that will ever be there; None: nothing new is.

        What is newest is read before the transactions that are open (see `Settled`).
        """
        own, settled = self._settings, self._settled.setdefault(relation.name, Settled(time.monotonic))
        if self._mode == IDS:
            newest = table.newest_id()
            before = None if after is None else int(after[INCREMENTING])
            if newest is None or (before is not None and newest <= before):
                return None
            open_now = database.open_transactions()
            usual_ms = _DELAY_MS if open_now is None and not database.dialect.is_sqlite else 0
            delay_ms = usual_ms if own.id_delay_ms is None else own.id_delay_ms
            last = settled.up_to(newest, open_now or frozenset(), delay_ms / 1000)
            self._log_waiting(relation, settled, open_now)
            known = [each for each in (last, before) if each is not None]
            return {INCREMENTING: table.end_of_sequence(max(known), own.rows_max * _AHEAD)} if known else None
        now_s = database.now_s(time.time()) - _CLOCK_S
        open_now = database.open_transactions()
        usual_ms = _DELAY_MS if open_now is None else 0
        now_s -= Decimal(usual_ms if own.time_delay_ms is None else own.time_delay_ms) / 1000
        moment = now_s if open_now is None else settled.up_to(now_s, open_now, 0.0)
        self._log_waiting(relation, settled, open_now)
        return None if moment is None else {TIMESTAMP: self._text(database, moment, columns)}

    def _log_waiting(self, relation: Relation, settled: Settled[Any], open_now: frozenset[str] | None) -> None:
        if not open_now or settled.waits_s() <= _LONG_S:
            self._logged.discard(relation.name)
        elif relation.name not in self._logged:
            self._logged.add(relation.name)
            log.warning(
                "rows of %s wait for transactions that have been open for minutes, which may add rows before them: end "
                "those that are forgotten", relation.name,
            )  # fmt: skip

    def _columns(self, database: Database, relation: Relation) -> Columns:
        known = {column.name.lower(): column for column in database.columns(relation.sql)}
        times, own = [], None
        if TIMES in self._mode:
            key = RangeSettings.key_of("time_columns")
            times = [_named(known, name, relation, key) for name in self._settings.time_columns]
            are_alike = all(each.is_timestamp for each in times) and len({each.has_zone for each in times}) == 1
            if not (are_alike or database.dialect.is_sqlite):
                raise ConfigError(f"{key}={times[0].name}: in {relation.name} it is not, or not all are, timestamps")
            if all(each.may_be_null for each in times):
                self._refuse_null(key, times[0], relation)
        if self._mode in (IDS, BOTH):
            key = RangeSettings.key_of("id_column")
            own = self._id(known, relation, key)
            if own.may_be_null and not own.is_automatic:
                self._refuse_null(key, own, relation)
        local = [column.name for column in known.values() if column.is_timestamp and not column.has_zone]
        return Columns(times, own, local)

    def _id(self, known: Mapping[str, Column], relation: Relation, key: str) -> Column:
        if self._settings.id_column:
            return _named(known, self._settings.id_column, relation, key)
        filled = [column for column in known.values() if column.is_automatic]
        if len(filled) != 1:
            raise ConfigError(f"{key} is missing: {relation.name} has {len(filled)} columns that the database fills")
        return filled[0]

    def _refuse_null(self, key: str, column: Column, relation: Relation) -> None:
        if self._settings.checks_null:
            raise ConfigError(
                f"{key}={column.name}: this column of {relation.name} may be null, and such rows would never be read. "
                f"Make it NOT NULL, or set {RangeSettings.key_of('checks_null')}=false"
            )

    def _table(self, database: Database, relation: Relation, columns: Columns) -> Table:
        names = [database.quoted(each.name) for each in columns.times]
        first = f"COALESCE({', '.join(names)})" if names[1:] else next(iter(names), None)
        own = None if columns.id is None else database.quoted(columns.id.name)
        literal = database.dialect.literal(has_zone=_has_zone(columns))
        order = Order(first, own, literal, database.dialect.text_of_time)
        return Table(relation.sql, order, database.rows, database.dialect.has_limit)

    def _text(self, database: Database, at_s: Decimal, columns: Columns) -> str:
        """Return seconds since 1970 as a value of the timestamps."""
        has_zone = _has_zone(columns)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(at_s * 1_000_000))
        local = moment.astimezone(UTC if has_zone else self._zone).replace(tzinfo=None)
        text = local.isoformat(sep=" ", timespec="microseconds")
        return f"{text}Z" if has_zone and database.dialect.shows_zone else text


def _has_zone(columns: Columns) -> bool:
    return any(each.has_zone for each in columns.times)


def _named(known: Mapping[str, Column], name: str, relation: Relation, key: str) -> Column:
    found = known.get(name.lower())
    if found is None:
        raise ConfigError(f"{key}={name}: {relation.name} has no such column; leave it out by table.blacklist")
    return found


def _split(
    relation: Relation,
    condition: str,
    columns: Columns,
    after: Place | None,
    place: Place,
    size_bytes: int | None = None,
) -> Split:
    times, own = [each.name for each in columns.times], columns.id
    hint = {
        "relation": relation.sql,
        "condition": condition,
        "times": times,
        "id": own and own.name,
        "local": columns.local,
    }
    return Split(
        relation.partition,
        (),
        False,
        size_bytes,
        hint,
        offset=dict(place),
        after=after and dict(after),
        topic=relation.topic,
    )
