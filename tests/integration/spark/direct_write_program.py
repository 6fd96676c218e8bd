"""A program that writes a DataFrame with a direct write, as a user's would; run in a process of its own.

Its argument is a JSON object: `bootstrap`, `master`, `files` (lines to write), `conf` of the session, `partitions`,
`options` of the write, `gate`: the last line is not handed over before this file exists.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from fencepost.spark.datasource import FencepostDataSource


def main() -> None:
    """Write the lines, and print `written`."""
    given = json.loads(sys.argv[1])
    builder = SparkSession.builder.master(given["master"]).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "512m").config("spark.driver.host", "127.0.0.1")
    for key, value in given["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(FencepostDataSource)
    gate = given["gate"]

    def held(line: str) -> str:
        from fencepost.testing import eventually

        if gate and line == "last":
            eventually(lambda: Path(gate).exists(), within_s=300)
        return line

    lines = spark.read.text(given["files"]).coalesce(given["partitions"])
    frame = lines.select(udf(held)("value").alias("value"))
    writer = frame.write.format("fencepost").mode("append").option("kafka.bootstrap.servers", given["bootstrap"])
    writer.options(**given["options"]).save()
    print("written", flush=True)


if __name__ == "__main__":
    main()
