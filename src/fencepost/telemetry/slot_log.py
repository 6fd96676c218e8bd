"""The log of a slot: a line of JSON for each event, which the worker that reads it logs as its own.

A trace is part of its event's line. Where executors run elsewhere, these lines are in their logs.
"""

import logging
import time
from typing import Any

import orjson

from fencepost.secret.known import protect
from fencepost.secret.redaction import redacted
from fencepost.telemetry.loggers import FIELDS, add_subject

_START = '{"time":'


class SlotFormatter(logging.Formatter):
    """Formats an event as `{"time": ..., "level": ..., "logger": ..., "event": ..., "connector": ..., "task": ...}`."""

    def __init__(self) -> None:
        super().__init__(datefmt="%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": f"{self.formatTime(record, self.datefmt)}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "event": redacted(super().format(record)),
        }
        line |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        for name, value in line.items():
            if isinstance(value, str):
                line[name] = value.encode("utf-8", "replace").decode()  # no line of UTF-8 has half a surrogate pair
        return orjson.dumps(line, default=str).decode()


def write_slot_log(level: str) -> None:
    """Send all logging of this process to stderr, in the format of a slot and without secrets."""
    handler = logging.StreamHandler()
    handler.setFormatter(SlotFormatter())
    handler.addFilter(add_subject)
    protect(handler)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def log_again(line: str) -> bool:
    """Log an event of a slot in this process. Returns False if the line is not one."""
    if not line.startswith(_START):
        return False
    try:
        event = orjson.loads(line)
        level = logging.getLevelNamesMapping()[event["level"]]
        logger, text = logging.getLogger(event["logger"]), str(event["event"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return False
    logger.log(level, "%s", text, extra={name: event[name] for name in FIELDS if name in event})
    return True
