"""Tracebacks as text that can be sent and stored, and the sentence in one that says what is wrong."""

import logging
import re
import sys
import threading
import traceback
from types import TracebackType
from typing import Any

from fencepost.secret.known import hide

_TRACE = "Traceback (most recent call last):"
_OUR_CLASS = re.compile(r"^fencepost\.[\w.]+: (?=\S)")
_CAUSED_BY = "Caused by: "
_MOST_CHARACTERS = 300


def trace_of(error: BaseException) -> str:
    """Return the traceback of `error`, as Python prints it, but without the secrets that this process knows (E11).

    Every character can be encoded as UTF-8. An error may quote a lone surrogate, which JSON cannot represent: the state
    of its task would never be reported.
    """
    return hide("".join(traceback.format_exception(error))).encode("utf-8", "backslashreplace").decode()


def split_trace(text: str) -> tuple[str, str | None]:
    """Return a text without the traceback at its end, and that traceback if there is one."""
    message, found, trace = text.partition(_TRACE)
    return (message.rstrip(": \n"), f"{_TRACE}{trace}") if found else (text, None)


def reason_in(trace: str | None) -> str:
    """Return the line of a status's trace that says what is wrong, cut at 300 characters; empty if there is no trace.

    Of Python's traces that is the error that was raised last, without the name of its class if that is one of ours.
    Of others, such as those of Kafka Connect's workers, it is the first line, with the innermost cause of Java's.
    """
    lines = [line for line in (trace or "").splitlines() if line.strip()]
    begin = max((n for n, line in enumerate(lines) if line.endswith(_TRACE) and not line[0].isspace()), default=None)
    if begin is None:
        found = _with_cause(lines)
    else:
        found = next((line for line in lines[begin + 1 :] if not line[0].isspace()), lines[-1])
    return _OUR_CLASS.sub("", found.strip())[:_MOST_CHARACTERS]


def reason_first(trace: str) -> str:
    """Return a trace for a log, after the line that says what is wrong."""
    text, reason = trace.strip(), reason_in(trace)
    return text if text.startswith(reason) else f"{reason}\n{text}"


def _with_cause(lines: list[str]) -> str:
    first = lines[0].strip() if lines else ""
    cause = next((line.removeprefix(_CAUSED_BY) for line in reversed(lines) if line.startswith(_CAUSED_BY)), "")
    return first if cause in first else f"{first}: {cause}"


log = logging.getLogger(__name__)


def log_what_nobody_catches() -> None:
    """Log warnings and the errors of threads, of finalizers and of this process, which would only be printed."""
    threading.excepthook = _in_thread
    sys.unraisablehook = _in_finalizer
    sys.excepthook = _in_process
    logging.captureWarnings(True)


def _in_thread(found: threading.ExceptHookArgs) -> None:
    if found.exc_value is not None and not isinstance(found.exc_value, SystemExit):
        name = "unknown" if found.thread is None else found.thread.name
        log.error("thread %s ended with an error: %s", name, trace_of(found.exc_value))


def _in_finalizer(found: Any) -> None:
    if found.exc_value is not None:
        log.error("%s %r: %s", found.err_msg or "an error is ignored in", found.object, trace_of(found.exc_value))


def _in_process(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        log.critical("%s", trace_of(error))
