"""A broker of Kafka 3.9, which supports version 1 of transactions only."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fencepost.embedded import checksum, ivy, layout
from fencepost.embedded.home import KafkaHome, default_cache, locked
from fencepost.embedded.java import Java, find_java
from support.brokers import Brokers

OLD_VERSION = "3.9.1"
_COORDINATES = ("org.apache.kafka", "kafka_2.13", OLD_VERSION)
_SHA256 = Path(__file__).with_name("old_kafka.sha256")
_LOGGING = ("slf4j-api-2*.jar", "log4j-slf4j2-impl-*.jar", "log4j-api-*.jar", "log4j-core-*.jar", "log4j-1.2-api-*.jar")


@contextmanager
def old_kafka() -> Iterator[str]:
    """Run a broker for as long as the block; gives where clients connect."""
    with Brokers(count=1, home=old_home(find_java())) as broker:
        yield broker.bootstrap_servers


def old_home(java: Java) -> KafkaHome:
    """Return its jars, verified, and fetched if this user has none yet."""
    home = KafkaHome(default_cache() / f"kafka-{OLD_VERSION}")
    with locked(home.lock):
        if not home.is_as_verified():
            shutil.rmtree(home.directory, ignore_errors=True)
            _install(java, home)
    return home


def _install(java: Java, home: KafkaHome) -> None:
    expected = checksum.listed(_SHA256.read_text(encoding="ascii"))
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home.directory.parent) as temporary:
        fresh = KafkaHome(Path(temporary, "home"))
        ivy.retrieve(java, _COORDINATES, fresh.directory / "lib", expected_jars=len(expected))
        checksum.verify(fresh.directory / "lib", expected)
        (fresh.directory / "logging").mkdir()
        for jar in (jar for pattern in _LOGGING for jar in ivy.pyspark_jars().glob(pattern)):
            shutil.copy2(jar, fresh.directory / "logging")
        layout.write_bootstrap_snapshot(java, fresh.classpath, fresh.bootstrap_snapshot)
        fresh.manifest.write([*fresh.logging_jars, *fresh.jars])
        fresh.directory.rename(home.directory)
