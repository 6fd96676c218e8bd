"""What this process's loggers write: from which level on, and about which connector and task.

Loggers and levels have Kafka Connect's names (KIP-495, KIP-976). The subject of a line is in the fields `connector` and
`task` of its record.
"""

import contextlib
import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import NamedTuple

ROOT = "root"
# Kafka Connect's names of levels; if a level has several names, the last one is shown.
LEVELS = {
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
_NAMES = {level: name for name, level in LEVELS.items()}

FIELDS = ("connector", "task")
REQUEST = "request"
"""The attribute of a record about a request: its fields, such as `user` and `status`, which a log of JSON has."""

_Fields = Mapping[str, str | int]

_SUBJECT: ContextVar[_Fields] = ContextVar("subject", default=MappingProxyType({}))


class LoggerLevel(NamedTuple):
    """A level, and when it was changed here, in milliseconds; None if never."""

    level: str
    last_modified_ms: int | None


class Loggers:
    """All loggers of the process, and when each was changed here. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._modified_ms: dict[str, int] = {}
        self._chosen: dict[str, str] = {}
        self._followers: list[weakref.WeakMethod[Callable[[], None]]] = []

    def names(self) -> list[str]:
        known = logging.Logger.manager.loggerDict
        return sorted([ROOT, *(name for name, it in known.items() if isinstance(it, logging.Logger))])

    def level(self, name: str) -> LoggerLevel:
        level = _logger(name).getEffectiveLevel()
        return LoggerLevel(_NAMES.get(level, logging.getLevelName(level)), self._modified_ms.get(name))

    def set_level(self, namespace: str, level: str, now_ms: int) -> list[str]:
        """Set the level of a logger and its children; return their names. Unchanged ones keep their time."""
        number = LEVELS[level.upper()]
        with self._lock:
            _logger(namespace)
            prefix = "" if namespace == ROOT else namespace + "."
            affected = [name for name in self.names() if name == namespace or name.startswith(prefix)]
            # Collected before any is set: a child without its own level follows its parent.
            for name in affected:
                if _logger(name).getEffectiveLevel() != number:
                    self._modified_ms[name] = now_ms
            for name in affected:
                _logger(name).setLevel(number)
            for name in [name for name in self._chosen if name.startswith(prefix)]:
                del self._chosen[name]
            self._chosen[namespace] = level.upper()
            followers = [each() for each in self._followers]
            self._followers = [weakref.WeakMethod(each) for each in followers if each is not None]
        for each in followers:
            if each is not None:
                each()
        return affected

    def chosen(self) -> dict[str, str]:
        """Return the levels that were set here, by logger. Each holds for the loggers below, unless they have one."""
        with self._lock:
            return dict(self._chosen)

    def adopt(self, levels: Mapping[str, str], now_ms: int) -> None:
        """Set all levels that another process has chosen."""
        before = self.chosen()
        for name in sorted(levels, key=lambda name: (name != ROOT, name)):  # parents first
            if before.get(name) != levels[name]:
                self.set_level(name, levels[name], now_ms)

    def follow(self, changed: Callable[[], None]) -> None:
        """Call a method, while its object lives, whenever a level is set. It must not wait."""
        with self._lock:
            self._followers.append(weakref.WeakMethod(changed))


loggers = Loggers()
"""The loggers of this process."""


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


_LEVELS = dict.fromkeys(("py4j", "kafka", "httpx", "httpx2", "fencepost.rest.access"), logging.WARNING)
_LEVELS |= {"kafka.net.selector": logging.ERROR}  # it warns about a busy machine


def quiet_libraries() -> None:
    """Let libraries log only what an operator needs to know."""
    for name, level in _LEVELS.items():
        logging.getLogger(name).setLevel(level)


@contextlib.contextmanager
def about(connector: str, task: int | None = None) -> Iterator[None]:
    """Let what this thread logs in the block have the fields `connector` and, if there is one, `task`."""
    token = _SUBJECT.set(fields_of(connector, task))
    try:
        yield
    finally:
        _SUBJECT.reset(token)


def fields_of(connector: str, task: int | None = None) -> _Fields:
    """Return the fields for the `extra` of a single line."""
    return {"connector": connector} if task is None else {"connector": connector, "task": task}


def subject() -> _Fields:
    """Return the fields of what this thread logs."""
    return _SUBJECT.get()


def add_subject(record: logging.LogRecord) -> bool:
    """Add the fields of the thread to a record, unless it has its own: a filter of handlers, which passes all."""
    if not hasattr(record, "connector"):
        record.__dict__.update(_SUBJECT.get())
    return True
