"""Makes `format("fencepost")` known to every Spark session: PySpark looks for packages with this prefix."""

from fencepost.spark.datasource import FencepostDataSource as DefaultSource

__all__ = ["DefaultSource"]
