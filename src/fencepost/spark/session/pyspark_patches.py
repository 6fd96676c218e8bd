"""Keeps PySpark from logging errors that others report and from importing numpy, and SQL from calling Java."""

from typing import Any

from py4j import protocol
from pyspark.errors import PySparkException
from pyspark.sql import types  # noqa: F401  (it registers the converters)


def leave_exceptions_to_their_catcher() -> None:
    """Make PySpark log none of its exceptions. Idempotent.

    While PySpark logs one, it makes its own class that of all loggers of the process. If two threads fail at once it
    stays so: loggers made later drop messages below a warning, and print the rest as JSON among all other lines.
    """
    PySparkException._log_exception = lambda error: None


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
    """Wrap PySpark's converters of numpy's values. Saves 0.7 s and 60 MB of a worker. Idempotent."""
    converters = protocol.INPUT_CONVERTER
    for place, converter in enumerate(converters):
        if type(converter).__name__ in ("NumpyScalarConverter", "NumpyArrayConverter"):
            converters[place] = _OnlyNumpy(converter)


CLOSED = (
    *("java_method", "reflect", "try_reflect", "from_avro", "schema_of_avro", "from_protobuf", "to_protobuf"),
    *("from_xml", "schema_of_xml"),  # rowValidationXSDPath
)
_OFF = (
    "spark.sql.runSQLOnFiles",
    "spark.sql.variable.substitute",  # ${spark.…} and ${env:…} are the worker's settings and environment
)


def close_functions(session: Any) -> None:
    """Remove functions that call Java, load classes or read files from a session, and turn off files as tables.

    `transforms.sql` is text from a config, and a driver runs it for every user who may edit a connector. The functions
    are gone from Spark's registry and, as qualified names are looked up there, from its JVM: no spelling of a name
    finds them. What the worker's file says of these settings does not count. Plug-ins may still use `spark.read`.
    """
    jvm = session._jvm
    registry = getattr(getattr(jvm.org.apache.spark.sql.catalyst.analysis, "FunctionRegistry$"), "MODULE$")
    own = session._jsparkSession.sessionState().functionRegistry()
    option, name = jvm.scala.Option, jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    for each in CLOSED:
        registry.builtin().dropFunction(name(each))
        own.dropFunction(name(each, option.apply("builtin"), option.apply("system")))
    for setting in _OFF:
        session.conf.set(setting, "false")
