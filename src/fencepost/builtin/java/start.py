"""Starts hosts: their JVM's options, and the archive of their classes, Kafka Connect's and ours.

Java archives no classes of plug-ins, as they have loaders of their own. The archive is made before the first host of a
user on a machine starts, which takes as long as a few of such starts.
"""

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fencepost.api import ConnectError, SourceRecord
from fencepost.builtin.java.client.host import JavaHost
from fencepost.builtin.java.client.process import START_S
from fencepost.builtin.java.error import JavaUnavailableError
from fencepost.builtin.java.host_jar import MAIN, ensure_jar, ensure_runtime
from fencepost.builtin.java.port import ChainStart, ChainStep, HostOptions, JavaClass, SourceTaskStart
from fencepost.embedded import EmbeddedKafkaError
from fencepost.embedded.class_archive import ClassArchive, is_chosen
from fencepost.embedded.home import default_cache
from fencepost.embedded.java import LATE_COMPILER, VARIABLES, Java, environment_options, find_java, giving_way

log = logging.getLogger(__name__)

_CONNECT = "org.apache.kafka.connect"
_HOIST = JavaClass(f"{_CONNECT}.transforms.HoistField$Value")
_CONFIG = {
    "transforms": "hoist",
    "transforms.hoist.type": _HOIST.name,
    "transforms.hoist.field": "value",
    "header.converter": f"{_CONNECT}.storage.SimpleHeaderConverter",
    "key.converter": f"{_CONNECT}.storage.StringConverter",
    "value.converter": f"{_CONNECT}.json.JsonConverter",
}
_LIMIT_S = 30.0  # to start, and again for the rest: a user waits for the first host
_TERMINATED = 128 + signal.SIGTERM

# The heap begins small, and goes back to the system when Garbage, of the host's, has found what nothing uses. FreeHeap
# changes how much of it is free, if it finds these numbers. How large the heap may become, and stacks, is left to Java:
# a poll of Debezium's may have thousands of large rows.
_LEAST_FREE, _MOST_FREE = 20, 40
# From these updates on, Java gives back what its compilers and plug-ins have freed outside of its heap (JDK-8325496).
_TRIMS = {17: 12, 21: 4}
_ALL_TRIM = 23
_TRIM = "-XX:TrimNativeHeapInterval=10000"
_OPTIONS = (
    "-Xms16m",
    "-XX:+UseSerialGC",
    "-XX:-ShrinkHeapInSteps",
    *LATE_COMPILER,
    "-Xshare:auto",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-CreateCoredumpOnCrash",
    "-Dfile.encoding=UTF-8",
    "-Djava.awt.headless=true",
)


def start_host(options: HostOptions) -> JavaHost:
    """Start a host. Takes a third of a second; the first on a machine fetches Kafka's jars.

    Raises JavaUnavailableError.
    """
    try:
        java = find_java()
        jars = [ensure_jar(java), *ensure_runtime(java)]
    except EmbeddedKafkaError as error:
        raise JavaUnavailableError(str(error)) from error
    classpath = os.pathsep.join(map(str, jars))

    def started(label: str, chosen: Sequence[str], within_s: float = START_S) -> JavaHost:
        return JavaHost([str(java.path), *chosen, "-cp", classpath, MAIN], label, within_s)

    def training(option: str) -> JavaHost:  # for all of a user's workers, whose options may be wrong
        chosen = [*jvm_options(java), option, "-Xlog:disable"]
        return started("host that archives its classes", chosen, _LIMIT_S)

    archive = None if is_chosen(options.jvm) else class_archive(java, jars)
    archived = [] if archive is None else archive_options(archive, training)
    try:
        return started(options.label, [*jvm_options(java, options.jvm), *archived, *options.jvm])
    except JavaUnavailableError:  # the archive is damaged, or this build of Java lacks what others of its version have
        host = _checked(lambda: started(options.label, [*plain_options(options.jvm), *options.jvm]), options.jvm)
        if archive is not None and archived:
            archive.discard()
        return host


