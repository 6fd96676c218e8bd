"""Keeps PySpark from logging the exceptions that it raises: whoever catches them reports them.

While PySpark logs one, it makes its own class that of all loggers of the process. If two threads fail at once it stays
so: loggers made later drop messages below a warning, and print the rest as JSON among everyone else's lines.
"""

from typing import Any

from pyspark.errors import PySparkException


def leave_exceptions_to_who_catches_them() -> None:
    """Make PySpark log none of its exceptions. Idempotent."""
    PySparkException._log_exception = _nothing


def _nothing(error: Any) -> None:
    """Log nothing."""
