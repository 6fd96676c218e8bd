"""What nobody catches: Python itself prints it to stderr, past the handlers that hide secrets (E11)."""

import logging
import sys
import threading
from types import TracebackType
from typing import Any

from fencepost.telemetry.traces import trace_of

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
