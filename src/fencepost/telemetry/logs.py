"""Log lines: one per event, with time, level and logger; the libraries' own lines go the same way."""

import logging
import os
import sys

import structlog

_QUIET = dict.fromkeys(("py4j", "kafka", "httpx", "fencepost.rest.access"), logging.WARNING)


def configure_logs(level: str | None = None) -> None:
    """Send all logging of this process to stderr. `FENCEPOST_LOG_LEVEL` and `FENCEPOST_LOG_FORMAT=json` are heeded."""
    chosen = (level or os.environ.get("FENCEPOST_LOG_LEVEL") or "INFO").upper()
    is_json = os.environ.get("FENCEPOST_LOG_FORMAT", "").lower() == "json"
    renderer = structlog.processors.JSONRenderer() if is_json else structlog.dev.ConsoleRenderer(colors=False)
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(chosen)
    for name, quiet in _QUIET.items():
        logging.getLogger(name).setLevel(quiet)
