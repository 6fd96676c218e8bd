"""One Spark session for these tests' module: starting one takes seconds."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.spark.session import SparkRuntime

sys.path.insert(0, str(Path(__file__).parent))  # executors get the same modules by py_files

SECRET = "never-to-be-seen-4711"


@pytest.fixture(scope="module")
def runtime() -> Iterator[SparkRuntime]:
    started = SparkRuntime(
        {}, secrets={"TEST_SECRET": SECRET}, py_files=[str(Path(__file__).with_name("slot_entry.py"))]
    )
    started.start()
    yield started
    started.stop()
