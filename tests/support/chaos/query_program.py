"""A program of a user's: streaming queries from one topic, each into a topic of its own. It runs until it is killed.

Its argument is a JSON object with the fields of `Given`. The queries start with the first line of its input. One that
ends by an error is started again, from its checkpoint, and the error is printed.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.chaos import dying_source

OFFSET, VALUE = "concat_ws(':', partition, offset, cast(value AS string)) AS value", "cast(value AS string) AS value"
SPARKS_OWN = "spark"
"""The query that writes the projection with Spark's own sink."""
QUERIES = ("rows", "unique", "counts")
IN_UPDATE_MODE = ("counts",)
_LOOK_S = 0.2


@dataclass(frozen=True)
class Given:
    """What the program runs: `queries` read `topic` of `source` and write topics `<topic>-<query>` of `sink`.

    `conf` is that of the session, `jars` are those of Spark's own sink. Checkpoints and flags are in `directory`.
    """

    conf: dict[str, str]
    source: str
    sink: str
    topic: str
    directory: str
    queries: Sequence[str]
    jars: Sequence[str] = ()


def frame(query: str, rows: Any) -> Any:
    """Return the query over the rows of the input."""
    if query == "unique":
        return rows.selectExpr(VALUE).dropDuplicates(["value"]).selectExpr("value AS key", "value")
    if query == "counts":
        counts = rows.selectExpr("cast(key AS string) AS key").groupBy("key").count()
        return counts.selectExpr("key", "cast(count AS string) AS value")
    return rows.selectExpr("cast(partition AS string) AS key", OFFSET)


def started(session: Any, query: str, given: Given) -> Any:
    """Start a query, and wait until it runs: on a busy machine the Python of several would start too slowly at once."""
    while True:
        running = start(session, query, given)
        try:
            while "Initializing" in running.status["message"]:
                running.awaitTermination(_LOOK_S)
        except Exception as error:
            print(f"ended: {error}", flush=True)
        if running.isActive:
            return running


def start(session: Any, query: str, given: Given) -> Any:
    """Start a query, which goes on from its checkpoint."""
    reader = session.readStream.format("fencepost").option("kafka.bootstrap.servers", given.source)
    rows = reader.option("subscribe", given.topic).option("startingOffsets", "earliest").load()
    own = {"kafka.bootstrap.servers": given.sink, "topic": f"{given.topic}-{query}"}
    own["checkpointLocation"] = str(Path(given.directory, f"{query}-checkpoint"))
    if query != SPARKS_OWN:
        own[dying_source.FLAG] = str(Path(given.directory, f"die-{query}"))
    writer = frame(query, rows).writeStream.queryName(query).trigger(processingTime="100 milliseconds")
    writer = writer.format("kafka" if query == SPARKS_OWN else dying_source.NAME).options(**own)
    if query in IN_UPDATE_MODE:
        writer = writer.outputMode("update").foreachBatch(lambda batch, number: write(batch, number, own))
    return writer.start()


def write(batch: Any, number: int, options: dict[str, str]) -> None:
    """Write a micro-batch from `foreachBatch`: no data source in Python may have the output mode `update`."""
    numbered = options | {"batch.id": str(number)}
    batch.write.format(dying_source.NAME).mode("append").options(**numbered).save()


def main() -> None:
    """Run all queries for ever."""
    from pyspark.sql import SparkSession

    from fencepost.spark.datasource import FencepostDataSource

    given = Given(**json.loads(sys.argv[1]))
    builder = SparkSession.builder
    for key, value in given.conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for jar in given.jars:
        session.sql(f"ADD JAR '{jar}'")
    session.dataSource.register(FencepostDataSource)
    session.dataSource.register(dying_source.DyingSource)
    sys.stdin.readline()  # it comes when they are to run
    running = {query: started(session, query, given) for query in given.queries}
    print("started", flush=True)
    while True:
        with suppress(Exception):  # which has the error of one query, while several may have ended
            session.streams.awaitAnyTermination()
        session.streams.resetTerminated()
        for query, run in running.items():
            if not run.isActive:
                print(f"ended: {run.exception()}", flush=True)
                running[query] = started(session, query, given)


if __name__ == "__main__":
    main()
