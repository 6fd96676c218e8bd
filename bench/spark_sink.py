"""The peer of the spool directory: Spark reads CSV files and writes them as JSON with its own Kafka sink.

Runs as a process of its own: `python -m bench.spark_sink BOOTSTRAP SCHEMA CORES JARS` reads directories and topics (a
tab between) from its standard input, writes all rows of the one to the other and says so on its standard output.
"""

import sys

from pyspark.sql import functions as f

from bench.spark_session import session


def main(bootstrap: str, schema: str, cores: str, jars: str) -> None:
    """Start Spark, then do what comes."""
    spark = session(cores, jars)
    print("ready", flush=True)
    for order in sys.stdin:
        directory, topic = order.rstrip("\n").split("\t")
        rows = spark.read.schema(schema).options(header="true", nullValue="NA").csv(directory)
        value = f.to_json(f.struct("*"), {"ignoreNullFields": "false"}).alias("value")
        kafka = rows.select(value).write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        kafka.option("topic", topic).save()
        print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
