"""Spark's own Kafka source and sink in a Structured Streaming query that copies a topic, at least once.

Runs as a process of its own: `python -m bench.spark_copy BOOTSTRAP CORES JARS` reads orders from its standard input:
topics and a directory for the checkpoint, with tabs between; all that is there is copied, then it answers.
"""

import sys

from bench.spark_session import session


def main(bootstrap: str, cores: str, jars: str) -> None:
    """Start Spark, then do what comes."""
    spark = session(cores, jars)
    print("ready", flush=True)
    for order in sys.stdin:
        source, target, checkpoint = order.rstrip("\n").split("\t")
        kafka = {"kafka.bootstrap.servers": bootstrap}
        rows = spark.readStream.format("kafka").options(
            **kafka, subscribe=source, startingOffsets="earliest", **{"kafka.isolation.level": "read_committed"}
        )
        copy = rows.load().select("key", "value").writeStream.format("kafka").options(**kafka, topic=target)
        copy.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
        print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
