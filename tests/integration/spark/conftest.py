"""One Spark session for these tests: starting one takes seconds."""

import sys
from pathlib import Path

import pytest
from secret_values import CHANNEL_SECRET, SECRET

from fencepost.spark.session.session import SparkRuntime
from fencepost.task.channel.client import SECRET_VARIABLE
from support.quick import spark_properties

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))  # executors get the same modules by py_files
sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))  # what reads the pages
sys.path.insert(0, str(Path(__file__).parents[3]))  # the bench fetches the jars of Spark's own Kafka source


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put modules with a Spark of their own last here: between others, each would end the session that those share."""
    own = {item.path for item in items if "no_shared_runtime" in getattr(item, "fixturenames", ())}
    places = [place for place, item in enumerate(items) if item.path.parent == _HERE]
    ordered = sorted((items[place] for place in places), key=lambda item: item.path in own)
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


class _Shared:
    """The session, while there is one: a process can have no other."""

    def __init__(self) -> None:
        self._runtime: SparkRuntime | None = None

    def started(self) -> SparkRuntime:
        if self._runtime is None:
            secrets = {"TEST_SECRET": SECRET, SECRET_VARIABLE: CHANNEL_SECRET}
            entry = str(_HERE / "slot_entry.py")
            runtime = SparkRuntime(spark_properties(), secrets=secrets, py_files=[entry])
            runtime.start()
            self._runtime = runtime
        return self._runtime

    def stop(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.stop()


_shared = _Shared()


@pytest.fixture(scope="module")
def runtime(request: pytest.FixtureRequest) -> SparkRuntime:
    """A session that modules share. It ends with the directory, or in front of a module with a Spark of its own."""
    request.node.parent.addfinalizer(_shared.stop)
    return _shared.started()


@pytest.fixture(scope="module")
def no_shared_runtime() -> None:
    """Let a module start a Spark of its own."""
    _shared.stop()
