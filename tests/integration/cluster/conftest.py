"""One cluster of three workers for the module; the last sees the broker through a proxy. All run before each test."""

import uuid
from collections.abc import Iterator

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.testing.source import PLUGIN_PATH
from support.cluster import Cluster, WorkerOfRun
from support.proxy import KafkaProxy

# With Spark below each of them these tests take minutes.


@pytest.fixture(scope="module")
def proxy(kafka: EmbeddedKafka) -> Iterator[KafkaProxy]:
    with KafkaProxy(kafka.bootstrap_servers) as running:
        yield running


@pytest.fixture(scope="module")
def shared(kafka: EmbeddedKafka, proxy: KafkaProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    group = f"cluster-{uuid.uuid4().hex[:6]}"
    directory = tmp_path_factory.mktemp("cluster")
    with Cluster(kafka.bootstrap_servers, directory, group, 2, kind=WorkerOfRun, plugin_path=PLUGIN_PATH) as cluster:
        cluster.workers.append(cluster.made(proxy.bootstrap_servers))
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """All three workers run."""
    shared.start()
    shared.await_leader()
    return shared
