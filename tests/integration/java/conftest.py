"""One worker without Spark for the tests here, with a plug-in in Java that they share."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.builtin.java.port import HostOptions
from fencepost.builtin.java.start import start_host
from fencepost.embedded import EmbeddedKafka
from support.cluster import LightWorker
from support.jars import SINK, SOURCE
from support.java_plugins import compile_plugins
from support.java_program import kafka_jar
from support.quick import QUICK
from support.shared import shared
from support.worker import Worker

LOUD = '''
from fencepost.api import Converter, RecordError, Transform

class Loud(Transform):
    """Adds an exclamation mark; refuses 0:3."""

    def apply(self, record):
        if record.value == "0:3":
            raise RecordError("not that one")
        return record.replace(value=f"{record.value}!")

class LoudConverter(Converter):
    def from_connect_data(self, topic, schema, value):
        return None if value is None else f"loud:{value}".encode()

    def to_connect_data(self, topic, data):
        if data is not None and not data.startswith(b"loud:"):
            raise RecordError("it is not loud")
        return None, None if data is None else data.decode().removeprefix("loud:")
'''


@pytest.fixture(scope="session")
def java_plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for `plugin.path`, with a source and a sink of the tests, and Kafka's for files and tests."""
    top = tmp_path_factory.mktemp("java-plugins")
    compile_plugins(top / "numbers")
    services = top / "numbers" / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / SOURCE).write_text("tests.NumberSourceConnector\n")
    (services / SINK).write_text("tests.LinesSinkConnector\n")
    for module in ("connect-file", "connect-test-plugins"):
        shutil.copy(kafka_jar(module), top)
    (top / "loud.py").write_text(LOUD)
    start_host(HostOptions([QUICK], "host of a test")).close()  # Kafka's jars are fetched, and ours is made
    return top


@shared
def worker(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory, java_plugins: Path) -> Iterator[Worker]:
    settings = {
        "plugin.path": str(java_plugins),
        "java.host.options": QUICK,
        "task.shutdown.graceful.timeout.ms": "3000",
        "spark.master": "local[4]",
        "slots.max": "2",
        "spark.python.task.killTimeout": "120s",  # a slot that stands still is a zombie, and not killed
        "config.providers": "vault",
        "config.providers.vault.class": "tests.VaultProvider",
        "config.providers.vault.param.token": "of-vault",
    }
    group = f"java-{uuid.uuid4().hex[:6]}"
    with LightWorker(kafka.bootstrap_servers, tmp_path_factory.mktemp("worker"), settings, group=group) as running:
        yield running


@pytest.fixture
def name(worker: Worker, topic_name: str) -> Iterator[str]:
    """The name of a connector, which is deleted afterwards, and of its topic."""
    yield topic_name
    worker.rest.delete(f"/connectors/{topic_name}")
