"""The causes of a failed Spark job, by exception classes and error conditions.

Texts of errors contain rows, file names, topics and user ids, so causes are never looked for in them. Only codecs have
no classes of their own: their few messages are matched as a whole, and only in errors of the classes that they raise.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from fencepost.spark.slot.job import reason_of

# Reading again does not help. https://spark.apache.org/docs/latest/sql-error-conditions.html
_BROKEN_CONDITIONS = (
    "INVALID_JSON_RECORD_TYPE",
    "INVALID_JSON_ROOT_FIELD",
    "MALFORMED_CSV_RECORD",
    "MALFORMED_RECORD_IN_PARSING",
    "UNABLE_TO_INFER_SCHEMA",
    "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH",
)
_BROKEN_CLASSES = frozenset(
    {
        "com.fasterxml.jackson.core.JsonParseException",
        "com.fasterxml.jackson.core.io.JsonEOFException",
        "com.github.luben.zstd.ZstdIOException",
        "com.univocity.parsers.common.TextParsingException",
        "java.io.CharConversionException",
        "java.nio.charset.MalformedInputException",
        "java.util.zip.DataFormatException",
        "java.util.zip.ZipException",
        "org.apache.parquet.io.ParquetDecodingException",
        "org.apache.spark.sql.catalyst.util.BadRecordException",
    }
)
_CODEC_CLASSES = frozenset({"java.io.EOFException", "java.io.IOException", "java.lang.RuntimeException"})
_CODEC_WORDS = re.compile(
    r"Unexpected end of (ZLIB )?input stream|unexpected end of stream|not a gzip file|Not in GZIP format|"
    r"incorrect (header|data) check|invalid (distance|stored block|block type|code lengths|literal|bit length).{0,40}|"
    r".* is not a Parquet file(\. Expected magic number at tail.*|\. Length is too low.*| \(length is too low.*)|"
    r"corrupted file: the footer index is not within the file.*|can not read class org\.apache\.parquet.*|"
    r"could not read page Page \[.*",
    re.DOTALL,
)
_GONE_CONDITIONS = ("PATH_NOT_FOUND", "FAILED_READ_FILE.FILE_NOT_EXIST")
_GONE_CLASSES = frozenset({"java.io.FileNotFoundException"})
_STORAGE_CLASSES = frozenset(
    {
        "java.io.EOFException",
        "java.io.FileNotFoundException",
        "java.io.IOException",
        "java.io.InterruptedIOException",
        "java.nio.file.AccessDeniedException",
        "java.nio.file.FileSystemException",
        "java.nio.file.NoSuchFileException",
        "org.apache.hadoop.security.AccessControlException",
    }
)
_ADDRESS_CLASSES = frozenset({"java.net.MalformedURLException", "java.net.URISyntaxException"})
"""Waiting does not help: the address is malformed."""
_STORAGE_PACKAGES = (
    "java.net.",
    "javax.net.ssl.",
    "org.apache.hadoop.fs.",
    "org.apache.hadoop.hdfs.",
    "org.apache.hadoop.ipc.",
    "org.apache.hadoop.net.",
)
"""The packages with the errors of networks and of Hadoop's file systems; object stores have many."""
_PYTHON = "org.apache.spark.api.python.PythonException"
_COMMITS = ("PYTHON_DATA_SOURCE_ERROR",)
"""Raised by a data source on the driver, for example when it commits."""
_SQL_STATE = re.compile(r"\s+SQLSTATE: \w+\s*$")


class Cause(NamedTuple):
    """One error of a chain of causes. `condition` is Spark's name for it, if it has one."""

    java_class: str
    condition: str
    text: str


def causes_of(error: BaseException) -> list[Cause]:
    """Return an error of the JVM and its causes, outermost first; empty for any other error, or if the JVM has
    ended.
    """
    try:
        return [_cause(java) for java in _chain(error)] or _of_python(error)
    except Exception:
        return []


def is_broken_content(causes: Iterable[Cause]) -> bool:
    """Return whether the content read is broken: false if it is gone, and for any error of writing."""
    found = list(causes)
    is_gone = any(cause.java_class in _GONE_CLASSES or _has(cause, _GONE_CONDITIONS) for cause in found)
    return any(map(_is_broken, found)) and not is_gone


def is_refused_by_query(causes: Iterable[Cause]) -> bool:
    """Return whether the query itself ended the job, by `raise_error`; it would do so again."""
    return any(_has(cause, ("USER_RAISED_EXCEPTION",)) for cause in causes)


def is_storage_failure(causes: Iterable[Cause]) -> bool:
    """Return whether a file system or a network refused something that it may grant later: permissions, a full disk."""
    found = list(causes)
    return any(map(_is_storage, found)) and not is_broken_content(found)


def raised_in_python(causes: Iterable[Cause], kind: type[Exception]) -> str | None:
    """Return the text of an error of class `kind` that ended the Python side of the job, if there is one."""
    name = f"\n{kind.__module__}.{kind.__qualname__}: "
    own = [cause for cause in causes if cause.java_class == _PYTHON or _has(cause, _COMMITS)]
    texts = (_SQL_STATE.sub("", cause.text).rpartition(name)[1:] for cause in own)
    return next((text.strip() for found, text in texts if found), None)


def reason(error: BaseException) -> str:
    """Return Spark's message, and the innermost cause, which says what is wrong with the content."""
    first, causes = reason_of(error), causes_of(error)
    detail = causes[-1].text.partition("\n")[0] if len(causes) > 1 else ""
    return f"{first} ({detail})" if detail and detail not in first else first


def _of_python(error: BaseException) -> list[Cause]:
    """Return the error of a Python worker, for which Spark 4.1 has only the text where the job was one of SQL."""
    from pyspark.errors.exceptions.captured import PythonException

    return [Cause(_PYTHON, "", str(error))] if isinstance(error, PythonException) else []


def _chain(error: BaseException) -> Iterable[Any]:
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)  # of Py4J, of PySpark
    while java is not None:
        yield java
        java = java.getCause()


def _cause(java: Any) -> Cause:
    return Cause(str(java.getClass().getName()), _condition(java), str(java.getMessage() or java.toString()))


def _condition(java: Any) -> str:
    try:
        return str(java.getCondition() or "")
    except Exception:  # an error that is not Spark's own
        return ""


def _is_storage(cause: Cause) -> bool:
    if cause.java_class in _ADDRESS_CLASSES:
        return False
    return cause.java_class in _STORAGE_CLASSES or cause.java_class.startswith(_STORAGE_PACKAGES)


def _is_broken(cause: Cause) -> bool:
    is_of_codec = cause.java_class in _CODEC_CLASSES and _CODEC_WORDS.fullmatch(cause.text) is not None
    return is_of_codec or cause.java_class in _BROKEN_CLASSES or _has(cause, _BROKEN_CONDITIONS)


def _has(cause: Cause, conditions: Iterable[str]) -> bool:
    """Return whether a cause has one of the conditions; each includes those below it: `A` includes `A.B`."""
    return any(f"{cause.condition}.".startswith(f"{condition}.") for condition in conditions)
