"""Programs in Java, from `java`: clients of kinds that librdkafka lacks, and questions to Kafka's own classes."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from fencepost.embedded.home import KAFKA_VERSION, default_cache, ensure_home, locked, pyspark_jars
from fencepost.embedded.java import find_java

PROGRAMS = Path(__file__).with_name("java")
_SHA256 = {
    "connect-api": "5ce6158d453d2d84ab3509260fff872c67fb532a51519da6acafc6835bc48cfe",
    "connect-file": "e330c491309d8f839f2abd7260c72a3687d6d82ecf2ba0f7699a46d41a46dcac",
    "connect-mirror": "0d091c7ba172827dc42ed09fdf4390876a90ab627fd8d2bb002016f9785617e1",
    "connect-mirror-client": "c11ebb023021dccb8f18c6b57019b9dbe7c74e0b9495196a895a5d40b9faf1a8",
    "connect-runtime": "9df3d2f78f8a1740af358dd78ccdf1396559223e0cfbf1a697ab9363dead6175",
    "connect-test-plugins": "08edbac8d0d9e02f088d847984c7456d500201e95a42e6128b9a8d33ebd6b9ab",
    "kafka-streams": "bd73f3805e116f711e8456ee89a8a5b43ff5dcf5a5bb865afae29deae89e7c4b",
}
QUICK_JVM = ("-Xshare:auto", "-XX:TieredStopAtLevel=1")


@contextmanager
def share_member(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """Read in a share group."""
    with _running("ShareReader", bootstrap, group, topic):
        yield


@contextmanager
def streams_member(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """Read in a streams group (KIP-1071), by way of a repartition topic; it commits when it leaves, and not before."""
    ensure_compiler()
    with tempfile.TemporaryDirectory() as state:
        with _running("StreamsReader", bootstrap, group, topic, state, jar=kafka_jar("kafka-streams")):
            yield


def records_read_by_java(bootstrap: str, topic: str) -> list[str]:
    """Return the lines of `BatchReader`: one for each record, in the order of each partition."""
    ensure_compiler()
    command = [str(find_java().path), *QUICK_JVM, "-cp", _classpath(), str(PROGRAMS / "BatchReader.java")]
    done = subprocess.run([*command, bootstrap, topic], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


def streams_copy(*arguments: str) -> list[str]:
    """Return the command of a program of Kafka Streams that copies a topic; the program says what it takes."""
    return _command("StreamsCopy", *arguments, jar=kafka_jar("kafka-streams"))


class JmxValues:
    """The attributes of Kafka Connect's beans in a JVM, over remote JMX. A context manager."""

    def __init__(self, port: int) -> None:
        self._command = _command("JmxValues", str(port))

    def __enter__(self) -> Self:
        self._reader = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.kill()
        self._reader.communicate()

    def __call__(self) -> Iterator[tuple[dict[str, str], str, str]]:
        """Yield the keys of a bean's name, an attribute and its value, as they are now."""
        assert self._reader.stdin is not None
        assert self._reader.stdout is not None
        self._reader.stdin.write("\n")
        self._reader.stdin.flush()
        for line in iter(self._reader.stdout.readline, "\n"):
            assert line, "the program has ended"
            bean, attribute, value = line.rstrip("\n").split("\t")
            yield dict(key.split("=", 1) for key in bean.split(",")), attribute, value


class MirrorTools:
    """MirrorMaker's own classes, asked a line a question; each is answered with a line."""

    def __init__(self, directory: Path) -> None:
        ensure_compiler()
        jars = [
            kafka_jar(name) for name in ("connect-mirror-client", "connect-mirror", "connect-runtime", "connect-api")
        ]
        self._classpath = _classpath(directory, *jars)
        # Compiled first: classes that share a package with Kafka's have to come from a path as these do.
        compiler = [str(find_java().path), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", str(directory)]
        source = str(PROGRAMS / "MirrorTools.java")
        done = subprocess.run([*compiler, "-cp", self._classpath, source], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def answers(self, questions: Sequence[str]) -> list[str]:
        main = "org.apache.kafka.connect.mirror.MirrorTools"
        command = [str(find_java().path), *QUICK_JVM, "-Dfile.encoding=UTF-8", "-cp", self._classpath, main]
        lines = "".join(f"{question}\n" for question in questions)
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        found = done.stdout.splitlines()
        assert len(found) == len(questions), done.stdout[-2000:]
        return found


def _classpath(*before: Path) -> str:
    return os.pathsep.join([*map(str, before), ensure_home(find_java()).classpath])


def ensure_compiler() -> None:
    """Skip the test if this Java has no compiler."""
    listed = subprocess.run([str(find_java().path), "--list-modules"], capture_output=True, text=True, check=True)
    if "jdk.compiler" not in listed.stdout:
        pytest.skip("this takes a program in Java, and this Java cannot compile it: it takes a JDK")


@contextmanager
def _running(program: str, *arguments: str, jar: Path | None = None) -> Iterator[None]:
    """Run a program from when it has read something until it says that it has left."""
    command = _command(program, *arguments, jar=jar)
    reader = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert reader.stdout is not None
    assert reader.stdin is not None
    try:
        assert reader.stdout.readline() == "read\n"
        yield
        reader.stdin.write("leave\n")
        reader.stdin.flush()
        assert "left\n" in list(reader.stdout)
    finally:
        reader.kill()
        reader.wait()
        reader.stdin.close()
        reader.stdout.close()


def _command(program: str, *arguments: str, jar: Path | None = None) -> list[str]:
    ensure_compiler()
    classpath = _classpath(*([jar] if jar is not None else []))
    return [str(find_java().path), *QUICK_JVM, "-cp", classpath, str(PROGRAMS / f"{program}.java"), *arguments]


def kafka_jar(module: str) -> Path:
    """Return a jar of Kafka's, fetched once per user; all that it needs for what is done here, a broker has."""
    jar = default_cache() / f"{module}-{KAFKA_VERSION}.jar"
    with locked(jar.with_suffix(".lock")):
        if not jar.exists():
            _fetch(module, jar)
    return jar


def _fetch(module: str, jar: Path) -> None:
    ivy = next(pyspark_jars().glob("ivy-*.jar"))
    with tempfile.TemporaryDirectory(dir=jar.parent) as temporary:
        wanted = ["-dependency", "org.apache.kafka", module, KAFKA_VERSION, "-confs", "default"]
        where = f"{temporary}/[artifact]-[revision].[ext]"
        command = [str(find_java().path), "-jar", str(ivy), *wanted, "-notransitive", "-retrieve", where]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        assert fetched.returncode == 0, fetched.stdout[-2000:]
        fresh = Path(temporary, jar.name)
        assert hashlib.sha256(fresh.read_bytes()).hexdigest() == _SHA256[module]
        fresh.rename(jar)
