"""One light worker, and a registry that a test can cut off."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.chaos.gate import Gate
from support.cluster import LightWorker
from support.schema_registry import shared_registry
from support.shared import shared
from support.worker import Worker


@shared
def worker(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker without Spark, with exactly-once on."""
    settings = {
        "plugin.path": str(Path(__file__).parent / "plugins"),
        "spark.master": "local[4]",
        "slots.max": "2",
        "offset.flush.interval.ms": "300",
    }
    running = LightWorker(
        kafka.bootstrap_servers, tmp_path_factory.mktemp("registry"), settings, group=f"registry-{uuid.uuid4().hex[:6]}"
    )
    with running:
        eventually(running.slots, within_s=200)
        yield running


@pytest.fixture
def gate() -> Iterator[Gate]:
    """The way to the real registry."""
    with Gate(urlsplit(shared_registry()).port or 0) as made:
        yield made


@pytest.fixture
def registry_url(gate: Gate) -> str:
    return f"http://127.0.0.1:{gate.port}/apis/ccompat/v7"
