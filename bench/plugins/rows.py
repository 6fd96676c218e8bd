"""RowsSource: rows of ten fields for a topic, the same as `bench/java/RowsSource.java`."""

import datetime as dt
from typing import Any

from fencepost.api import Batch, ExactlyOnceSupport, Schema, SourceConnector, SourceTask, setting
from fencepost.record import PositionColumn
from fencepost.record.schema import BOOLEAN, FLOAT64, INT32, INT64, STRING, TIMESTAMP

CITIES = ("Basel", "Bergen", "Bilbao", "Bologna", "Brno", "Bruges", "Bonn")
FIRST = dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)
MS = dt.timedelta(milliseconds=1)
NEXT = "next"
ROW = Schema.struct(
    {
        "id": INT64,
        "customer": STRING,
        "city": STRING,
        "article": STRING,
        "quantity": INT32,
        "price": FLOAT64,
        "weight": FLOAT64,
        "is_gift": BOOLEAN,
        "ordered_at": TIMESTAMP,
        "note": STRING.optional(),
    },
    name="bench.Row",
)


def row(n: int) -> dict[str, Any]:
    """Row `n`."""
    return {
        "id": n,
        "customer": f"customer-{n % 5000}",
        "city": CITIES[n % 7],
        "article": f"article-{n % 300}",
        "quantity": n % 90 + 1,
        "price": n % 10000 / 100,
        "weight": n % 997 / 7,
        "is_gift": n % 11 == 0,
        "ordered_at": FIRST + n * MS,
        "note": None if n % 3 == 0 else "please ring twice",
    }


class RowsTask(SourceTask):
    """Makes the rows from the committed one on."""

    config: "RowsSource"
    partition = {"rows": "all"}

    def start(self) -> None:
        self.next = self.context.offset(self.partition).get(NEXT, 0)

    def poll(self) -> Batch | None:
        end = min(self.config.rows, self.next + self.config.batch_size)
        if self.next >= end:
            self.context.wait(0.1)
            return None
        numbers = range(self.next, end)
        self.next = end
        return Batch.of_column(
            list(map(row, numbers)),
            topic=self.config.topic,
            source_partition=self.partition,
            source_offsets=PositionColumn(NEXT, range(numbers.start + 1, end + 1)),
            value_schema=ROW,
        )


class RowsSource(SourceConnector):
    """Makes `rows` rows for a topic, `batch.size` of them a poll."""

    task = RowsTask

    topic: str = setting("topic", doc="The topic.")
    rows: int = setting("rows", doc="How many.")
    batch_size: int = setting("batch.size", default=2000, doc="Rows a poll.")

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED
