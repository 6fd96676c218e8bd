"""A source of rows whose schema changes, and a sink that keeps rows and offsets in one transaction."""

import sqlite3
from collections.abc import Collection
from pathlib import Path

from fencepost.api import (
    Batch,
    ExactlyOnceSupport,
    Repeated,
    Schema,
    SinkBatch,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    TopicPartition,
    setting,
)
from fencepost.record import PositionColumn
from fencepost.record.schema import INT64, STRING

NARROW = Schema.struct({"n": INT64, "name": STRING}, name="suite.Row")
WIDE = Schema.struct({"n": INT64, "name": STRING, "note": STRING.optional()}, name="suite.Row")
STEP = 20


class RowsTask(SourceTask):
    """Sends rows in batches of columns: `before` of the narrow schema, and once `go` exists `after` of the wide one."""

    config: "RowsConnector"

    def start(self) -> None:
        self.next = self.context.offset({"rows": 0}).get("n", -1) + 1

    def poll(self) -> Batch | None:
        is_wide = self.next >= self.config.before
        end = self.config.before + (self.config.after if is_wide else 0)
        if self.next >= end or (is_wide and not self.config.go.exists()):
            self.context.wait(0.05)
            return None
        numbers = range(self.next, min(self.next + STEP, end))
        self.next = numbers.stop
        rows = [{"n": n, "name": f"row {n}"} | ({"note": None} if is_wide else {}) for n in numbers]
        return Batch(
            Repeated(self.config.topic, len(rows)),
            rows,
            Repeated({"rows": 0}, len(rows)),
            PositionColumn("n", list(numbers)),
            WIDE if is_wide else NARROW,
        )


class RowsConnector(SourceConnector):
    """The connector of `RowsTask`."""

    task = RowsTask
    topic: str = setting("topic", doc="Where rows go.")
    before: int = setting("before", doc="How many rows have the first schema.")
    after: int = setting("after", doc="How many rows have the second schema.")
    go: Path = setting("go", doc="The file that lets the second schema begin.")

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED


class TableTask(SinkTask):
    """Writes rows and the offset after them in one transaction; begins where the table says."""

    config: "TableConnector"

    def start(self) -> None:
        self.db = sqlite3.connect(self.config.database)
        with self.db:
            self.db.execute("CREATE TABLE IF NOT EXISTS seen (n INTEGER, name TEXT, has_note INTEGER)")
            self.db.execute("CREATE TABLE IF NOT EXISTS positions (place TEXT PRIMARY KEY, next INTEGER)")

    def open(self, partitions: Collection[TopicPartition]) -> None:
        for place in partitions:
            found = self.db.execute("SELECT next FROM positions WHERE place = ?", (str(place),)).fetchone()
            if found is not None:
                self.context.seek({place: found[0]})

    def put(self, batch: SinkBatch) -> None:
        with self.db:
            for record in batch:
                row = record.value
                self.db.execute("INSERT INTO seen VALUES (?, ?, ?)", (row["n"], row["name"], "note" in row))
                position = (str(record.at), record.kafka_offset + 1)
                self.db.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", position)

    def stop(self) -> None:
        self.db.close()


class TableConnector(SinkConnector):
    """The connector of `TableTask`."""

    task = TableTask
    database: Path = setting("database", doc="The database file.")
