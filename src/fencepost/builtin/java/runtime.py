"""Kafka Connect's own jars, which a host runs with: its API, its isolation of plug-ins, its JSON for REST."""

from importlib.resources import files
from pathlib import Path

from fencepost.embedded import KAFKA_VERSION, checksum
from fencepost.embedded.jar_set import ensure_jars
from fencepost.embedded.java import Java

_MODULES = ("connect-runtime", "kafka-server-common")  # Kafka's own verifiable connectors expect the latter


def ensure_runtime(java: Java) -> list[Path]:
    """Return the jars, and fetch them first if this user has none yet. Raises JarError."""
    return ensure_jars(java, f"connect-runtime-{KAFKA_VERSION}", _MODULES, listed_jars())


def listed_jars() -> dict[str, str]:
    """Return the SHA-256 of each jar by its file name."""
    return checksum.listed(files("fencepost.builtin.java").joinpath("runtime.sha256").read_text(encoding="ascii"))
