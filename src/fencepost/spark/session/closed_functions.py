"""What the SQL of users does not have: functions that call Java, load classes or read files; files as tables; settings.

`transforms.sql` is text from a config, and a driver runs it for whoever may edit a connector. The functions are gone
from Spark's registry, so no spelling of a name finds them. Code of plug-ins may still read files with `spark.read`.
"""

from typing import Any

CLOSED = (
    *("java_method", "reflect", "try_reflect", "from_avro", "schema_of_avro", "from_protobuf", "to_protobuf"),
    *("from_xml", "schema_of_xml"),  # rowValidationXSDPath
)
_OFF = (
    "spark.sql.runSQLOnFiles",
    "spark.sql.variable.substitute",  # ${spark.…} and ${env:…} are the worker's settings and environment
)


def close_functions(session: Any) -> None:
    """Remove them from a session and, as qualified names are looked up there, from its JVM.

    What the worker's file says of these settings of Spark does not count.
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
