"""Starts hosts."""

import os
import re
import sys
from collections.abc import Callable, Sequence

from fencepost.embedded import EmbeddedKafkaError
from fencepost.embedded.java import LATE_COMPILER, Java, find_java
from fencepost.java.archive import archive_options, discard_archive
from fencepost.java.client.host import HostClient
from fencepost.java.client.process import START_S
from fencepost.java.error import JavaUnavailableError
from fencepost.java.host_jar import MAIN, ensure_jar
from fencepost.java.port import HostOptions, JavaHost
from fencepost.java.runtime import ensure_runtime

# The heap begins small, and goes back to the system when Garbage, of the host's, has found what nothing uses. FreeHeap
# changes how much of it is free, if it finds these numbers. How large the heap may become, and stacks, is left to Java:
# a poll of Debezium's may have thousands of large rows.
_HEAP = (
    "-Xms16m",
    "-XX:MinHeapFreeRatio=20",
    "-XX:MaxHeapFreeRatio=40",
    "-XX:-ShrinkHeapInSteps",
)
# From these updates on, Java gives back what its compilers and plug-ins have freed outside of its heap (JDK-8325496).
_TRIMS = {17: 12, 21: 4}
_ALL_TRIM = 23
_TRIM = "-XX:TrimNativeHeapInterval=10000"
_OPTIONS = (
    *_HEAP,
    "-XX:+UseSerialGC",
    *LATE_COMPILER,
    "-Xshare:auto",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-CreateCoredumpOnCrash",
    "-Dfile.encoding=UTF-8",
    "-Djava.awt.headless=true",
)


def start_host(options: HostOptions) -> JavaHost:
    """Implement `StartHost`."""
    try:
        java = find_java()
        jars = [ensure_jar(java), *ensure_runtime(java)]
    except EmbeddedKafkaError as error:
        raise JavaUnavailableError(str(error)) from error
    classpath, own = os.pathsep.join(map(str, jars)), jvm_options(java)

    def started(label: str, chosen: Sequence[str], within_s: float = START_S) -> HostClient:
        return HostClient([str(java.path), *chosen, "-cp", classpath, MAIN], label, within_s)

    def training(*more: str, within_s: float) -> HostClient:  # for all of a user's workers, whose options may be wrong
        return started("host that archives its classes", [*own, *more], within_s)

    archived = archive_options(java, jars, options.jvm, training)
    try:
        return started(options.label, [*own, *archived, *options.jvm])
    except JavaUnavailableError:  # the archive is damaged, or this build of Java lacks what others of its version have
        host = _checked(lambda: started(options.label, [*_OPTIONS, *options.jvm]), options.jvm)
        if archived:
            discard_archive(java, jars)
        return host


def _checked(start: Callable[[], HostClient], own: Sequence[str]) -> HostClient:
    """Start a host; its error says whose options it had. They are not shown: a password may be among them."""
    try:
        return start()
    except JavaUnavailableError as error:
        if not own:
            raise
        text = f"{error}\nIt was started with the options of java.host.options: check these"
        raise JavaUnavailableError(text) from error


def jvm_options(java: Java) -> list[str]:
    """Return the options of all hosts."""
    update = re.match(r"\d+\.\d+\.(\d+)", java.version)
    trims = java.major >= _ALL_TRIM or (update and int(update[1]) >= _TRIMS.get(java.major, sys.maxsize))
    return [*_OPTIONS, _TRIM] if trims else [*_OPTIONS]
