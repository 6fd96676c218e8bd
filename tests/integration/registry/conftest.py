"""One light worker, and a registry that a test can cut off."""

import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.chaos.gate import Closed, Gate
from support.cluster import LightWorker
from support.long_form import IS_LONG
from support.schema_registry import Outage, OwnRegistry, shared_registry
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
def outage(tmp_path: Path) -> Iterator[Outage]:
    """A way to the registry that can be cut off; in the long form a registry that is killed and started again."""
    if IS_LONG:
        with OwnRegistry(tmp_path) as own:
            yield Outage(own.url, own.kill, own.start)
        return
    with Gate(urlsplit(shared_registry()).port or 0) as gate:
        url = f"http://127.0.0.1:{gate.port}/apis/ccompat/v7"
        yield Outage(url, partial(gate.close, Closed.REFUSING), gate.open)


@pytest.fixture
def registry_url() -> str:
    return shared_registry()
