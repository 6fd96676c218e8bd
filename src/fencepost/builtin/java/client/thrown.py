"""An exception of Java's as one of Python's."""

from collections.abc import Mapping
from typing import Any

from fencepost.builtin.java.error import JavaError, JavaPluginError, JavaRetriableError, Thrown


def exception_of(described: Mapping[str, Any]) -> JavaError | JavaRetriableError | JavaPluginError:
    """Return the exception for what the host has described."""
    if described["kind"] == "plugin":
        return JavaPluginError(described["message"])
    thrown = Thrown(described["class"], described["message"], described["trace"])
    cause = _named(described["root_class"], described["root_message"])
    error = JavaRetriableError if described["kind"] == "retriable" else JavaError
    return error(f"{cause}\n{thrown.trace.rstrip()}", thrown)


def _named(class_name: str, message: str | None) -> str:
    return class_name if message is None else f"{class_name}: {message}"
