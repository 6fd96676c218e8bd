"""Clients in Java, of kinds that librdkafka has not: small programs in `java`, compiled as they start."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencepost.embedded.home import KAFKA_VERSION, default_cache, ensure_home, locked
from fencepost.embedded.ivy import pyspark_jars
from fencepost.embedded.java import find_java

_PROGRAMS = Path(__file__).with_name("java")
_STREAMS_SHA256 = "bd73f3805e116f711e8456ee89a8a5b43ff5dcf5a5bb865afae29deae89e7c4b"


@contextmanager
def share_member(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """Read in a share group."""
    with _running("ShareReader", bootstrap, group, topic):
        yield


@contextmanager
def streams_member(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """Read in a streams group (KIP-1071), by way of a repartition topic; it commits when it leaves, and not before."""
    _ensure_compiler()
    with tempfile.TemporaryDirectory() as state:
        with _running("StreamsReader", bootstrap, group, topic, state, jar=_streams_jar()):
            yield


def _ensure_compiler() -> None:
    listed = subprocess.run([str(find_java().path), "--list-modules"], capture_output=True, text=True, check=True)
    if "jdk.compiler" not in listed.stdout:
        pytest.skip("librdkafka knows no such groups, and this Java cannot compile a member: it takes a JDK")


@contextmanager
def _running(program: str, *arguments: str, jar: Path | None = None) -> Iterator[None]:
    """Run a program from when it has read something until it says that it has left."""
    _ensure_compiler()
    java = find_java()
    classpath = os.pathsep.join([ensure_home(java).classpath, *([str(jar)] if jar is not None else [])])
    source = str(_PROGRAMS / f"{program}.java")
    command = [str(java.path), "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", classpath, source, *arguments]
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


def _streams_jar() -> Path:
    """Return Kafka Streams, fetched once per user; all that it needs for what is done here, Kafka itself has."""
    name = f"kafka-streams-{KAFKA_VERSION}.jar"
    jar = default_cache() / name
    with locked(jar.with_suffix(".lock")):
        if not jar.exists():
            _fetch(jar)
    return jar


def _fetch(jar: Path) -> None:
    ivy = next(pyspark_jars().glob("ivy-*.jar"))
    with tempfile.TemporaryDirectory(dir=jar.parent) as temporary:
        wanted = ["-dependency", "org.apache.kafka", "kafka-streams", KAFKA_VERSION, "-confs", "default"]
        where = f"{temporary}/[artifact]-[revision].[ext]"
        command = [str(find_java().path), "-jar", str(ivy), *wanted, "-notransitive", "-retrieve", where]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        assert fetched.returncode == 0, fetched.stdout[-2000:]
        fresh = Path(temporary, jar.name)
        assert hashlib.sha256(fresh.read_bytes()).hexdigest() == _STREAMS_SHA256
        fresh.rename(jar)
