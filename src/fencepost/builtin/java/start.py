"""Starts hosts."""

import os
from collections.abc import Callable, Sequence

from fencepost.builtin.java.archive import archive_options, discard_archive
from fencepost.builtin.java.client.host import HostClient
from fencepost.builtin.java.client.process import START_S
from fencepost.builtin.java.error import JavaUnavailableError
from fencepost.builtin.java.host_jar import MAIN, ensure_jar
from fencepost.builtin.java.jvm_options import jvm_options, plain_options
from fencepost.builtin.java.port import HostOptions, JavaHost
from fencepost.builtin.java.runtime import ensure_runtime
from fencepost.embedded import EmbeddedKafkaError
from fencepost.embedded.java import find_java
from fencepost.embedded.jvm_options import VARIABLES


def start_host(options: HostOptions) -> JavaHost:
    """Implement `StartHost`."""
    try:
        java = find_java()
        jars = [ensure_jar(java), *ensure_runtime(java)]
    except EmbeddedKafkaError as error:
        raise JavaUnavailableError(str(error)) from error
    classpath = os.pathsep.join(map(str, jars))

    def started(label: str, chosen: Sequence[str], within_s: float = START_S) -> HostClient:
        return HostClient([str(java.path), *chosen, "-cp", classpath, MAIN], label, within_s)

    def training(*more: str, within_s: float) -> HostClient:  # for all of a user's workers, whose options may be wrong
        return started("host that archives its classes", [*jvm_options(java), *more], within_s)

    archived = archive_options(java, jars, options.jvm, training)
    try:
        return started(options.label, [*jvm_options(java, options.jvm), *archived, *options.jvm])
    except JavaUnavailableError:  # the archive is damaged, or this build of Java lacks what others of its version have
        host = _checked(lambda: started(options.label, [*plain_options(options.jvm), *options.jvm]), options.jvm)
        if archived:
            discard_archive(java, jars)
        return host


def _checked(start: Callable[[], HostClient], own: Sequence[str]) -> HostClient:
    """Start a host; its error says whose options it had. They are not shown: a password may be among them."""
    try:
        return start()
    except JavaUnavailableError as error:
        sources = [*(["java.host.options"] if own else []), *(name for name in VARIABLES if os.environ.get(name))]
        if not sources:
            raise
        text = f"{error}\nIt was started with the options of {' and '.join(sources)}: check these"
        raise JavaUnavailableError(text) from error
