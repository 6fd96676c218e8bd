"""Whether a failed job says that content is broken: by what kind of errors it was caused, not by what they print."""

import pytest

from fencepost.config import ConfigError
from fencepost.spark.slot.failure import Cause, is_broken_content, is_storage_failure, raised_in_python

READ = Cause("org.apache.spark.SparkException", "FAILED_READ_FILE.NO_HINT", "Encountered error while reading file /a")
PYTHON = "org.apache.spark.api.python.PythonException"


@pytest.mark.parametrize(
    "causes",
    [
        [READ, Cause("org.apache.spark.SparkException", "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", "[null]")],
        [
            READ,
            Cause("org.apache.spark.SparkException", "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", "in [null]"),
            Cause("java.lang.NumberFormatException", "", "java.io.FileNotFoundException: /x does not exist"),
        ],
        [READ, Cause("org.apache.spark.SparkRuntimeException", "MALFORMED_CSV_RECORD", "PATH_NOT_FOUND")],
        [READ, Cause("java.io.EOFException", "", "Unexpected end of input stream")],
        [READ, Cause("java.io.IOException", "", "invalid distance too far back")],
        [
            Cause("org.apache.spark.SparkException", "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER", "Could not read"),
            Cause("java.lang.RuntimeException", "", "file:/a is not a Parquet file. Expected magic number at tail"),
        ],
        [Cause("org.apache.spark.sql.AnalysisException", "UNABLE_TO_INFER_SCHEMA", "for Parquet")],
        [Cause(PYTHON, "PYTHON_EXCEPTION", "the stream ended"), READ, Cause("java.util.zip.ZipException", "", "bad")],
    ],
)
def test_content_that_fails_on_every_read_is_broken(causes: list[Cause]) -> None:
    assert is_broken_content(causes)


@pytest.mark.parametrize(
    "causes",
    [
        [],
        [Cause(PYTHON, "PYTHON_EXCEPTION", "\nfencepost.ProduceError: topic corrupted-orders: _MSG_TIMED_OUT")],
        [Cause(PYTHON, "PYTHON_EXCEPTION", "\nx.CommitUnknownError: anti-corruption-feed-0: MALFORMED_RECORD")],
        [READ, Cause("java.io.IOException", "", "Unexpected end of stream on https://corrupt.example/")],
        [READ, Cause("java.io.IOException", "", "Stale file handle: /in/JsonParseException.csv")],
        [READ, Cause("java.net.ConnectException", "", "Connection refused")],
        [
            READ,
            Cause("java.io.FileNotFoundException", "", "/in/corrupt.csv"),
            Cause("java.util.zip.ZipException", "", ""),
        ],
        [Cause("org.apache.spark.sql.AnalysisException", "PATH_NOT_FOUND", "/in/MALFORMED_CSV_RECORD.csv")],
        [Cause("org.apache.spark.SparkException", "FAILED_READ_FILE.FILE_NOT_EXIST", "/in/a is not a valid")],
        [Cause("org.apache.spark.SparkException", "MALFORMED_RECORD_IN_PARSING_OF_ANOTHER_KIND", "")],
    ],
)
def test_passing_failure_is_not_broken_content_despite_its_text(causes: list[Cause]) -> None:
    assert not is_broken_content(causes)


def test_an_error_of_the_python_side_is_known_by_its_class() -> None:
    text = "thrown:\nTraceback (most recent call last):\n  File\nfencepost.config.check.ConfigError: one\ntwo\n"
    assert raised_in_python([READ, Cause(PYTHON, "", text)], ConfigError) == "one\ntwo"
    assert raised_in_python([Cause(PYTHON, "", text)], KeyError) is None
    assert raised_in_python([Cause("java.lang.RuntimeException", "", text)], ConfigError) is None
    committing = Cause("org.apache.spark.sql.AnalysisException", "PYTHON_DATA_SOURCE_ERROR", f"{text} SQLSTATE: 38000")
    assert raised_in_python([committing], ConfigError) == "one\ntwo"


@pytest.mark.parametrize(
    "java_class",
    [
        "java.io.EOFException",
        "java.io.IOException",
        "java.io.InterruptedIOException",
        "java.net.NoRouteToHostException",
        "java.net.UnknownHostException",
        "javax.net.ssl.SSLHandshakeException",
        "org.apache.hadoop.fs.PathIOException",
        "org.apache.hadoop.fs.azurebfs.contracts.exceptions.AbfsRestOperationException",
        "org.apache.hadoop.fs.s3a.AWSServiceThrottledException",
        "org.apache.hadoop.fs.s3a.AWSStatus500Exception",
        "org.apache.hadoop.fs.s3a.UnknownStoreException",
        "org.apache.hadoop.hdfs.BlockMissingException",
        "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
        "org.apache.hadoop.ipc.RemoteException",
        "org.apache.hadoop.net.ConnectTimeoutException",
    ],
)
def test_exception_of_a_file_system_is_a_storage_failure(java_class: str) -> None:
    failed = Cause(
        "org.apache.spark.SparkException", "TASK_WRITE_FAILED", "Task failed while writing rows to s3a://a/b"
    )
    cause = Cause("software.amazon.awssdk.services.s3.model.S3Exception", "", "SlowDown (Service: S3)")
    assert is_storage_failure([failed, Cause(java_class, "", "SlowDown"), cause])


@pytest.mark.parametrize(
    "java_class",
    [
        "java.lang.ArithmeticException",
        "java.net.MalformedURLException",
        "java.net.URISyntaxException",
        PYTHON,
        "org.apache.spark.SparkException",
    ],
)
def test_exception_of_a_query_is_not_a_storage_failure(java_class: str) -> None:
    assert not is_storage_failure([Cause(java_class, "", "org.apache.hadoop.fs.s3a.AWSStatus500Exception: 500")])
