"""Keeps PySpark from logging the exceptions that it raises, which are told where they are caught.

While it does, it makes its own class that of all loggers of the process. Where two threads fail at once it stays so:
loggers made later drop what is below a warning, and print the rest as JSON beside everybody else's lines.
"""

from typing import Any

from pyspark.errors import PySparkException


def leave_exceptions_to_who_catches_them() -> None:
    """Have PySpark log none of its exceptions. Idempotent."""
    PySparkException._log_exception = _nothing


def _nothing(error: Any) -> None:
    """Log nothing."""
