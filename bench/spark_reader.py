"""Both readers of Kafka in one Spark: ours, and Spark's own source.

Runs as a process of its own: `python -m bench.spark_reader BOOTSTRAP CORES JARS` reads formats and topics (a tab
between) from its standard input, reads all of the topic, and answers each with rows, sum of lengths and seconds.
"""

import sys
import time

from bench.spark_session import session
from fencepost.spark.datasource import FencepostDataSource


def main(bootstrap: str, cores: str, jars: str) -> None:
    """Start Spark, then do what comes."""
    spark = session(cores, jars, **{"spark.sql.shuffle.partitions": cores})
    spark.dataSource.register(FencepostDataSource)
    print("ready", flush=True)
    for order in sys.stdin:
        source, topic = order.rstrip("\n").split("\t")
        began = time.monotonic()
        reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
        rows = reader.option("kafka.isolation.level", "read_committed").load()
        [found] = rows.selectExpr("count(*) AS rows", "sum(length(value)) AS bytes").collect()
        print(f"{found.rows}\t{found.bytes}\t{time.monotonic() - began}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
