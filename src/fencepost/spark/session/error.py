"""The error that is raised if there is no Spark."""


class SparkError(RuntimeError):
    """Spark could not be started, or has ended; the text has the reason and what to check."""
