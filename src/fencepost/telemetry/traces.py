"""Tracebacks as text that can be sent and stored."""

import traceback

from fencepost.telemetry.secret import hide

_TRACE = "Traceback (most recent call last):"


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
