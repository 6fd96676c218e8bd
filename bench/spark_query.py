"""Structured Streaming queries from Kafka to Kafka, by our source and sink or Spark's own.

Runs as a process of its own: `python -m bench.spark_query BOOTSTRAP CORES JARS` reads orders from its standard input:
the formats of source and sink, what to do, topics and a directory for the checkpoint, with tabs between. `project` and
`count` answer when all that is there is done; `follow` answers when it has begun, and ends with the next line.
"""

import sys
from typing import Any

from bench.spark_session import session

_FOLLOW = "follow"
_TRIGGER = "100 milliseconds"


def main(bootstrap: str, cores: str, jars: str) -> None:
    """Start Spark, then do what comes."""
    spark = session(cores, jars, **{"spark.sql.shuffle.partitions": cores})
    print("ready", flush=True)
    following = None
    for order in sys.stdin:
        if following is not None:
            following.stop()
            following = None
        if order.strip():
            reads, writes, what, source, target, checkpoint = order.rstrip("\n").split("\t")
            query = _started(_rows(spark, reads, bootstrap, source), writes, bootstrap, what, target, checkpoint)
            if what == _FOLLOW:
                following = query
            else:
                query.awaitTermination()
        print("done", flush=True)


def _rows(spark: Any, reads: str, bootstrap: str, topic: str) -> Any:
    reader = spark.readStream.format(reads).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    if reads == "kafka":
        reader = reader.option("kafka.isolation.level", "read_committed")
    return reader.option("startingOffsets", "earliest").load()


def _started(rows: Any, writes: str, bootstrap: str, what: str, target: str, checkpoint: str) -> Any:
    """Spark lets only its own sinks take the output mode `update`: ours writes such batches by foreachBatch."""
    options = {"kafka.bootstrap.servers": bootstrap, "topic": target, "checkpointLocation": checkpoint}
    is_count = what == "count"
    if is_count:
        rows = rows.groupBy("key").count().selectExpr("key", "cast(count as string) as value")
    else:
        rows = rows.selectExpr("key", "upper(cast(value as string)) as value")
    trigger: dict[str, Any] = {"processingTime": _TRIGGER} if what == _FOLLOW else {"availableNow": True}
    writer = rows.writeStream.outputMode("update" if is_count else "append").trigger(**trigger).options(**options)

    def write(batch: Any, number: int) -> None:
        batch.write.format(writes).mode("append").options(**options, **{"batch.id": number}).save()

    return (writer.foreachBatch(write) if is_count and writes == "fencepost" else writer.format(writes)).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
