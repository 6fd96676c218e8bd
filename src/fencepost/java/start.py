"""Starts hosts."""

import os

from fencepost.embedded import EmbeddedKafkaError
from fencepost.embedded.java import find_java
from fencepost.java.client.host import HostClient
from fencepost.java.error import JavaUnavailableError
from fencepost.java.host_jar import MAIN, ensure_jar
from fencepost.java.port import HostOptions, JavaHost
from fencepost.java.runtime import ensure_runtime

_OPTIONS = (
    "-Xmx128m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
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
