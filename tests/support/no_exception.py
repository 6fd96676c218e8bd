"""Errors of plug-ins that are not subclasses of `Exception`."""

import asyncio


class PanicException(BaseException):
    """Like pyo3's error for a panic of an extension in Rust."""


def no_exceptions() -> list[BaseException]:
    """Return one of each."""
    return [SystemExit(3), asyncio.CancelledError(), PanicException("index out of bounds")]
