"""The runtime tells when Spark is gone."""

import os
import signal

import pytest

from fencepost.spark.session import SparkError
from fencepost.spark.session.session import SparkRuntime
from fencepost.testing import eventually
from support.quick import spark_properties

pytestmark = pytest.mark.usefixtures("no_shared_runtime")


def test_on_exit_is_called_and_a_new_runtime_starts_when_the_jvm_is_killed() -> None:
    reasons: list[str] = []
    first = SparkRuntime(spark_properties())
    first.on_exit(reasons.append)
    first.start()
    os.kill(first.jvm_pid, signal.SIGKILL)
    assert eventually(lambda: reasons, within_s=60) == ["Spark's JVM has ended with exit code -9"]
    assert not first.is_alive
    first.stop()
    second = SparkRuntime(spark_properties())
    second.start()
    try:
        assert second.session.range(3).count() == 3
    finally:
        second.stop()
    assert len(reasons) == 1


def test_a_failed_start_names_the_master_and_the_error_of_spark() -> None:
    with pytest.raises(SparkError, match=r"spark.master=nonsense"):
        SparkRuntime({"spark.master": "nonsense"}, on_line=lambda line: None).start()
