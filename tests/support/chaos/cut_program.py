"""A program of a user's that streams a topic into files, twice, and writes to another one; it runs until it is killed.

Its argument is a JSON object: `conf` of the session, `bootstrap`, `topic`, `target`, and `directory`. One stream has
`failOnDataLoss` set, and the other one not. Rows are written by direct writes, each under an id of its own, which is
written again until that succeeds, by the next program as well.
"""

import json
import sys
import traceback
from pathlib import Path
from typing import Any

ROWS = 20
OUTS = {"strict": "true", "lax": "false"}
"""The directories of the streams, and what each has for `failOnDataLoss`."""


def stream(session: Any, directory: Path, bootstrap: str, topic: str) -> None:
    """Start the streams, which go on where they were."""
    for out, fails in OUTS.items():
        reader = session.readStream.format("fencepost").option("kafka.bootstrap.servers", bootstrap)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest").option("failOnDataLoss", fails)
        columns = reader.load().selectExpr("cast(value AS string) AS value", "partition", "offset")
        writer = columns.coalesce(1).writeStream.format("json")
        writer = writer.option("checkpointLocation", str(directory / f"{out}-checkpoint"))
        writer.trigger(processingTime="500 milliseconds").start(str(directory / out))


def write(session: Any, directory: Path, bootstrap: str, target: str) -> None:
    """Write the next numbers, from the one that the last program has got to; for ever, or until a stream ends."""
    note = directory / "written"
    done = int(note.read_text()) if note.exists() else 0
    while True:
        for query in session.streams.active:
            assert query.exception() is None, query.exception()
        assert len(session.streams.active) == len(OUTS), "a stream has ended"
        first = done * ROWS + 1
        rows = session.range(first, first + ROWS, 1, 1).selectExpr("cast(id AS string) AS value")
        options = {"topic": target, "write.id": f"{target}-{done}", "write.partitions": 1}
        try:
            rows.write.format("fencepost").mode("append").option("kafka.bootstrap.servers", bootstrap).options(
                **options
            ).save()
        except Exception:
            traceback.print_exc()  # it is written again
            continue
        done += 1
        note.with_suffix(".new").write_text(str(done))
        note.with_suffix(".new").replace(note)


def main() -> None:
    """Stream and write until something fails."""
    from pyspark.sql import SparkSession

    from fencepost.spark.datasource import FencepostDataSource

    given = json.loads(sys.argv[1])
    builder = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "512m").config("spark.driver.host", "127.0.0.1")
    for key, value in given["conf"].items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(FencepostDataSource)
    directory = Path(given["directory"])
    stream(session, directory, given["bootstrap"], given["topic"])
    write(session, directory, given["bootstrap"], given["target"])


if __name__ == "__main__":
    main()
