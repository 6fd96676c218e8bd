"""The sentence of a trace that says what is wrong, of Python's, Java's and Kafka Connect's traces."""

import pytest

from fencepost.api import FatalError
from fencepost.builtin.java.error import JavaError, Thrown
from fencepost.telemetry.traces import reason_first, reason_in, trace_of

JAVA = (
    "java.util.ServiceConfigurationError: com.fasterxml.Module: Jdk8Module not a subtype\n"
    "org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask\n"
    "\tat org.apache.kafka.connect.runtime.WorkerSinkTask.run(WorkerSinkTask.java:1)\n"
    "Caused by: java.util.ServiceConfigurationError: com.fasterxml.Module: Jdk8Module not a subtype\n"
    "\t... 12 more"
)


def raised(error: Exception, cause: Exception | None = None) -> str:
    try:
        raise error from cause
    except Exception as caught:
        return trace_of(caught)


@pytest.mark.parametrize(
    ("trace", "reason"),
    [
        (raised(ValueError("no such table")), "ValueError: no such table"),
        (raised(FatalError("Tolerance exceeded"), ValueError("bad")), "Tolerance exceeded"),
        (raised(ValueError("two lines:\nthe second")), "ValueError: two lines:"),
        (
            raised(JavaError(JAVA, Thrown("E", None, ""))),
            "java.util.ServiceConfigurationError: com.fasterxml.Module: Jdk8Module not a subtype",
        ),
        (raised(RuntimeError(raised(KeyError("of a leader")))), "KeyError: 'of a leader'"),
        (JAVA.partition("\n")[2], JAVA.splitlines()[1] + ": " + JAVA.splitlines()[0]),
        ("The task has stood still for 5 s\n  File x", "The task has stood still for 5 s"),
        ("Traceback (most recent call last):\n  File cut", "File cut"),
        ("", ""),
        (None, ""),
    ],
)
def test_reason_of_a_trace_is_the_sentence_with_its_cause(trace: str | None, reason: str) -> None:
    assert reason_in(trace) == reason


def test_reason_of_a_trace_is_cut_to_300_characters() -> None:
    assert len(reason_in("x" * 1000)) == 300


def test_log_of_a_trace_begins_with_its_reason_once() -> None:
    trace = raised(ValueError("no such table"))
    assert reason_first(trace).startswith("ValueError: no such table\nTraceback (most recent call last):\n")
    assert reason_first("It waits\nat x") == "It waits\nat x"
