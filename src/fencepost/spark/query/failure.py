"""What Spark's errors of a streaming query mean for its task."""

import re

from pyspark.errors import AnalysisException

from fencepost.api import FatalError, RetriableError
from fencepost.builtin.connector.sql_stream import SqlStream
from fencepost.config import ConfigError
from fencepost.spark.row.frame import first_line

_SQL, _CHECKPOINT, _STARTING = (SqlStream.key_of(name) for name in ("sql", "checkpoint", "starting_offsets"))
_NO_WATERMARK = re.compile(r"without watermark|requires? .*watermark", re.IGNORECASE)
_ADVICE = ". Add a watermark to the table, as in: FROM orders WATERMARK timestamp DELAY OF INTERVAL 10 MINUTES"
# Of Java's and Python's: a file system does not answer, or refuses for now. A file that is not there stays away.
_AWAY = re.compile(
    r"\b(?:java\.io\.IOException|java\.net\.\w+Exception|java\.nio\.file\.(?!NoSuchFile)\w+Exception"
    r"|org\.apache\.hadoop\.(?!fs\.UnsupportedFileSystem)[\w.$]+Exception|[\w.]+\.amazon\w*\.[\w.]+Exception): "
    r"|^OSError: |\bExitCodeException exitCode=|^(?!FileNotFound)\w+Error: \[Errno ",
    re.MULTILINE,
)
_PYTHON_ERROR = re.compile(r"^(?P<name>fencepost\.[\w.]*Error): (?P<text>.*)", re.MULTILINE)
_PASSING = ("UnavailableError", "TimeoutError", "RetriableError", "LostError")
_FINAL = (
    "DecidedOtherwiseError",
    "MissingDecisionError",
    "EmptiedCheckpointError",
    "BatchTooLargeError",
    "RowTooLargeError",
    "DataLossError",
)
# Of Spark's errors: the state or the sources in the checkpoint are those of another query.
_MISFIT = re.compile(
    r"STATE_STORE_\w*(SCHEMA|VALUE|KEY|COLUMN)\w*|STREAMING_STATEFUL_OPERATOR_NOT_MATCH|STATE_STORE_INVALID"
    r"|sources in the checkpoint|CHECKPOINT\w*MISMATCH|Provided schema doesn't match|CANNOT_LOAD_STATE_STORE"
    r"|STREAMING_CHECKPOINT"
)


def failure_of(error: Exception) -> Exception:
    """Return what a task raises for an error of a query.

    ConfigError: the query cannot be analysed. FatalError: it does not fit its checkpoint, or what that says is not in
    Kafka. RetriableError: Kafka, a schema registry or the checkpoint's file system is away. Any other error may pass,
    if the query starts again.
    """
    text = str(error)
    found = [*_PYTHON_ERROR.finditer(text)]
    if found:
        name, reason = found[-1]["name"], found[-1]["text"]
        if name.endswith("ConfigError"):
            return ConfigError(reason)
        if name.endswith(_PASSING):
            return RetriableError(reason)
        return FatalError(reason) if name.endswith(_FINAL) else RuntimeError(reason)
    reason = _reason(text).rstrip(".")
    if _AWAY.search(text + _stacks(error)):
        return RetriableError(reason)
    if _MISFIT.search(text):
        return FatalError(
            f"the query does not fit its checkpoint, which has the state of another one: {reason}. Put the query "
            f"back, or set another {_CHECKPOINT}: then its state begins empty, and it reads from {_STARTING}"
        )
    if isinstance(error, AnalysisException):
        reason = first_line(error)
        return ConfigError(f"{_SQL}: Spark refuses it: {reason}{_ADVICE if _NO_WATERMARK.search(reason) else ''}")
    return RuntimeError(reason)


def _stacks(error: Exception) -> str:
    """Return Java's stacks of an error and of its cause, which name classes that the text may lack."""
    each = (error, getattr(error, "_cause", None))
    return "\n".join(str(getattr(one, "_stackTrace", "")) for one in each)


def _reason(text: str) -> str:
    """Return the line of an error of Spark's that says most: that of its cause, if there is one."""
    causes = re.findall(r"^(?:Caused by: )?(?:[\w.$]+(?:Exception|Error)): (.+)$", text, re.MULTILINE)
    return str(causes[-1] if causes else text.strip().splitlines()[0])
