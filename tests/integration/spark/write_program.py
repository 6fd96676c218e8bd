"""A program that writes numbers with a direct write, as a user's would; run in a process of its own.

Its argument is a JSON object: `bootstrap`, `topic`, `rows`, `conf` of the session. The id is that of the topic.
"""

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    """Write the numbers in two partitions."""
    given = json.loads(sys.argv[1])
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "512m").config("spark.driver.host", "127.0.0.1")
    for key, value in given["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    topic = given["topic"]
    numbers = spark.range(0, given["rows"], 1, 2).selectExpr("cast(id as string) as value")
    writer = numbers.write.format("fencepost").mode("append").option("kafka.bootstrap.servers", given["bootstrap"])
    writer.options(**{"topic": topic, "write.id": topic, "offsets.topic": f"{topic}-writes"}).save()


if __name__ == "__main__":
    main()
