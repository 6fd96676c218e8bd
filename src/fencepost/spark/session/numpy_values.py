"""Keeps PySpark from importing numpy and pandas in a driver without such values: saves 0.7 s and 60 MB of a worker."""

from typing import Any

from py4j import protocol
from pyspark.sql import types  # noqa: F401  (it registers the converters)


class _OnlyNumpy:
    """One of PySpark's converters of arguments for the JVM, used only for values of numpy.

    PySpark's own imports numpy, and pandas with it, to test whether numpy is there, before it looks at the argument.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def can_convert(self, value: Any) -> bool:
        return type(value).__module__.partition(".")[0] == "numpy" and bool(self.inner.can_convert(value))

    def convert(self, value: Any, gateway_client: Any) -> Any:
        return self.inner.convert(value, gateway_client)


def ask_numpy_only_for_its_own() -> None:
    """Wrap PySpark's converters of numpy's values. Idempotent."""
    converters = protocol.INPUT_CONVERTER
    for place, converter in enumerate(converters):
        if type(converter).__name__ in ("NumpyScalarConverter", "NumpyArrayConverter"):
            converters[place] = _OnlyNumpy(converter)
