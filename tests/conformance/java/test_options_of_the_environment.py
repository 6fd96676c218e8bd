"""Options of Java in a user's environment: each JVM of ours starts with them, and does what they say."""

import os
import re
import subprocess
from collections.abc import Callable

import pytest

from fencepost.builtin.java.port import HostOptions
from fencepost.builtin.java.start import jvm_options, start_host
from fencepost.embedded.broker import node_options
from fencepost.embedded.java import find_java
from fencepost.spark.session.command import gateway_command, spark_home
from fencepost.spark.session.conf import spark_properties
from support.quick import quick_kafka

VARIABLES = ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"]


def driver_options() -> list[str]:
    return gateway_command(spark_properties({}), os.environ, spark_home())[1:-1]


def host_options() -> list[str]:
    return jvm_options(find_java())


@pytest.mark.parametrize("options_of_ours", [driver_options, host_options, node_options])
@pytest.mark.parametrize(
    ("variable", "users", "flags"),
    [
        (VARIABLES[0], "-XX:+UseG1GC", {"UseG1GC": "true", "UseSerialGC": "false"}),
        (VARIABLES[1], "-XX:+UseG1GC", {"UseG1GC": "true", "UseSerialGC": "false"}),
        (VARIABLES[2], "-XX:+UseParallelGC", {"UseParallelGC": "true", "UseSerialGC": "false"}),
        (VARIABLES[0], "-XX:MaxRAMPercentage=10", {"MaxRAMPercentage": "10.000000"}),
        (VARIABLES[0], "-Xms600m -Xmx1200m", {"InitialHeapSize": str(600 << 20), "MaxHeapSize": str(1200 << 20)}),
        (VARIABLES[1], "-Xmx14m", {"MaxHeapSize": str(14 << 20)}),
        (VARIABLES[0], "-Xms2g", {"InitialHeapSize": str(2 << 30)}),
        (VARIABLES[0], "-XX:MinHeapFreeRatio=60", {"MinHeapFreeRatio": "60"}),
        (VARIABLES[0], "-XX:+UsePerfData -XX:-ExitOnOutOfMemoryError", {"UsePerfData": "true"}),
    ],
)
def test_java_accepts_options_of_the_environment_together_with_ours(
    options_of_ours: Callable[[], list[str]],
    variable: str,
    users: str,
    flags: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, users)
    command = [str(find_java().path), *options_of_ours(), "-XX:+PrintFlagsFinal", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = dict(re.findall(r"^ *\w+ (\w+) += (\S+)", done.stdout, re.MULTILINE))
    assert {name: found[name] for name in flags} == flags


def test_host_starts_when_the_environment_selects_a_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    with start_host(HostOptions([], "host of tests")) as host:
        assert host.threads()


def test_broker_starts_when_the_environment_selects_a_garbage_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    with quick_kafka() as kafka:
        assert kafka.bootstrap_servers
