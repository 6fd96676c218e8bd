"""What Spark forks Python workers from: PySpark's own daemon, with our modules imported before the first fork.

Only modules that start no thread and open nothing may be imported: a client made before a fork hangs after it (E8).
What is missing on an executor is left out; the worker that needs it then says so.
"""

import contextlib
import importlib
import sys

from pyspark.daemon import manager

_LIGHT = (
    "pyspark.worker",
    "orjson",
    "confluent_kafka",
    "fencepost.task.slot",
    "fencepost.spark.datasource",
    "fencepost.spark.partition",
    "fencepost.spark.split_run",
)


_EXECUTORS = "pyspark.worker"


def main() -> None:
    """Serve, as `pyspark.daemon` does; Spark names the module that its workers run.

    Besides the executors' workers Spark has a daemon for each step of planning a data source, which needs none of it.
    """
    for name in _LIGHT if _EXECUTORS in sys.argv else ():
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    manager()


if __name__ == "__main__":
    main()
