"""The process from which Spark forks Python workers: PySpark's daemon, with our modules imported before any fork.

Only modules that start no thread and open nothing may be imported: a client made before a fork hangs after it (E8). A
module that is missing on an executor is skipped; the worker that needs it then reports that.
"""

import contextlib
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from fencepost.telemetry.measure import give_back, lasting_imports, share_a_heap

_LIGHT = (
    "pyspark.worker",
    "orjson",
    "confluent_kafka",
    "kafka.protocol.consumer",
    "kafka.protocol.metadata",
    "kafka.protocol.parser",
    "fencepost.task.slot.slot",
    "fencepost.spark.datasource",
    "fencepost.spark.partition.write",
    "fencepost.spark.split.run",
)


_EXECUTORS = "pyspark.worker"


def main() -> None:
    """Serve, as `pyspark.daemon` does; Spark names the module that its workers run.

    Besides the executors' workers, Spark has a daemon for each planning step of a data source, which needs none of
    this.
    """
    sys.path[:] = without_archives(sys.path)
    share_a_heap()
    with lasting_imports():
        for name in _LIGHT if _EXECUTORS in sys.argv else ():
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    give_back()
    importlib.import_module("pyspark.daemon").manager()


def without_archives(path: Sequence[str]) -> list[str]:
    """Return a module search path without Spark's archives of PySpark and py4j, if the same PySpark is installed.

    Spark puts its archives first. Python caches no bytecode of an archive: each daemon would spend a second of
    processor time compiling what the installation, to which the archives belong, already has compiled.
    """
    return [entry for entry in path if not _is_double(Path(entry), path)]


def _is_double(archive: Path, path: Sequence[str]) -> bool:
    """Return whether it is `<installation>/pyspark/python/lib/<name>.zip`, of an installation that is also in the
    path.
    """
    if archive.suffix != ".zip" or archive.parts[-4:-1] != ("pyspark", "python", "lib"):
        return False
    installation = archive.parents[3]
    names = ("pyspark", "py4j")
    return str(installation) in path and all((installation / name / "__init__.py").exists() for name in names)


if __name__ == "__main__":
    main()
