"""A class archive (Java's AppCDS) of a started broker, which halves the time of the next start.

This is only an optimisation: if anything fails here, Kafka starts without the archive.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path

from fencepost.embedded.error import EmbeddedKafkaError
from fencepost.embedded.home import KafkaHome, locked
from fencepost.embedded.java import Java
from fencepost.embedded.layout import NodeDirectory, server_settings
from fencepost.embedded.node import Node
from fencepost.embedded.port import choose_ports

_DUMP_TIMEOUT_S = 60.0


def archive_options(java: Java, home: KafkaHome) -> list[str]:
    """Return JVM options that use this Java's archive. Creates it first if there is none, which takes seconds."""
    archive = _path(java, home)
    try:
        if not archive.exists():
            with locked(home.lock):
                if not archive.exists():
                    _make(java, home, archive)
    except (EmbeddedKafkaError, OSError):
        return []  # if Kafka cannot start, the caller's own start reports why
    # An empty file means that this Java could not create one, so that not every start tries again.
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}"] if archive.stat().st_size else []


def _path(java: Java, home: KafkaHome) -> Path:
    """Return the path of the archive, which fits only this build of Java and this classpath."""
    identity = f"{java.path.resolve()} {java.version} {home.classpath}"
    return home.directory / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"


def _make(java: Java, home: KafkaHome, archive: Path) -> None:
    for leftover in home.directory.glob(".archive-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".archive-", dir=home.directory) as temporary:
        fresh = Path(temporary, "classes.jsa")
        node_directory = NodeDirectory(Path(temporary, "node"))
        options = [f"-XX:ArchiveClassesAtExit={fresh}"]
        settings = server_settings(node_directory.data, choose_ports(), {})
        node = Node(java, home, node_directory, settings, jvm_options=options)
        node.process.terminate(_DUMP_TIMEOUT_S)
        fresh.touch()
        fresh.rename(archive)
