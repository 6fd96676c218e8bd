"""Finds a Java that can run Kafka and Spark, and makes options of its JVM.

Our options give way where they would override a user's, or Java would refuse both.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fencepost.embedded.error import JavaMissingError

# The JVM reads the first and the last of these, and the launcher the other one. Java's manual, "The java Command".
VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
_FILE = re.compile(r"(?:@|-XX:VMOptionsFile=)(?P<path>.+)")

_NAME = re.compile(r"-XX:[+-]?(\w+)|-(X(?:m[nsx]|share))|-D([^=]+)")
_LONG = {"Xms": "InitialHeapSize", "Xmx": "MaxHeapSize"}
_COLLECTOR = re.compile(r"-XX:\+(Use(Serial|G1|Z|Shenandoah|Parallel|Epsilon)GC|AggressiveHeap)")
_SIZE = re.compile(r"(?:-X\w\w|-XX:\w+=)(\d+)([kKmMgGtT]?)")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_FIRST_HEAP = {"InitialHeapSize", "MinHeapSize", "InitialRAMPercentage", "InitialRAMFraction"}
_LARGEST_HEAP = {"MaxHeapSize", "MaxRAMPercentage", "MaxRAMFraction", "MaxRAM", "AggressiveHeap"}


def environment_options(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the options that each JVM takes from its environment, also those in files that are named there.

    They are not for a command line: Java reads them anyway, and there may be a password among them.
    """
    return [option for name in VARIABLES for option in _words(environment.get(name, ""))]


def giving_way(ours: Sequence[str], users: Sequence[str]) -> list[str]:
    """Return those of our options that neither override one of a user's nor make Java refuse it."""
    names = {name for option in users if (name := _name(option))}
    is_collector_chosen = any(_COLLECTOR.fullmatch(option) for option in users)
    first, largest = _size("InitialHeapSize", users), _size("MaxHeapSize", users)
    least = _size("MinHeapSize", users)

    def stays(option: str) -> bool:
        name = _name(option)
        if name in names or (is_collector_chosen and _COLLECTOR.fullmatch(option)):
            return False
        own = _size(name, [option])
        if name == "InitialHeapSize" and own is not None:
            return not names & _FIRST_HEAP and (largest is None or own <= largest)
        if name == "MaxHeapSize" and own is not None:
            return not names & _LARGEST_HEAP and max(first or 0, least or 0) <= own
        return True

    return [option for option in ours if stays(option)]


def _words(text: str) -> list[str]:
    """Return the options in a text or a file: quotes may be around a part of one."""
    found: list[str] = []
    for word in _WORD.findall(text):
        option = re.sub("[\"']", "", word)
        found.append(option)
        if file := _FILE.fullmatch(option):
            found += _words(_read(file["path"]))
    return found


def _read(path: str) -> str:
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:  # Java will say so
        return ""
    return "\n".join(line for line in lines if not line.lstrip().startswith(("#", "@")))


def _name(option: str) -> str:
    """Return what an option sets, however it is written; empty for one that only adds to others."""
    found = _NAME.match(option)
    name = next(filter(None, found.groups()), "") if found else ""
    return _LONG.get(name, name)


def _size(name: str, options: Sequence[str]) -> int | None:
    """Return how many bytes the last option of this name says; None if there is none."""
    texts = [found for option in options if _name(option) == name and (found := _SIZE.fullmatch(option))]
    return int(texts[-1][1]) * _UNITS[texts[-1][2].lower()] if texts else None


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
