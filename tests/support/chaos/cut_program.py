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


# Spark gives a Python process ten seconds to start, which may not do on a machine that is busy.
_SPARKS_OWN = ("failed to connect back", "CANNOT_OPEN_SOCKET")


def stream(session: Any, directory: Path, bootstrap: str, topic: str, out: str) -> Any:
    """Start a stream, which goes on where it was, and return the query."""
    reader = session.readStream.format("fencepost").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest").option("failOnDataLoss", OUTS[out])
    columns = reader.load().selectExpr("cast(value AS string) AS value", "partition", "offset")
    writer = columns.coalesce(1).writeStream.format("json")
    writer = writer.option("checkpointLocation", str(directory / f"{out}-checkpoint"))
    return writer.trigger(processingTime="500 milliseconds").start(str(directory / out))


def has_failed(query: Any) -> bool:
    """Say whether a stream has ended by an error of Spark's own; raises any other one."""
    error = None if query.isActive else str(query.exception())
    if error is not None:
        print(error, flush=True)
        assert any(text in error for text in _SPARKS_OWN), error
    return error is not None


def write(session: Any, directory: Path, bootstrap: str, target: str) -> None:
    """Write the next numbers, from the one that the last program has got to."""
    note = directory / "written"
    done = int(note.read_text()) if note.exists() else 0
    first = done * ROWS + 1
    rows = session.range(first, first + ROWS, 1, 1).selectExpr("cast(id AS string) AS value")
    options = {"topic": target, "write.id": f"{target}-{done}"}
    writer = rows.write.format("fencepost").mode("append").option("kafka.bootstrap.servers", bootstrap)
    try:
        writer.options(**options).save()
    except Exception:
        traceback.print_exc()  # it is written again
        return
    note.with_suffix(".new").write_text(str(done + 1))
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
    of_topic = (session, directory, given["bootstrap"], given["topic"])
    queries = {out: stream(*of_topic, out) for out in OUTS}
    while True:
        write(session, directory, given["bootstrap"], given["target"])
        queries = {out: stream(*of_topic, out) if has_failed(query) else query for out, query in queries.items()}


if __name__ == "__main__":
    main()
