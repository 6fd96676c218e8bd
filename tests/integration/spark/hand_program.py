"""A program that writes a DataFrame by hand, as a user's would; run in a process of its own.

Its argument is a JSON object: `bootstrap`, `master`, `files` (lines to write), `conf` of the session, `partitions`,
`options` of the write, `gate`: the last line is not handed over before this file exists.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

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

    def held(batches: Iterator[Any]) -> Iterator[Any]:
        from fencepost.testing import eventually

        for batch in batches:
            if gate and "last" in batch.column(0).to_pylist():
                eventually(lambda: Path(gate).exists(), within_s=300)
            yield batch

    frame = spark.read.text(given["files"]).coalesce(given["partitions"]).mapInArrow(held, "value string")
    writer = frame.write.format("fencepost").mode("append").option("kafka.bootstrap.servers", given["bootstrap"])
    writer.options(**given["options"]).save()
    print("written", flush=True)


if __name__ == "__main__":
    main()
