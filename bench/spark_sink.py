"""The peer of the spool directory: Spark reads CSV files and writes them as JSON with its own Kafka sink.

Runs as a process of its own: `python -m bench.spark_sink BOOTSTRAP DIRECTORY SCHEMA CORES JARS` reads topics from its
standard input and, for each, writes all rows and says so on its standard output.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main(bootstrap: str, directory: str, schema: str, cores: str, jars: str) -> None:
    """Start Spark, then write to the topics that come."""
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    print("ready", flush=True)
    for topic in sys.stdin:
        rows = session.read.schema(schema).options(header="true", nullValue="NA").csv(directory)
        value = f.to_json(f.struct("*"), {"ignoreNullFields": "false"}).alias("value")
        kafka = rows.select(value).write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        kafka.option("topic", topic.strip()).save()
        print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
