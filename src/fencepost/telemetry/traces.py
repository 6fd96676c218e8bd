"""Tracebacks as text that can be sent and stored."""

import traceback


def trace_of(error: BaseException) -> str:
    """Return the traceback of `error`, as Python prints it, in which every character can be encoded as UTF-8.

    An error may quote a lone surrogate, which JSON cannot represent: the state of its task would never be reported.
    """
    return "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace").decode()
