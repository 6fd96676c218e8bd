"""The driver's JVM and its session: how they start and end."""


class SparkError(RuntimeError):
    """Spark could not be started, or has ended; the text has the reason and what to check."""
