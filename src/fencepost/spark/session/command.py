"""The command that starts the driver's JVM: directly if Spark's own scripts would add nothing, else `spark-submit`.

The scripts start one JVM to find the command line of the other, which resolves jars, files and clusters before it opens
the gateway. That takes more than a second each time, even for a local master that needs nothing of it.
"""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from fencepost.spark.session.conf import is_local, is_secret

_GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"

# Spark's launcher and spark-submit act on these properties: if one is set, they are used.
_FOR_SUBMIT = (
    "spark.jars", "spark.files", "spark.archives", "spark.submit.", "spark.kerberos.", "spark.yarn.",
    "spark.driver.extraClassPath", "spark.driver.extraLibraryPath", "spark.driver.defaultJavaOptions",
    "spark.driver.userClassPathFirst",
)  # fmt: skip
_ENVIRONMENT_FOR_SUBMIT = (
    "SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_SUBMIT_OPTS",
    "SPARK_DRIVER_MEMORY", "PYSPARK_SUBMIT_ARGS",
)  # fmt: skip
_FILES_FOR_SUBMIT = ("conf/spark-env.sh", "conf/spark-defaults.conf", "spark-distribution")

# The packages of the JDK that Spark opens (its JavaModuleOptions). The incubating vector module is left out, which only
# Spark's linear algebra uses.
_OPENED = (
    "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io",
    "java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
    "java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)  # fmt: skip
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)


def spark_home() -> Path:
    """Return where Spark's jars are, without importing PySpark, which takes a third of a second."""
    given = os.environ.get("SPARK_HOME")
    if given:
        return Path(given)
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("PySpark is not installed")
    return Path(spec.origin).parent


def is_plain(properties: Mapping[str, str], environment: Mapping[str, str], home: Path) -> bool:
    """Return whether the JVM can be started directly: a local master, and nothing that Spark's scripts act on."""
    return (
        is_local(properties["spark.master"])
        and not any(key.startswith(_FOR_SUBMIT) for key in properties)
        and not any(environment.get(name) for name in _ENVIRONMENT_FOR_SUBMIT)
        and not any((home / name).exists() for name in _FILES_FOR_SUBMIT)
    )


def gateway_command(
    properties: Mapping[str, str], environment: Mapping[str, str], home: Path, straight: Sequence[str] = ()
) -> list[str]:
    """Return the command that opens PySpark's gateway; it contains no secret (E11).

    Args:
        straight: more options of a JVM that is started directly.
    """
    shown = {k: v for k, v in properties.items() if not is_secret(k, v)}
    if is_plain(properties, environment, home):
        java = Path(environment["JAVA_HOME"], "bin", "java") if environment.get("JAVA_HOME") else "java"
        options = shlex.split(shown.get("spark.driver.extraJavaOptions", ""))
        memory = properties.get("spark.driver.memory")
        heap = [f"-Xmx{memory}"] if memory else []
        return [str(java), "-cp", _class_path(home), *heap, *straight, *options, *MODULE_OPTIONS, _GATEWAY]
    conf = [part for key, value in shown.items() for part in ("--conf", f"{key}={value}")]
    arguments = shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    return [str(home / "bin" / "spark-submit"), *conf, *arguments]


def gateway_environment(home: Path) -> dict[str, str]:
    """Return the environment variables that Spark's scripts set for their children."""
    return {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "SPARK_CONNECT_MODE": "0", "PYTHONHASHSEED": "0"}


def needs_home(properties: Mapping[str, str], environment: Mapping[str, str], home: Path, python: str | None) -> bool:
    """Return whether the JVM must know `home`: Python processes below it then search the archives of PySpark in it
    first.

    It need not if it is started directly and those processes run `python`, in which the same PySpark is installed.
    Python caches no bytecode of an archive: each process would spend half a second compiling PySpark.
    """
    return python != sys.executable or not is_plain(properties, environment, home)


def _class_path(home: Path) -> str:
    """Return the class path in Spark's own order: slf4j-api precedes the jars that contain an older one."""
    first = sorted(home.glob("jars/slf4j-api-*.jar"))
    return os.pathsep.join([str(home / "conf"), *map(str, first), str(home / "jars" / "*")])
