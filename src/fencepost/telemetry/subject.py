"""Which connector and task a log line is about, as the fields `connector` and `task` of its record."""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType

FIELDS = ("connector", "task")
REQUEST = "request"
"""The attribute of a record about a request: its fields, such as `user` and `status`, which a log of JSON has."""

_Fields = Mapping[str, str | int]

_SUBJECT: ContextVar[_Fields] = ContextVar("subject", default=MappingProxyType({}))


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
