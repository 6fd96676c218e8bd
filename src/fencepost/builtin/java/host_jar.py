"""The jars that a host runs with: Kafka Connect's, and the one with the host's own classes.

The latter is compiled from `jvm` in the source tree, and part of the wheel. In a source tree it is compiled again
whenever a source has changed: `make setup` runs this module.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from fencepost.builtin.java.error import JavaUnavailableError
from fencepost.embedded import KAFKA_VERSION, EmbeddedKafkaError, checksum
from fencepost.embedded.home import ensure_jars, locked
from fencepost.embedded.java import Java, find_java

JAR = Path(__file__).with_name("host.jar")
MAIN = "fencepost.host.Host"
_MODULES = ("connect-runtime", "kafka-server-common")  # Kafka's own verifiable connectors expect the latter
_SOURCES = Path(__file__).with_name("jvm")
_STAMP = "sources.sha256"
_WITHOUT_TIME = (1980, 1, 1, 0, 0, 0)
_INSTALL = "apt-get install -y openjdk-17-jdk-headless"


def ensure_jar(java: Java) -> Path:
    """Return the jar, and compile it first if there are sources and it is not theirs.

    Raises:
        JavaUnavailableError: There is no jar, and none can be compiled.
        JarError: What the sources are compiled against could not be fetched.
    """
    sources = sorted(_SOURCES.rglob("*.java"))
    stamp = _hash(sources)
    if not sources and not JAR.exists():
        raise JavaUnavailableError(f"{JAR} is missing, so no Java plug-in can run: install Fencepost again")
    if sources and _stamp() != stamp:
        with locked(JAR.with_suffix(".lock")):
            if _stamp() != stamp:
                _compile(java, sources, stamp)
    return JAR


def ensure_runtime(java: Java) -> list[Path]:
    """Return Kafka Connect's jars, and fetch them first if this user has none yet. Raises JarError."""
    return ensure_jars(java, f"connect-runtime-{KAFKA_VERSION}", _MODULES, listed_jars())


def listed_jars() -> dict[str, str]:
    """Return the SHA-256 of each of Kafka Connect's jars by its file name."""
    return checksum.listed(files("fencepost.builtin.java").joinpath("runtime.sha256").read_text(encoding="ascii"))


def main() -> int:
    """Compile the jar if need be. Without a JDK or a network all but Java plug-ins works: this only says so."""
    try:
        ensure_jar(find_java())
    except (EmbeddedKafkaError, JavaUnavailableError) as error:
        print(f"Java plug-ins cannot be used: {error}", file=sys.stderr)
    return 0


def _hash(sources: Sequence[Path]) -> str:
    texts = [f"{path.relative_to(_SOURCES)}\n{path.read_text(encoding='utf-8')}" for path in sources]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _stamp() -> str:
    try:
        with zipfile.ZipFile(JAR) as jar:
            return jar.read(_STAMP).decode()
    except (OSError, KeyError, zipfile.BadZipFile):
        return ""


def _compile(java: Java, sources: Sequence[Path], stamp: str) -> None:
    classpath = os.pathsep.join(map(str, ensure_runtime(java)))
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=JAR.parent) as temporary:
        classes, fresh = Path(temporary, "classes"), Path(temporary, JAR.name)
        options = ["--release", "17", "-encoding", "UTF-8", "-Xlint:all", "-Werror", "-proc:none"]
        compiler = [str(java.path), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
        command = [*compiler, *options, "-d", str(classes), "-cp", classpath, *map(str, sources)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
        if "jdk.compiler not found" in done.stdout + done.stderr:
            raise JavaUnavailableError(
                f"the host's classes have to be compiled, and {java.path} has no compiler: {_INSTALL}"
            )
        if done.returncode != 0:
            raise JavaUnavailableError(f"the host's classes cannot be compiled:\n{done.stdout}{done.stderr}")
        _pack(classes, fresh, stamp)
        fresh.replace(JAR)


def _pack(classes: Path, jar: Path, stamp: str) -> None:
    """Write the jar, the same for the same classes."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        packed.writestr(zipfile.ZipInfo(_STAMP, _WITHOUT_TIME), stamp)
        for path in sorted(classes.rglob("*.class")):
            entry = zipfile.ZipInfo(str(path.relative_to(classes)), _WITHOUT_TIME)
            packed.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    sys.exit(main())
