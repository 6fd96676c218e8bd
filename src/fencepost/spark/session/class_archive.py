"""A class archive (Java's AppCDS) for Spark's driver: a JVM that has one starts with much less processor time.

It is one file for each user, Java and installation of Spark, beside Kafka's jars. This is only an optimisation: without
an archive, or with one that does not fit, the JVM loads its classes from the jars.
"""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from fencepost.embedded import EmbeddedKafkaError
from fencepost.embedded.class_archive import OWN_CHOICE, options_with
from fencepost.embedded.home import default_cache
from fencepost.embedded.java import find_java
from fencepost.embedded.jvm_options import environment_options
from fencepost.spark.session.command import is_plain, spark_home

PATTERN = "spark-classes-*.jsa"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def archive_options(properties: Mapping[str, str]) -> list[str]:
    """Return the JVM's options that use the archive; none if there is none, or Spark cannot be started with it."""
    if not can_use_archive(properties):
        return []
    try:
        archive = archive_path()
        options = options_with(archive)
    except (EmbeddedKafkaError, OSError):
        return []
    if not options:
        return []
    with contextlib.suppress(OSError):
        os.utime(archive)  # it is in use: what makes another one does not delete it
    return [*options, "-Xlog:cds*=off"]  # an archive that does not fit is no news for the worker's log


def can_use_archive(properties: Mapping[str, str]) -> bool:
    """Return whether the JVM is launched straight, with the class path that is archived, and no archive of the user."""
    own = [*environment_options(), *properties.get(JAVA_OPTIONS, "").split()]
    return not any(option.startswith(OWN_CHOICE) for option in own) and is_plain(properties, os.environ, spark_home())


def archive_path() -> Path:
    """Return where the archive is, or will be. Raises EmbeddedKafkaError without Java, OSError without Spark."""
    home, java = spark_home(), find_java()
    launcher = java.path.resolve()
    modules = launcher.parents[1] / "lib" / "modules"
    build = modules.stat().st_mtime_ns if modules.exists() else 0
    # Java takes no archive of jars that have been replaced since, by an installation at the same place for example.
    jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in os.scandir(home / "jars"))
    identity = f"{launcher} {java.version} {build} {home} {jars}"
    return default_cache() / PATTERN.replace("*", hashlib.sha256(identity.encode()).hexdigest()[:12])


def discard_archive() -> None:
    """Forget an archive that the JVM may have crashed on, as on one that is cut off. A new one is made after a day."""
    with contextlib.suppress(EmbeddedKafkaError, OSError):
        archive = archive_path()
        archive.unlink()
        archive.touch()
