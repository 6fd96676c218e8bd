"""The options of a host's JVM."""

from pathlib import Path

import pytest

from fencepost.builtin.java.start import jvm_options
from fencepost.embedded.java import Java


@pytest.mark.parametrize(
    ("version", "trims"),
    [("17.0.11", False), ("17.0.12", True), ("18.0.9", False), ("21", False), ("21.0.4", True), ("23", True)],
)
def test_host_trims_its_native_heap_when_java_supports_it(version: str, trims: bool) -> None:
    """An older one refuses to start."""
    assert any("TrimNativeHeap" in each for each in jvm_options(Java(Path("java"), version))) == trims


def options(chosen: str) -> list[str]:
    return jvm_options(Java(Path("java"), "17.0.15"), chosen.split())


LEAST, MOST = "-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=40"
OURS = ["-Xms16m", LEAST, MOST, "-XX:+UseSerialGC"]


@pytest.mark.parametrize(
    ("chosen", "given_way", "instead"),
    [
        ("", [], []),
        ("-Xmx512m", [], []),
        ("-Xmx4g -Xms1g -Xss2m", ["-Xms16m"], []),
        ("-Xmx16m", [], []),
        ("-Xmx16383k", ["-Xms16m"], []),
        ("-Xmx4g -Xmx8M", ["-Xms16m"], []),
        ("-Xmx8388608", ["-Xms16m"], []),
        ("-XX:MaxHeapSize=8m", ["-Xms16m"], []),
        ("-XX:InitialHeapSize=8m", ["-Xms16m"], []),
        ("-XX:MinHeapSize=64m", ["-Xms16m"], []),
        ("-XX:InitialRAMPercentage=10", ["-Xms16m"], []),
        ("-XX:MaxRAMPercentage=50", [], []),
        ("-XX:+UseSerialGC", ["-XX:+UseSerialGC"], []),
        ("-XX:+UseG1GC", ["-XX:+UseSerialGC"], []),
        ("-XX:+UseZGC", ["-XX:+UseSerialGC"], []),
        ("-XX:+UseParallelGC", ["-XX:+UseSerialGC"], []),
        ("-XX:+UseShenandoahGC", ["-XX:+UseSerialGC"], []),
        ("-XX:+AggressiveHeap", ["-XX:+UseSerialGC"], []),
        ("-XX:-UseG1GC", [], []),
        ("-XX:-UseSerialGC", ["-XX:+UseSerialGC"], []),
        ("-XX:+UseAdaptiveSizePolicyWithSystemGC", [], []),
        ("-XX:+DisableExplicitGC", [], []),
        ("-XX:MinHeapFreeRatio=30", [LEAST], []),
        ("-XX:MinHeapFreeRatio=50", [LEAST, MOST], ["-XX:MaxHeapFreeRatio=50"]),
        ("-XX:MaxHeapFreeRatio=30", [MOST], []),
        ("-XX:MaxHeapFreeRatio=90 -XX:MaxHeapFreeRatio=10", [LEAST, MOST], ["-XX:MinHeapFreeRatio=10"]),
        ("-XX:MinHeapFreeRatio=x", [LEAST], []),  # Java says what is wrong with it
    ],
)
def test_own_jvm_options_that_conflict_with_the_users_are_left_out(
    chosen: str, given_way: list[str], instead: list[str]
) -> None:
    found = options(chosen)
    assert [each for each in OURS if each not in found] == given_way
    assert [each for each in found if each not in options("")] == instead
