"""A program that streams a topic into files, as a user's would; run in a process of its own until it is killed.

Its argument is a JSON object: `conf` of the session, and the arguments of `stream`.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from fencepost.spark.datasource import FencepostDataSource


def stream(session: Any, *, bootstrap: str, topic: str, directory: str, most: int, is_ending: bool) -> None:
    """Stream the topic into files of the directory, from the checkpoint in it; to the end there is now, or for ever.

    A micro-batch has about `most` offsets.
    """
    reader = session.readStream.format("fencepost").option("kafka.bootstrap.servers", bootstrap)
    rows = reader.option("subscribe", topic).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", most)
    columns = rows.load().selectExpr("cast(value AS string) AS value", "partition", "offset")
    writer = columns.writeStream.format("json").option("checkpointLocation", f"{directory}/checkpoint")
    query = writer.trigger(**({"availableNow": True} if is_ending else {"processingTime": "0 seconds"}))
    query.start(f"{directory}/out").awaitTermination()


def main() -> None:
    """Stream for ever."""
    given = json.loads(sys.argv[1])
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "512m").config("spark.driver.host", "127.0.0.1")
    for key, value in given.pop("conf").items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(FencepostDataSource)
    stream(session, **given)


if __name__ == "__main__":
    main()
