"""Which ranges of a table are read next: those whose rows are all visible."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from fencepost.api import ConfigError, Split
from fencepost.builtin.connector.jdbc.database import Column, Database
from fencepost.builtin.connector.jdbc.order import INCREMENTING, TIMESTAMP, Order, Place, place_fault
from fencepost.builtin.connector.jdbc.relation import Relation
from fencepost.builtin.connector.jdbc.settings import BOTH, BULK, IDS, TIMES, RangeSettings
from fencepost.builtin.connector.jdbc.settled import Settled
from fencepost.builtin.connector.jdbc.table import Table

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
