"""The Spark session of checks."""

from typing import Any

from fencepost.testing.conformance.scene import Checks


class SparkChecks(Checks):
    """The base of the conformance classes for connectors that work with DataFrames."""

    def session(self) -> Any:
        """Return this process's Spark session; if there is none, a new one with two cores and without a web page."""
        from pyspark.sql import SparkSession

        return SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
