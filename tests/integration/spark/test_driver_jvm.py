"""The driver's JVM: what it is started with, and that it can be there before Spark is."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from fencepost.spark.session import SparkError
from fencepost.spark.session.archive_making import ensure_archive
from fencepost.spark.session.command import MODULE_OPTIONS, gateway_environment, spark_home
from fencepost.spark.session.jvm import DriverJvm, class_archive
from fencepost.spark.session.session import SparkRuntime
from fencepost.testing import eventually
from support.quick import spark_properties

pytestmark = pytest.mark.usefixtures("no_shared_runtime")


def test_jvm_options_equal_the_options_of_sparks_own_launcher() -> None:
    home = spark_home()
    launcher = [
        "java",
        "-cp",
        f"{home}/jars/*",
        "org.apache.spark.launcher.Main",
        "org.apache.spark.deploy.SparkSubmit",
    ]
    environment = {**os.environ, **gateway_environment(home)}
    arguments = ["--conf", "spark.master=local", "pyspark-shell"]
    said = subprocess.run([*launcher, *arguments], env=environment, capture_output=True, check=True).stdout
    options = [part.strip() for part in said.decode().split("\0")]
    own = options[options.index("-Xmx1g") + 1 : options.index("org.apache.spark.deploy.SparkSubmit")]
    assert [option for option in own if option != "--add-modules=jdk.incubator.vector"] == list(MODULE_OPTIONS)


def test_runtime_uses_a_jvm_that_was_launched_before() -> None:
    jvm = DriverJvm(spark_properties())
    runtime = SparkRuntime(spark_properties(), jvm=jvm)
    runtime.start()
    try:
        assert runtime.jvm_pid == jvm.process.pid
        assert runtime.context.parallelize([1, 2, 3], 1).count() == 3
        assert runtime.session.range(3).count() == 3
    finally:
        runtime.stop()
    assert eventually(lambda: jvm.process.poll() is not None, within_s=60)


def test_a_jvm_that_ends_before_it_answers_is_an_error() -> None:
    jvm = DriverJvm({})
    os.kill(jvm.process.pid, signal.SIGKILL)
    with pytest.raises(SparkError, match="exit code -9"):
        jvm.gateway()
    jvm.end()


def test_a_directly_launched_jvm_has_the_classes_of_the_archive() -> None:
    ensure_archive()
    jvm = DriverJvm({})
    try:
        jvm.gateway()
        assert str(class_archive().path) in Path(f"/proc/{jvm.process.pid}/maps").read_text()
    finally:
        jvm.end()


def test_a_jvm_that_crashes_on_its_archive_is_relaunched_without_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where Java writes its report of the crash
    ensure_archive()
    whole = class_archive().path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cut_off = class_archive().path
    cut_off.parent.mkdir()
    with whole.open("rb") as source:
        cut_off.write_bytes(source.read(1_000_000))
    crashing = DriverJvm({})
    with pytest.raises(SparkError, match="exit code -"):
        crashing.gateway()
    crashing.end()
    next_one = DriverJvm({})
    assert next_one.gateway()
    next_one.end()