def _checked(start: Callable[[], JavaHost], own: Sequence[str]) -> JavaHost:
    """Start a host; its error says whose options it had. They are not shown: a password may be among them."""
    try:
        return start()
    except JavaUnavailableError as error:
        sources = [*(["java.host.options"] if own else []), *(name for name in VARIABLES if os.environ.get(name))]
        if not sources:
            raise
        text = f"{error}\nIt was started with the options of {' and '.join(sources)}: check these"
        raise JavaUnavailableError(text) from error


def class_archive(java: Java, jars: Sequence[Path]) -> ClassArchive | None:
    """Return the archive for hosts with these jars; None if one of them is missing."""
    try:
        return ClassArchive.of(default_cache(), "java-host", java, jars)
    except OSError as error:
        log.debug("a host starts without an archive of its classes: %s", error)
        return None


def archive_options(archive: ClassArchive, start: Callable[[str], JavaHost]) -> list[str]:
    """Return the options with which a host uses the archive, which is made now if there is none.

    `start` starts a host with one more option. Nothing that goes wrong here is an error, and nothing takes longer than
    twice `_LIMIT_S`: the host does without.
    """

    def train(fresh: Path) -> None:
        with start(f"-XX:ArchiveClassesAtExit={fresh}") as host, _limited(host):
            _train(host)

    try:
        if not archive.is_settled():
            archive.make(train, waits=False)
        return archive.options()
    except (ConnectError, subprocess.TimeoutExpired, OSError) as error:
        log.info("hosts start without an archive of their classes: %s", error)
    except Exception:  # a fault of ours: what is only quicker must not keep a host from starting
        log.warning("hosts start without an archive of their classes", exc_info=True)
    return []


@contextlib.contextmanager
def _limited(host: JavaHost) -> Iterator[None]:
    """Kill a host that takes too long: each call waits for as long as it runs."""
    timer = threading.Timer(_LIMIT_S, host.kill, ["it has not archived its classes in time"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _train(host: JavaHost) -> None:
    host.set_levels({"": "ERROR"})
    host.ask.validate(_HOIST, {"field": "value"})
    task = host.source_task(
        SourceTaskStart(
            connector="training",
            task=0,
            java_class=JavaClass("fencepost.host.Training"),
            task_config={},
            connector_config=_CONFIG,
        )
    )
    task.poll()
    task.stop(_LIMIT_S)
    chain = host.chain(ChainStart("training", True, _CONFIG, [ChainStep("transform", _HOIST, "transforms.hoist.")]))
    chain.run([SourceRecord({}, {}, "t", "value")], 0, 1, None)
    chain.close()
    code = host.terminate(_LIMIT_S)
    if code != _TERMINATED:
        raise JavaUnavailableError(f"the JVM that was to write it ended with exit code {code}")


def jvm_options(java: Java, chosen: Sequence[str] = ()) -> list[str]:
    """Return the options of a host. `chosen` are those of the worker's file, which are to follow."""
    update = re.match(r"\d+\.\d+\.(\d+)", java.version)
    trims = java.major >= _ALL_TRIM or (update and int(update[1]) >= _TRIMS.get(java.major, sys.maxsize))
    return [*plain_options(chosen), *(giving_way([_TRIM], _users(chosen)) if trims else [])]


def plain_options(chosen: Sequence[str] = ()) -> list[str]:
    """Return those of `jvm_options` that each Java has which we support."""
    users = _users(chosen)
    return giving_way([*_OPTIONS, *_free_heap(users)], users)


def _users(chosen: Sequence[str]) -> list[str]:
    return [*environment_options(), *chosen]


def _free_heap(users: Sequence[str]) -> list[str]:
    """Java refuses a least that is above the most."""
    least = _last(re.compile(r"-XX:MinHeapFreeRatio=(\d+)"), users)
    most = _last(re.compile(r"-XX:MaxHeapFreeRatio=(\d+)"), users)
    return [
        f"-XX:MinHeapFreeRatio={min(_LEAST_FREE, int(most[1])) if most else _LEAST_FREE}",
        f"-XX:MaxHeapFreeRatio={max(_MOST_FREE, int(least[1])) if least else _MOST_FREE}",
    ]


def _last(option: re.Pattern[str], users: Sequence[str]) -> re.Match[str] | None:
    return next((found for each in reversed(users) if (found := option.fullmatch(each))), None)
