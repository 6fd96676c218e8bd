"""Finds a Java that can run Kafka and Spark."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from fencepost.embedded.error import JavaMissingError

MINIMUM_VERSION = 17
INSTALL_COMMAND = "apt-get install -y openjdk-17-jre-headless"
# The optimizing compiler takes seconds of processor time while a JVM starts. With ten times Java's own thresholds it
# compiles only what runs for each record.
LATE_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)


@dataclass(frozen=True)
class Java:
    """A Java launcher and the version it reports, such as `17.0.15`."""

    path: Path
    version: str

    @property
    def major(self) -> int:
        first, *rest = self.version.split(".")
        return int(rest[0]) if first == "1" and rest else int(first)


def find_java() -> Java:
    """Return the Java of JAVA_HOME, else the one on the PATH.

    Raises:
        JavaMissingError: There is no Java, or it is older than 17.
    """
    path = _launcher()
    if path is None:
        raise _missing("no java was found")
    version = _released_version(path) or _reported_version(path)
    if version is None:
        raise _missing(f"{path} does not run")
    java = Java(path, version)
    if java.major < MINIMUM_VERSION:
        raise _missing(f"{path} is version {version}")
    return java


def main() -> int:
    """Print one line if Java is missing. `make` calls this."""
    try:
        find_java()
    except JavaMissingError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _missing(reason: str) -> JavaMissingError:
    return JavaMissingError(
        f"Java {MINIMUM_VERSION} or newer is needed (Kafka and Spark run on it), but {reason}: {INSTALL_COMMAND}"
    )


def _launcher() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    if home and os.access(Path(home, "bin", "java"), os.X_OK):
        return Path(home, "bin", "java")
    found = shutil.which("java")
    return Path(found) if found else None


def _released_version(launcher: Path) -> str | None:
    """Return the version in the `release` file next to the launcher, if there is one. This saves a JVM start."""
    try:
        text = (launcher.resolve().parent.parent / "release").read_text(errors="replace")
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="(\d[\d.]*)', text, re.MULTILINE)
    return match[1] if match else None


def _reported_version(launcher: Path) -> str | None:
    try:
        done = subprocess.run(
            [launcher, "-version"], capture_output=True, encoding="utf-8", errors="replace", timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d[\d.]*)', done.stderr)
    return match[1] if match and done.returncode == 0 else None
