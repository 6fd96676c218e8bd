"""The Spark that a peer's program runs in."""

from typing import Any

from pyspark.sql import SparkSession


def session(cores: str, jars: str, **more: str) -> Any:
    """Start it with these jars and `more` of its settings."""
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "ERROR")
    )
    for name, value in more.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
