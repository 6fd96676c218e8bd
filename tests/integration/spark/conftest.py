"""One Spark session for these tests' module: starting one takes seconds."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from secret_values import CHANNEL_SECRET, SECRET

from fencepost.spark.session import SparkRuntime
from fencepost.task.signature import SECRET_VARIABLE
from support.quick import spark_properties

sys.path.insert(0, str(Path(__file__).parent))  # executors get the same modules by py_files
sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))  # what reads the pages
sys.path.insert(0, str(Path(__file__).parents[3]))  # the bench fetches the jars of Spark's own Kafka source


@pytest.fixture(scope="module")
def runtime() -> Iterator[SparkRuntime]:
    secrets = {"TEST_SECRET": SECRET, SECRET_VARIABLE: CHANNEL_SECRET}
    started = SparkRuntime(
        spark_properties(), secrets=secrets, py_files=[str(Path(__file__).with_name("slot_entry.py"))]
    )
    started.start()
    yield started
    started.stop()
