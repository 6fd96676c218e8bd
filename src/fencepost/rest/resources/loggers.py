"""`/admin/loggers`: log levels of this worker (KIP-495), lost when it restarts."""

import logging
import threading
import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fencepost.cluster.operations import BadRequestError, NotFoundError
from fencepost.rest.answer import Json, json_answer
from fencepost.rest.body import read_string_map
from fencepost.rest.describe import takes
from fencepost.rest.model import LevelBody, LoggerBody
from fencepost.rest.path import PathText

router = APIRouter(prefix="/admin/loggers", tags=["logging"])

_ROOT = "root"
# Kafka Connect's names of levels; the last of several names of one level is the one that is shown.
_LEVELS = {
    "ALL": 1,
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARNING": logging.WARNING,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "CRITICAL": logging.CRITICAL,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}
_NAMES = {level: name for name, level in _LEVELS.items()}


class Loggers:
    """Levels of this process's loggers, and when each was changed here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._modified_ms: dict[str, int] = {}

    def names(self) -> list[str]:
        known = logging.Logger.manager.loggerDict
        return sorted([_ROOT, *(name for name, it in known.items() if isinstance(it, logging.Logger))])

    def body(self, name: str) -> Json:
        level = _logger(name).getEffectiveLevel()
        return {
            "level": _NAMES.get(level, logging.getLevelName(level)),
            "last_modified": self._modified_ms.get(name),
        }

    def set_level(self, namespace: str, level: int, now_ms: int) -> list[str]:
        """Sets a logger and its children, and says which these are; an unchanged one keeps its time."""
        with self._lock:
            _logger(namespace)
            prefix = "" if namespace == _ROOT else namespace + "."
            affected = [name for name in self.names() if name == namespace or name.startswith(prefix)]
            # All before any is set: a child without a level of its own follows its parent.
            for name in affected:
                if _logger(name).getEffectiveLevel() != level:
                    self._modified_ms[name] = now_ms
            for name in affected:
                _logger(name).setLevel(level)
            return affected


_loggers = Loggers()


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == _ROOT else name)


@router.get("", response_model=dict[str, LoggerBody])
async def list_loggers() -> Response:
    """Loggers of this worker with their levels."""
    return json_answer({name: _loggers.body(name) for name in _loggers.names()})


@router.get("/{logger}", response_model=LoggerBody)
async def get_logger(logger: PathText) -> Response:
    """Level of one logger."""
    if logger not in _loggers.names():
        raise NotFoundError(f"Logger {logger} not found.")
    return json_answer(_loggers.body(logger))


@router.put("/{logger}", response_model=list[str], openapi_extra=takes(LevelBody))
async def put_level(
    logger: PathText, request: Request, scope: Annotated[str, Query(description="worker")] = "worker"
) -> Response:
    """Sets the level of a logger and of its children, on this worker."""
    body = await read_string_map(request, '"level"')
    level = body.get("level")
    if level is None:
        raise BadRequestError("Desired 'level' parameter was not specified in request.")
    if level.upper() not in _LEVELS:
        raise NotFoundError(f"invalid log level '{level}'.")
    if scope.lower() == "cluster":
        raise BadRequestError("Scope 'cluster' is not supported; set the level on each worker.")
    return json_answer(_loggers.set_level(logger, _LEVELS[level.upper()], int(time.time() * 1000)))
