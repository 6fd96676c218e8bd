"""The batch client on a broker of Kafka 3.9, which has version 1 of transactions."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencepost.embedded import checksum, layout
from fencepost.embedded.home import KafkaHome, default_cache, locked, pyspark_jars, retrieve
from fencepost.embedded.java import Java, find_java
from support.brokers import Brokers
from support.own_pytest import run

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
        retrieve(java, _COORDINATES, fresh.directory / "lib", expected_jars=len(expected))
        checksum.verify(fresh.directory / "lib", expected)
        (fresh.directory / "logging").mkdir()
        for jar in (jar for pattern in _LOGGING for jar in pyspark_jars().glob(pattern)):
            shutil.copy2(jar, fresh.directory / "logging")
        layout.write_bootstrap_snapshot(java, fresh.classpath, fresh.bootstrap_snapshot)
        fresh.manifest.write([*fresh.logging_jars, *fresh.jars])
        fresh.directory.rename(home.directory)


_SUITE = "tests/conformance/transaction"
_CORE = {
    "test_visibility.py": "batch",
    "test_fencing.py": "batch and e2",
    "test_nothing_twice.py": "1-batch or (lost-batch and not 2-)",
}
_TRAPS = (
    "test_hundreds_of_requests_can_be_in_flight",
    "test_second_batch_is_built_while_the_first_is_in_flight_and_sent_after_it[1]",
    "test_requests_during_the_end_of_the_previous_transaction_are_repeated[1]",
    "test_offsets_are_sent_while_records_are_in_flight",
)


@pytest.mark.timeout(900)  # it fetches that Kafka, once a user
def test_core_of_the_suite_passes_with_version_1_on_a_broker_of_kafka_3_9() -> None:
    wanted = " or ".join(["test_traps.py", *(f"({name} and ({which}))" for name, which in _CORE.items())])
    tests = [*(f"{_SUITE}/{name}" for name in _CORE), *(f"{_SUITE}/test_traps.py::{name}" for name in _TRAPS)]
    with old_kafka() as servers:
        code, out = run(servers, tests, "-k", wanted)
    assert code == 0, out
    assert re.search(r"^\d{2,} passed", out, re.MULTILINE), out
