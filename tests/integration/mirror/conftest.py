"""Two clusters, and one worker, without Spark, on the second of them."""

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from flow import Flow

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.cluster import LightWorker
from support.log_writer import LogWriter
from support.quick import quick_kafka
from support.shared import shared

_START_S = 240
# It checks rights: who has a topic without any may do everything there.
_SOURCE = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "broker.session.timeout.ms": "60000",
    "log.cleaner.backoff.ms": "500",
}


@shared
def source_kafka() -> Iterator[EmbeddedKafka]:
    """The cluster that is mirrored; `kafka` is the target."""
    with quick_kafka(properties=_SOURCE, start_timeout_s=_START_S) as broker:
        _close_groups_of_readers(broker.bootstrap_servers)
        yield broker


def _close_groups_of_readers(bootstrap: str) -> None:
    """Deny everything on the group that readers name: to be mirrored a cluster has to grant rights on topics alone."""
    denied = AclBinding(
        ResourceType.GROUP,
        "fencepost-reader",
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        AclOperation.ALL,
        AclPermissionType.DENY,
    )
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_acls([denied])[denied].result(60)


@shared
def source_writer(source_kafka: EmbeddedKafka) -> Iterator[LogWriter]:
    made = LogWriter(source_kafka.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture(scope="session")
def target_writer(kafka: EmbeddedKafka) -> Iterator[LogWriter]:
    made = LogWriter(kafka.bootstrap_servers)
    yield made
    made.close()


@shared
def worker(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LightWorker]:
    """A healthy worker with exactly-once on. Tests share it: unique names, and no restart."""
    directory = tmp_path_factory.mktemp("mirror")
    with LightWorker(kafka.bootstrap_servers, directory, group=f"mirror-{uuid.uuid4().hex[:6]}") as running:
        eventually(running.slots, within_s=60)
        yield running


@pytest.fixture
def flow(worker: LightWorker, source_writer: LogWriter, target_writer: LogWriter) -> Iterator[Flow]:
    """A flow that no other test has; its connectors are deleted afterwards."""
    made = Flow(worker, source_writer, target_writer)
    yield made
    made.clear()
