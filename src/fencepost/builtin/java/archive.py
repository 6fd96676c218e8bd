"""The archive of the classes of hosts, Kafka Connect's and ours. Java leaves out those of plug-ins, as of all loaders.

It is made before the first host of a user on a machine starts, which takes as long as a few of such starts.
"""

import contextlib
import hashlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fencepost.api import ConnectError, SourceRecord
from fencepost.builtin.java.chain_port import ChainStart, ChainStep
from fencepost.builtin.java.client.host import HostClient
from fencepost.builtin.java.error import JavaUnavailableError
from fencepost.builtin.java.port import JavaClass, SourceTaskStart
from fencepost.embedded.checksum import stamp
from fencepost.embedded.class_archive import OWN_CHOICE, is_settled, make, options_with
from fencepost.embedded.home import default_cache
from fencepost.embedded.java import Java
from fencepost.embedded.jvm_options import environment_options

log = logging.getLogger(__name__)

_KAFKA = "org.apache.kafka.connect"
_HOIST = JavaClass(f"{_KAFKA}.transforms.HoistField$Value")
_CONFIG = {
    "transforms": "hoist",
    "transforms.hoist.type": _HOIST.name,
    "transforms.hoist.field": "value",
    "header.converter": f"{_KAFKA}.storage.SimpleHeaderConverter",
    "key.converter": f"{_KAFKA}.storage.StringConverter",
    "value.converter": f"{_KAFKA}.json.JsonConverter",
}
_NAME = "java-host"
_UNUSED_S = 30 * 24 * 3600.0
_LIMIT_S = 30.0  # to start, and again for the rest: a user waits for the first host
_TERMINATED = 128 + signal.SIGTERM


def archive_options(
    java: Java, jars: Sequence[Path], own: Sequence[str], start: Callable[..., HostClient]
) -> list[str]:
    """Return the options with which a host uses the archive, which is made now if there is none.

    `jars` are its class path, `own` the user's options, and `start` starts a host with more options. Nothing that
    goes wrong here is an error, and nothing takes longer than twice `_LIMIT_S`: the host does without.
    """
    if any(option.startswith(OWN_CHOICE) for option in [*environment_options(), *own]):
        return []
    try:
        archive = _path(java, jars)
        if not is_settled(archive):
            _make(archive, start)
        options = options_with(archive)
        if options:  # an empty file ends after its day
            _keep(archive)
    except OSError as error:
        log.debug("a host starts without an archive of its classes: %s", error)
        return []
    except Exception:  # a fault of ours: what is only quicker must not keep a host from starting
        log.warning("a host starts without an archive of its classes", exc_info=True)
        return []
    return options and [*options, "-Xlog:cds*=off"]  # an archive that does not fit is no news for the log


def _keep(archive: Path) -> None:
    """Say that an archive is in use. One in the layer of an image belongs to somebody else, and nobody deletes it."""
    with contextlib.suppress(OSError):
        os.utime(archive)


def discard_archive(java: Java, jars: Sequence[Path]) -> None:
    """Forget an archive with which no host starts, as Java crashes on one that is cut off. One is made after a day."""
    with contextlib.suppress(OSError):
        archive = _path(java, jars)
        archive.unlink()
        archive.touch()


def _path(java: Java, jars: Sequence[Path]) -> Path:
    """Return where the archive is: Java takes none of another class path, or of jars that were replaced since.

    Raises OSError if a jar is missing, or Java is started by a program of which nobody knows what it starts.
    """
    modules = java.path.resolve().parents[1] / "lib" / "modules"
    states = _hash(java.version, *map(stamp, (modules, *jars)))
    return default_cache() / f"java-host-{_hash(modules, *jars)}-{states}.jsa"


def _hash(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:12]


def _make(archive: Path, start: Callable[..., HostClient]) -> None:
    """Make the archive, and delete older ones of the same class path, or that no host has used for a month."""
    place, _, _ = archive.name.rpartition("-")

    def train(fresh: Path) -> None:
        for older in archive.parent.glob(f"{_NAME}-*.jsa"):
            if older.name.startswith(f"{place}-") or time.time() - older.stat().st_mtime > _UNUSED_S:
                older.unlink(missing_ok=True)
        try:
            with start(f"-XX:ArchiveClassesAtExit={fresh}", "-Xlog:disable", within_s=_LIMIT_S) as host, _limited(host):
                _train(host)
        except Exception as error:  # whatever it is, an empty file says that it is not tried again for a day
            is_ours = not isinstance(error, (ConnectError, subprocess.TimeoutExpired, OSError))
            log.info("hosts start without an archive of their classes: %s", error, exc_info=is_ours)
            fresh.unlink(missing_ok=True)

    make(archive, archive.with_name(f"{place}.lock"), f".{place}-", train, waits=False)


@contextlib.contextmanager
def _limited(host: HostClient) -> Iterator[None]:
    """Kill a host that takes too long: each call waits for as long as it runs."""
    timer = threading.Timer(_LIMIT_S, host.kill, ["it has not archived its classes in time"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _train(host: HostClient) -> None:
    """Let a host do what hosts do, and end in good order, which writes the archive."""
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
