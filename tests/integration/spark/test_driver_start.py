"""A worker's first Spark starts by itself, while the rest of the worker is imported."""

import os
import signal
import threading

import psutil
import pytest
from pyspark import SparkContext

from fencepost.config.worker import WorkerConfig
from fencepost.spark.session import SparkError
from fencepost.testing import eventually
from fencepost.worker.host.driver import Driver
from support.quick import spark_properties

pytestmark = pytest.mark.usefixtures("no_shared_runtime")

_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
_WORKER = {
    "bootstrap.servers": "127.0.0.1:1",
    "group.id": "g",
    **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
    **{f"{part}.converter": _CONVERTER for part in ("key", "value")},
}


def launched(spark: dict[str, str]) -> Driver:
    driver = Driver(WorkerConfig({**_WORKER, **spark}))
    driver.launch()
    return driver


def test_spark_that_dies_before_it_is_watched_is_noticed() -> None:
    driver = launched(spark_properties())
    eventually(lambda: SparkContext._active_spark_context is not None, within_s=60)  # nobody has asked for it
    runtime = driver.runtime()
    runtime.open()
    assert runtime.context.parallelize([1, 2], 1).count() == 2
    os.kill(runtime.jvm_pid, signal.SIGKILL)
    reasons: list[str] = []
    runtime.on_exit(reasons.append)
    runtime.start()
    assert eventually(lambda: reasons, within_s=60) == ["Spark's JVM has ended with exit code -9"]
    runtime.stop()


def test_every_start_reports_the_failure_of_the_first_spark() -> None:
    first = launched({"spark.driver.extraJavaOptions": "-Xmxnonsense"}).runtime()
    for _ in range(2):
        with pytest.raises(SparkError, match=r"exit code 1;(.|\n)*-Xmxnonsense"):
            first.start()


def test_an_unused_spark_ends_when_it_is_discarded() -> None:
    driver = launched(spark_properties())
    assert driver._first is not None
    jvm = psutil.Process(driver._first.jvm_pid)
    driver.discard()
    assert not jvm.is_running()
    driver.discard()
    # It clears PySpark's variables as it ends, which the next Spark of this process would miss.
    eventually(lambda: all(thread.name != "spark-start" for thread in threading.enumerate()), within_s=60)
