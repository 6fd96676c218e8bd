"""An exception of PySpark's leaves the loggers of the process as they were, also where several threads fail."""

import subprocess
import sys

_SCRIPT = """
import logging
import sys
from types import SimpleNamespace

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

if "quiet" in sys.argv:
    from fencepost.spark.session.pyspark_patches import leave_exceptions_to_their_catcher

    leave_exceptions_to_their_catcher()

made = []
PySparkLogger.getLogger = staticmethod(lambda name=None: made.append(name) or logging.getLogger("PySparks"))
SQL = SimpleNamespace(contextType=lambda: SimpleNamespace(name="SQL"))
error = PySparkException("there is no such column", "UNRESOLVED_COLUMN", {}, contexts=[SQL])
try:
    error._log_exception()
except TypeError:
    pass  # a plain logger does not take what PySpark's does
print(made)
"""


def _loggers_asked_for(*words: str) -> str:
    done = subprocess.run([sys.executable, "-c", _SCRIPT, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_pyspark_exception_creates_no_logger() -> None:
    assert _loggers_asked_for() == "['SQLQueryContextLogger']"  # else this shows nothing
    assert _loggers_asked_for("quiet") == "[]"
