"""Log lines: one per event, with time, level and logger; the libraries' lines have the same format."""

import logging
import math
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from fencepost.secret.known import protect
from fencepost.secret.redaction import redacted
from fencepost.telemetry.loggers import FIELDS, REQUEST, add_subject, quiet_libraries
from fencepost.telemetry.plain_line import is_json, printable
from fencepost.telemetry.traces import log_what_nobody_catches, split_trace

_CLIENTS = re.compile(r"kafka\.|.*\.librdkafka$")
_PASSING = re.compile(r" \(.*|; waiting .*")  # how often, and for how long
_REPEATED_S = 10.0
_MOST_KNOWN = 1_000


class Repeats(logging.Filter):
    """Lets a line of the Kafka clients through once in ten seconds: while a broker is away, each repeats it many times
    a second.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._printed_at: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not _CLIENTS.match(record.name):
            return True
        line, now = (record.name, _PASSING.sub("", record.getMessage())), self._now()
        if now - self._printed_at.get(line, -math.inf) < _REPEATED_S:
            return False
        if len(self._printed_at) >= _MOST_KNOWN:
            self._printed_at.clear()
        self._printed_at[line] = now
        return True


def _is_not_py4js(record: logging.LogRecord) -> bool:
    """Return whether to print a line. Lines of py4j at the root logger are not printed: they are tracebacks from the
    end of Spark's JVM.
    """
    return record.name != "root" or record.levelno >= logging.WARNING or "py4j" not in Path(record.pathname).parts


def _redact(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Hide passwords that nobody knew, in the message and the trace."""
    for key in ("event", "exception", "path"):
        if isinstance(event.get(key), str):
            event[key] = redacted(event[key])
    return event


def _separate(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Give JSON the fields of a request in place of its line, and a trace that ends the message as `exception`."""
    if fields := getattr(event["_record"], REQUEST, None):
        return {**event, "event": "request", **fields}
    message, trace = split_trace(event["event"])
    return event if trace is None else {"exception": trace, **event, "event": message}


def _escape(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escape control characters, which could write to the terminal of whoever reads the log. JSON does it by itself."""
    return {key: printable(value) if isinstance(value, str) else value for key, value in event.items()}


def configure_logs(level: str | None = None) -> None:
    """Send all logging of this process to stderr. Reads `FENCEPOST_LOG_LEVEL` and `FENCEPOST_LOG_FORMAT=json`."""
    chosen = (level or os.environ.get("FENCEPOST_LOG_LEVEL") or "INFO").upper()
    renderer = structlog.processors.JSONRenderer() if is_json() else structlog.dev.ConsoleRenderer(colors=False)
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(FIELDS),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        *([_separate, _redact] if is_json() else [_redact, _escape]),
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(Repeats())
    handler.addFilter(_is_not_py4js)
    handler.addFilter(add_subject)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared))
    protect(handler)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(chosen)
    quiet_libraries()
    log_what_nobody_catches()
