"""Spark's configuration for a Fencepost worker: defaults with their reasons, and what may be on a command line."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from fencepost.embedded.java import LATE_COMPILER, environment_options, giving_way
from fencepost.secret.known import hide
from fencepost.secret.redaction import is_secret_name

NOMINAL_CORES = 64
"""A slot waits for Kafka and the network most of the time, so local mode offers more "cores" than the machine has: they
are places for Spark tasks. The second number of `local[64,1]` is the number of attempts of a task: one, because the
worker restarts slots and splits itself, and then knows the reason.
"""

LOCAL_MASTER = f"local[{NOMINAL_CORES},1]"
DAEMON_MODULE = "fencepost.spark.session.daemon"
_LOG4J = Path(__file__).with_name("log4j2.properties")

# The client's copy of each record is freed at the end of its transaction. By default glibc then returns the memory to
# the system, and requests it again, page by page, for the next transaction (decision 0015).
_TUNABLES = "GLIBC_TUNABLES"
_KEEP_MEMORY = f"glibc.malloc.trim_threshold={32 << 20}:glibc.malloc.mmap_threshold={8 << 20}"

_UTF8_LOCALE = "C.UTF-8"
_TEXT = "-Dfile.encoding=UTF-8"  # Java 17 takes this from the locale
_EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
# The JVM is quiet, small and quick to start, unless the user says otherwise.
_JVM = (
    "-XX:-UsePerfData",
    *LATE_COMPILER,
    _TEXT,
    f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}",
    "-XX:+UseSerialGC",
    "-Xms32m",  # by default a 64th of the machine's memory, and its garbage is not collected until it is full
)
_MEMORY, _USUAL_MEMORY = "spark.driver.memory", "1g"

# Spark redacts by a similar pattern (spark.redaction.regex), for keys and values. This one is for values.
_SECRET = re.compile(r"secret|password|passwd|token|access[.]?key|credential|jaas", re.IGNORECASE)
_OF_FILES = frozenset(
    {
        "spark.driver.extraClassPath",
        "spark.executor.extraClassPath",
        "spark.files",
        "spark.jars",
        "spark.jars.packages",
        "spark.submit.pyFiles",
    }
)
"""Properties that name files, whose names may contain "token": the JVM needs them on its command line."""
_EVERYTHING = str(1 << 40)
_REDACTION, _REDACTED = "spark.redaction.regex", "(?i)secret|password|token|access[.]?key"


def is_secret(key: str, value: str) -> bool:
    """Return whether a property must stay off the JVM's command line (E11)."""
    if key in _OF_FILES:
        return False
    has_known = hide(value) != value
    return has_known or is_secret_name(key) or _SECRET.search(value) is not None or key.startswith("spark.executorEnv.")


def is_local(master: str) -> bool:
    """Return whether executors are in the driver's JVM."""
    return master == "local" or master.startswith("local[")


def is_on_this_machine(master: str) -> bool:
    """Return whether executors certainly see this machine's Python environment."""
    return is_local(master) or re.match(r"(spark://(localhost|127\.0\.0\.1|\[::1\])|local-cluster)", master) is not None


def spark_properties(given: Mapping[str, str]) -> dict[str, str]:
    """Return the properties to start Spark with: the user's have precedence over our defaults."""
    master = given.get("spark.master", LOCAL_MASTER)
    properties = _defaults()
    if _TUNABLES not in os.environ:
        properties[f"spark.executorEnv.{_TUNABLES}"] = _KEEP_MEMORY
    if is_on_this_machine(master):
        properties |= _defaults_on_this_machine()
    if not is_local(master):
        # Java takes the encoding of file names from the locale, and an executor's locale is not known here.
        properties |= {"spark.executorEnv.LC_ALL": _UTF8_LOCALE, "spark.executorEnv.PYTHONUTF8": "1"}
        properties |= _defaults_of_leaving(master)
    if is_local(master):
        # Else Spark would cut even three rows into as many partitions as there are nominal cores.
        properties["spark.default.parallelism"] = str(os.cpu_count() or 1)
    users = [*environment_options(), *given.get(_DRIVER_OPTIONS, "").split()]
    if giving_way([f"-Xmx{_USUAL_MEMORY}"], users):
        properties[_MEMORY] = _USUAL_MEMORY
    properties.update(given)
    properties["spark.master"] = master
    if not is_local(master) and "-Dfile.encoding" not in given.get(_EXECUTOR_OPTIONS, ""):
        properties[_EXECUTOR_OPTIONS] = f"{_TEXT} {given.get(_EXECUTOR_OPTIONS, '')}".strip()
    properties[_DRIVER_OPTIONS] = " ".join([*giving_way(_JVM, users), given.get(_DRIVER_OPTIONS, "")]).strip()
    return {**properties, **_redaction(given)}


