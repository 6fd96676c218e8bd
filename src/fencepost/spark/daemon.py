"""What Spark forks Python workers from: PySpark's own daemon, with our modules imported before the first fork.

Only modules that start no thread and open nothing may be imported: a client made before a fork hangs after it (E8).
What is missing on an executor is left out; the worker that needs it then says so.
"""

import contextlib
import importlib

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


def main() -> None:
    for name in _LIGHT:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    manager()


if __name__ == "__main__":
    main()
