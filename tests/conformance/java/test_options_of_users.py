"""Options that users give to hosts, as they gave them to Kafka Connect: each lets a host start, and its tasks read."""

from pathlib import Path

import pytest

from fencepost.builtin.java.port import HostOptions, SourceTaskStart
from fencepost.builtin.java.start import start_host
from fencepost.testing import eventually
from support.java_plugins import CONVERTERS, file_class

_OF_KAFKA = (  # KAFKA_HEAP_OPTS and KAFKA_JVM_PERFORMANCE_OPTS of Kafka's own scripts
    "-Xms256M -Xmx2G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:+ExplicitGCInvokesConcurrent -XX:MaxInlineLevel=15 -Djava.awt.headless=true"
)


@pytest.mark.parametrize(
    "chosen",
    [
        "-Xmx4g",
        "-Xmx14m",
        "-XX:MaxHeapSize=14m",
        "-XX:InitialHeapSize=8m",
        "-XX:MinHeapSize=64m -XX:InitialHeapSize=64m",
        "-XX:MaxRAMPercentage=50",
        "-XX:MaxRAMPercentage=0.01",
        "-XX:InitialRAMPercentage=1",
        "-XX:+UseSerialGC",
        "-XX:-UseSerialGC",
        "-XX:+UseG1GC",
        "-XX:+UseZGC",
        "-XX:+UseParallelGC",
        "-XX:+UnlockExperimentalVMOptions -XX:+UseEpsilonGC -Xmx256m",
        "-XX:+AggressiveHeap",
        "-XX:+DisableExplicitGC",
        "-XX:MinHeapFreeRatio=50",
        "-XX:MaxHeapFreeRatio=10",
        "-XX:MinHeapFreeRatio=5 -XX:MaxHeapFreeRatio=10",
        "-XX:MaxHeapFreeRatio=90 -XX:MinHeapFreeRatio=80",
        "-XX:+ShrinkHeapInSteps",
        "-XX:-ExitOnOutOfMemoryError",
        "-XX:-UseCompressedOops",
        "-XX:TieredStopAtLevel=1",
        "-Xmn8m",
        "-Xss512k",
        _OF_KAFKA,
    ],
)
def test_host_with_the_users_java_options_polls_a_record(chosen: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"a line\n")
    with start_host(HostOptions(chosen.split(), "host of tests")) as host:
        start = SourceTaskStart(
            connector="made",
            task=0,
            java_class=file_class("FileStreamSourceTask"),
            task_config={"file": str(file), "topic": "lines"},
            connector_config=CONVERTERS,
        )
        task = host.source_task(start)
        polled = eventually(task.poll, within_s=60)
        assert polled is not None
        assert list(polled.batch.values) == [b"a line"]
        task.stop(60)
