"""What is raised when there is no Spark."""


class SparkError(RuntimeError):
    """Spark could not be started, or has gone; the text says why and what to look at."""
