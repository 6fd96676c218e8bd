"""Spark's own source and file sink, in a Structured Streaming query.

Runs as a process of its own: `python -m bench.spark_files BOOTSTRAP CORES JARS SCHEMA AVRO` reads formats, topics and
directories (a tab between) from its standard input, moves all of the topic, and answers each with the seconds that its
batches took. AVRO is the schema of Avro values.
"""

import sys

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro

from bench.spark_session import session

_MOST = 1_000_000


def main(bootstrap: str, cores: str, jars: str, schema: str, avro: str) -> None:
    """Start Spark, then do what comes."""
    spark = session(cores, jars, **{"spark.sql.streaming.numRecentProgressUpdates": "1000"})
    print("ready", flush=True)
    for order in sys.stdin:
        kind, topic, out = order.rstrip("\n").split("\t")
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        reader = reader.option("kafka.isolation.level", "read_committed").option("maxOffsetsPerTrigger", _MOST)
        values = reader.load()
        if kind == "avro":
            payload = F.expr("substring(value, 6, length(value) - 5)")  # after the id of the schema
            frame = values.select(from_avro(payload, avro).alias("v")).select("v.*")
        else:
            text = values.select(F.col("value").cast("string").alias("value"))
            frame = text if kind == "json" else text.select(F.from_json("value", schema).alias("v")).select("v.*")
        writer = frame.writeStream.format("text" if kind == "json" else "parquet").trigger(availableNow=True)
        query = writer.option("path", out).option("checkpointLocation", f"{out}-checkpoint").start()
        query.awaitTermination()
        took_ms = sum(progress["durationMs"]["triggerExecution"] for progress in query.recentProgress)
        print(took_ms / 1000, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
