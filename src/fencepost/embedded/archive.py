"""A class archive (Java's AppCDS) of a started broker: halves the time to the next start.

An optimisation and nothing more: whatever goes wrong here, Kafka starts without it.
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
    """JVM options that use the archive for this Java, made now (some seconds) if there is none yet."""
    archive = _path(java, home)
    try:
        if not archive.exists():
            with locked(home.lock):
                if not archive.exists():
                    _make(java, home, archive)
    except (EmbeddedKafkaError, OSError):
        return []  # if Kafka does not start, the start that was asked for will say why
    # An empty file stands for "this Java could not make one": not tried again at every start.
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}"] if archive.stat().st_size else []


def _path(java: Java, home: KafkaHome) -> Path:
    """Return where the archive for this build of Java and this classpath is: it fits no other."""
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
