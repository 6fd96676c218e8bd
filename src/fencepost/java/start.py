"""Starts hosts."""

import os

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
_OPTIONS = (
    "-Xmx128m",
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
    return HostClient([str(java.path), *_OPTIONS, *options.jvm, "-cp", classpath, MAIN], options.label)
