"""One worker, without Spark, that empties the topics whose names begin as the fixture says."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from retention_stage import Stage

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.cluster import LightWorker
from support.log_writer import LogWriter
from support.shared import shared

ROUND_MS = 100


def settings(prefix: str, **more: str) -> dict[str, str]:
    """Return what a worker's file says that empties topics of a prefix, and waits for groups of another one."""
    return {
        "delete.committed.enabled": "true",
        "delete.committed.topics": f"{prefix}.*",
        "delete.committed.respect.groups": "waited-.*",
        "offset.flush.interval.ms": str(ROUND_MS),
        **{key.replace("_", "."): value for key, value in more.items()},
    }


@pytest.fixture(scope="session")
def prefix() -> str:
    """The beginning of names of topics that are emptied."""
    return f"emptied-{uuid.uuid4().hex[:6]}"


@shared
def worker(kafka: EmbeddedKafka, prefix: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LightWorker]:
    directory = tmp_path_factory.mktemp("retention")
    group = f"retention-{uuid.uuid4().hex[:6]}"
    with LightWorker(kafka.bootstrap_servers, directory, settings(prefix), group=group) as running:
        eventually(running.slots, within_s=60)
        yield running


@pytest.fixture
def stage(worker: LightWorker, log_writer: LogWriter, prefix: str, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(worker, log_writer, prefix, tmp_path)
    yield made
    made.clear()
