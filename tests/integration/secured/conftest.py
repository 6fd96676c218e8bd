"""One secured broker and one worker, which may do exactly what `fencepost acls` prints."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from secured_case import CONNECTOR, GROUP, PLAIN_USERS, TOPIC, USERS, Secured, granted, settings

from support.cluster import LightWorker
from support.secured import SecuredKafka
from support.shared import shared
from support.worker import Worker


@shared
def running_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("secured"), USERS, PLAIN_USERS) as running:
        yield running


@pytest.fixture(scope="module")
def broker(running_broker: SecuredKafka) -> SecuredKafka:
    """For each module it is as a new one: nobody may do anything there."""
    running_broker.clear()
    return running_broker


@pytest.fixture(scope="module")
def secured(broker: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A worker without Spark, for most tests here: they are about its clients."""
    directory = tmp_path_factory.mktemp("worker")
    worker = LightWorker(broker.kafka.bootstrap_servers, directory, settings(broker.client), group=GROUP)
    file = directory / "lines.txt"
    file.write_text("")
    config = {
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": TOPIC,
        "offsets.storage.topic": f"{CONNECTOR}-offsets",
        "topic.creation.default.partitions": 1,
        "topic.creation.default.replication.factor": 1,
    }
    worker.write_file()
    grants = granted(worker, CONNECTOR, config)
    broker.grant(grants)
    with worker:
        assert worker.create(CONNECTOR, config).status_code == 201
        yield Secured(broker, worker, config, file, grants)


@pytest.fixture
def spark_worker(broker: SecuredKafka, tmp_path: Path) -> Iterator[Worker]:
    """A whole worker, not started. Spark records its jobs in the directory `events`."""
    events = tmp_path / "events"
    events.mkdir()
    spark = {"spark.master": "local[4]", "slots.max": "2"}
    spark |= {
        "spark.eventLog.compress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
    }
    worker = Worker(broker.kafka.bootstrap_servers, tmp_path, settings(broker.client) | spark, group="sparks")
    yield worker
    worker.stop()
