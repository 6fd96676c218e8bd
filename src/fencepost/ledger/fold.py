"""The last row of each key of topics, in a file: bounded memory, and an audit that was stopped goes on where it was.

Of a row only hashes and the place of its record are kept. A file belongs to one audit of one connector.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from fencepost.builtin.postgres.audit.table import Row
from fencepost.record import TopicPartition

_CACHE_KIB = 128 << 10
_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -{cache};
PRAGMA temp_store = FILE;
CREATE TABLE IF NOT EXISTS rows (
    tab INTEGER, key TEXT, hash INTEGER, known INTEGER, part INTEGER, at INTEGER, lsn INTEGER, PRIMARY KEY (tab, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS places (part INTEGER PRIMARY KEY, topic TEXT, partition INTEGER, next INTEGER);
CREATE TABLE IF NOT EXISTS truncates (tab INTEGER PRIMARY KEY, lsn INTEGER);
CREATE TABLE IF NOT EXISTS audit (of TEXT);
CREATE TEMPORARY TABLE seen (key TEXT PRIMARY KEY) WITHOUT ROWID;
"""
UNSURE = 3
"""In place of `Known`: records of the key are in several partitions, so that the last one is not known."""


class Entry(NamedTuple):
    """The last row of a key."""

    key: str
    hash: int
    known: int
    part: int
    at: int


class Fold:
    """One file. For one thread."""

    def __init__(self, path: Path, of: str) -> None:
        """Open or create the file. `of` says what is audited: rows of anything else are dropped."""
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.executescript(_SCHEMA.format(cache=_CACHE_KIB))
        if self._db.execute("SELECT of FROM audit").fetchone() not in (None, (of,)):
            self._db.executescript("DELETE FROM rows; DELETE FROM places; DELETE FROM truncates; DELETE FROM audit")
        self._db.execute("INSERT INTO audit SELECT ? WHERE NOT EXISTS (SELECT 1 FROM audit)", (of,))

    def close(self) -> None:
        self._db.close()

    def next_offset(self, place: TopicPartition) -> int:
        """Return the offset up to which a partition was read."""
        found = self._db.execute("SELECT next FROM places WHERE topic = ? AND partition = ?", place).fetchone()
        return 0 if found is None else int(found[0])

    def place(self, part: int) -> TopicPartition:
        """Return the partition of an entry."""
        return TopicPartition(
            *self._db.execute("SELECT topic, partition FROM places WHERE part = ?", (part,)).fetchone()
        )

    def add(self, place: TopicPartition, table: int, next_offset: int, rows: Iterable[Row]) -> None:
        """Apply what records of a partition, up to before an offset, make of rows of a table.

        Partitions are read one after the other: changes from before a truncate may come after it.
        """
        part = self._part(place)
        truncated = self._db.execute("SELECT lsn FROM truncates WHERE tab = ?", (table,)).fetchone() or (0,)
        last = {row.key: row for row in rows if row.lsn >= truncated[0]}
        kept = [
            (table, row.key, row.hash, row.known, part, row.at, row.lsn)
            for row in last.values()
            if row.hash is not None
        ]
        gone = [(table, row.key, part) for row in last.values() if row.hash is None]
        self._db.execute("BEGIN")
        self._db.executemany(_UPSERT, sorted(kept))
        self._db.executemany(f"UPDATE rows SET known = {UNSURE} WHERE tab = ? AND key = ? AND part <> ?", gone)
        self._db.executemany(f"DELETE FROM rows WHERE tab = ? AND key = ? AND part = ? AND known <> {UNSURE}", gone)
        self._db.execute("UPDATE places SET next = max(next, ?) WHERE part = ?", (next_offset, part))
        self._db.execute("COMMIT")

    def truncate(self, table: int, lsn: int) -> None:
        """Delete the rows of a table whose changes come before a place in the log, also those that are added later."""
        self._db.execute("BEGIN")
        self._db.execute(
            "INSERT INTO truncates VALUES (?, ?) ON CONFLICT (tab) DO UPDATE SET lsn = max(lsn, excluded.lsn)",
            (table, lsn),
        )
        self._db.execute("DELETE FROM rows WHERE tab = ? AND lsn < ?", (table, lsn))
        self._db.execute("COMMIT")

    def sums(self, table: int, digits: int) -> Iterator[tuple[str, int, int, bool]]:
        """Yield the groups of a table: number of rows, sum of their hashes, and whether these can be compared."""
        query = (
            "SELECT substr(key, 1, ?), count(*), sum(hash & 1073741823), sum(hash >> 30), max(known IN (1, 3)) "
            "FROM rows WHERE tab = ? GROUP BY substr(key, 1, ?)"
        )
        for group, count, low, high, is_unsure in self._db.execute(query, (digits, table, digits)):
            yield group, count, low + (high << 30), not is_unsure

    def see(self, table: int, key: str) -> Entry | None:
        """Return the row of a key, and remember that it was asked for."""
        self._db.execute("INSERT OR IGNORE INTO seen VALUES (?)", (key,))
        found = self._db.execute(
            "SELECT key, hash, known, part, at FROM rows WHERE tab = ? AND key = ?", (table, key)
        ).fetchone()
        return None if found is None else Entry(*found)

    def unseen(self, table: int, groups: Collection[str]) -> Iterator[Entry]:
        """Yield the rows of groups that were not asked for; then forget what was."""
        for group in sorted(groups):
            yield from map(
                Entry._make,
                self._db.execute(
                    "SELECT key, hash, known, part, at FROM rows WHERE tab = ? AND key >= ? AND key < ? AND key NOT IN "
                    "(SELECT key FROM seen)",
                    (table, group, group + "g"),
                ),
            )
        self._db.execute("DELETE FROM seen")

    def _part(self, place: TopicPartition) -> int:
        query = "SELECT part FROM places WHERE topic = ? AND partition = ?"
        found = self._db.execute(query, place).fetchone()
        if found is None:
            self._db.execute("INSERT INTO places (topic, partition, next) VALUES (?, ?, 0)", place)
            found = self._db.execute(query, place).fetchone()
        return int(found[0])


_UPSERT = f"""
INSERT INTO rows (tab, key, hash, known, part, at, lsn) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tab, key) DO UPDATE SET
    hash = excluded.hash, at = excluded.at, lsn = excluded.lsn,
    known = CASE WHEN part = excluded.part AND known <> {UNSURE} THEN excluded.known ELSE {UNSURE} END,
    part = excluded.part
"""
