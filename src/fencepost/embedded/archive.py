"""A class archive (Java's AppCDS) of a started broker, which halves the time of the next start.

This is only an optimisation: if anything fails here, Kafka starts without the archive.
"""

import hashlib
from pathlib import Path

from fencepost.embedded import class_archive
from fencepost.embedded.error import EmbeddedKafkaError
from fencepost.embedded.home import KafkaHome
from fencepost.embedded.java import Java
from fencepost.embedded.jvm_options import environment_options
from fencepost.embedded.layout import NodeDirectory, server_settings
from fencepost.embedded.node import Node
from fencepost.embedded.port import choose_ports

_DUMP_TIMEOUT_S = 60.0
_UNFINISHED = ".archive-"


def archive_options(java: Java, home: KafkaHome) -> list[str]:
    """Return JVM options that use this Java's archive. Creates it first if there is none, which takes seconds."""
    if any(option.startswith(class_archive.OWN_CHOICE) for option in environment_options()):
        return []
    archive = _path(java, home)
    try:
        if not class_archive.is_settled(archive):
            class_archive.make(archive, home.lock, _UNFINISHED, lambda fresh: _train(java, home, fresh))
        return class_archive.options_with(archive)
    except (EmbeddedKafkaError, OSError):
        return []  # if Kafka cannot start, the caller's own start reports why


def _path(java: Java, home: KafkaHome) -> Path:
    """Return the path of the archive, which fits only this build of Java and this classpath."""
    identity = f"{java.path.resolve()} {java.version} {home.classpath}"
    return home.directory / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"


def _train(java: Java, home: KafkaHome, fresh: Path) -> None:
    directory = NodeDirectory(fresh.with_name("node"))
    settings = server_settings(directory.data, choose_ports(), {})
    node = Node(java, home, directory, settings, jvm_options=[f"-XX:ArchiveClassesAtExit={fresh}"])
    node.process.terminate(_DUMP_TIMEOUT_S)
