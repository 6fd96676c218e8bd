"""Starts hosts."""

import os
from collections.abc import Sequence

from fencepost.embedded import EmbeddedKafkaError
from fencepost.embedded.java import find_java
from fencepost.java.client.host import HostClient
from fencepost.java.error import JavaUnavailableError
from fencepost.java.host_jar import MAIN, ensure_jar
from fencepost.java.port import HostOptions, JavaHost
from fencepost.java.runtime import ensure_runtime

# The optimizing compiler halves what a record costs, but costs seconds of processor time while a plug-in starts. With
# ten times Java's own thresholds it compiles only what runs for each record.
_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_HEAP = ("-Xmx128m", "-Xmn12m")  # batches live shortly: a third of the heap for new objects only fills more memory
_OPTIONS = (
    "-Xss512k",
    "-XX:+UseSerialGC",
    *_COMPILER,
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
        classpath = os.pathsep.join(map(str, [ensure_jar(java), *ensure_runtime(java)]))
    except EmbeddedKafkaError as error:
        raise JavaUnavailableError(str(error)) from error
    return HostClient([str(java.path), *jvm_options(options.jvm), "-cp", classpath, MAIN], options.label)


def jvm_options(given: Sequence[str]) -> list[str]:
    """Return all options of a JVM. With a heap of another size, Java says how much of it is for new objects."""
    is_default_heap = not any(each.startswith(("-Xm", "-XX:Max", "-XX:New")) for each in given)
    return [*(_HEAP if is_default_heap else _HEAP[:1]), *_OPTIONS, *given]