def _redaction(given: Mapping[str, str]) -> dict[str, str]:
    """Let Spark redact the properties whose values are secrets or were looked up, whatever they are called (E11)."""
    secret = [key for key, value in given.items() if hide(value) != value or _is_missed_by_spark(key)]
    if not secret:
        return {}
    return {_REDACTION: "|".join([given.get(_REDACTION, _REDACTED), *map(re.escape, secret)])}


def _is_missed_by_spark(key: str) -> bool:
    return is_secret_name(key) and re.search(_REDACTED, key) is None


def _defaults() -> dict[str, str]:
    return {
        "spark.app.name": "fencepost",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # A file, or any split, is one partition: its rows keep their order, and it is one transaction.
        "spark.sql.files.maxPartitionBytes": _EVERYTHING,
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        # Each attempt of a task is fenced by the next one; a speculative copy would only fence the original.
        "spark.speculation": "false",
        # A split of a few rows takes 0.1 s in an existing process, and 1-2 s in a forked one. A split leaves no client
        # in a reused process; a slot, which may leave threads, ends with its process (E8).
        "spark.python.worker.reuse": "true",
        "spark.python.task.killTimeout": "500ms",
        # Native code may end a process silently, so the process prints the stack of each thread as it ends.
        "spark.python.worker.faulthandler.enabled": "true",
        # JVM and Python hold a batch at the same time: wide rows must not fill the driver's modest memory.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
        "spark.sql.dataFrameQueryContext.enabled": "false",
        # By default Spark writes INT96, in nanoseconds, in which others misread years before 1678 and after 2262.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Without it Spark refuses columns of TIME, the type of Connect's Time.
        "spark.sql.timeType.enabled": "true",
        # Splits that are written together are a union, and one program reads them all. It is generated and compiled
        # once, not for each number of splits and each place among them.
        "spark.sql.codegen.wholeStage.union.enabled": "false",
        "spark.sql.codegen.useIdInClassName": "false",
    }


def _defaults_on_this_machine() -> dict[str, str]:
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Elsewhere our package may come with py_files, which a daemon does not see.
        "spark.python.daemon.module": DAEMON_MODULE,
    }


def _defaults_of_leaving(master: str) -> dict[str, str]:
    """Let executors say that they are to end, and end with their last task (docs/decisions/0124).

    YARN and Kubernetes end an application that has lost twice as many executors as it has. By default they count from
    its start, and a worker runs for months.
    """
    properties = {"spark.decommission.enabled": "true", "spark.executor.failuresValidityInterval": "1m"}
    if not master.startswith("k8s:"):  # there, the script of Spark's images sends the usual signal, SIGPWR
        properties["spark.executor.decommission.signal"] = "TERM"
    return properties


def python_environment(master: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables from which PySpark chooses the executors' Python."""
    if "spark.pyspark.python" in properties:
        return {"PYSPARK_PYTHON": properties["spark.pyspark.python"]}
    if "PYSPARK_PYTHON" not in os.environ and is_on_this_machine(master):
        return {"PYSPARK_PYTHON": sys.executable}
    return {}


def text_environment(environment: Mapping[str, str], codeset: str) -> dict[str, str]:
    """Return an environment for children in which text and file names are UTF-8, whatever the locale is.

    `codeset` is the encoding of this process's locale: a locale that the environment names may not be installed.
    """
    made = {**environment, "PYTHONUTF8": "1"}
    if codeset.upper().replace("-", "") != "UTF8":
        whole = made.pop("LC_ALL", None)  # it would take precedence over the next
        if whole:
            made["LANG"] = whole
        made["LC_CTYPE"] = _UTF8_LOCALE
    return made
