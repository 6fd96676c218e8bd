"""Two workers for all tests here, with exactly-once and without: a start takes seconds."""

import itertools
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from moved import MovedOffsetsStage

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from fencepost.testing.source import PLUGIN_PATH
from support.cluster import WorkerOfRun
from support.shared import shared
from support.worker import Worker

# No test here is about Spark.
_numbers = itertools.count()


def _worker(kafka: EmbeddedKafka, directory: Path, support: str) -> Iterator[Worker]:
    settings = {
        "plugin.path": f"{PLUGIN_PATH},{Path(__file__).parent / 'plugins'}",
        "task.shutdown.graceful.timeout.ms": "2000",
        "offset.flush.interval.ms": "300",
        "spark.master": "local[4]",
        "slots.max": "2",
        "exactly.once.source.support": support,
    }
    group = f"offsets-{support}-{uuid.uuid4().hex[:6]}"
    running = WorkerOfRun(kafka.bootstrap_servers, directory, settings, group=group)
    try:
        running.launch()
        eventually(lambda: _is_ready(running), within_s=200, every_s=0.2)
        yield running
    finally:
        running.stop()


def _is_ready(worker: Worker) -> bool:
    """Start it again where a broker without breath has refused to make its topics."""
    assert worker.process is not None
    if worker.process.poll() is not None:
        worker.launch()
        return False
    return worker.rest.get("/health").status_code == 200 and bool(worker.slots())


@shared
def exactly(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    yield from _worker(kafka, tmp_path_factory.mktemp("exactly"), "enabled")


@shared
def at_least(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    yield from _worker(kafka, tmp_path_factory.mktemp("at-least"), "disabled")


@pytest.fixture
def scene(request: pytest.FixtureRequest, kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[MovedOffsetsStage]:
    """A FileStreamSource yet to be created: by default exactly-once, with its offsets in the worker's topic.

    Parametrised indirectly with words: "own topic", "at least once".
    """
    words = getattr(request, "param", "")
    worker: Worker = request.getfixturevalue("at_least" if "at least once" in words else "exactly")
    name = f"c{next(_numbers)}-{uuid.uuid4().hex[:4]}"
    scene = MovedOffsetsStage(worker, kafka, name, tmp_path / "in.txt", has_own_topic="own topic" in words)
    yield scene
    worker.rest.delete(f"/connectors/{name}")
