"""A worker of ours without Spark, and one of Kafka Connect: the commands must work with both."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from oracle.connect import KafkaConnect
from support.cluster import Cluster
from support.command_line import Ran, fencepost
from support.long_form import IS_LONG
from support.shared import shared
from support.worker import free_port

ORACLE = pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long starts a worker of Kafka Connect")


@dataclass(frozen=True)
class Side:
    """A cluster that commands ask."""

    url: str
    is_ours: bool
    rest: httpx.Client

    def config(self, name: str) -> dict[str, Any]:
        """The config; empty if there is no such connector. Kafka Connect answers 500 while it expects a rebalance."""

        def known() -> httpx.Response | None:
            answer = self.rest.get(f"/connectors/{name}/config")
            return answer if answer.status_code in (200, 404) else None

        found = eventually(known, within_s=60)
        return found.json() if found is not None and found.status_code == 200 else {}

    def states(self, name: str) -> list[str]:
        answer = self.rest.get(f"/connectors/{name}/status")
        found = answer.json() if answer.status_code == 200 else {"connector": {"state": "missing"}, "tasks": []}
        return [one["state"] for one in (found["connector"], *found["tasks"])]


@shared
def fencepost_side(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    group, directory = f"cli-{uuid.uuid4().hex[:6]}", tmp_path_factory.mktemp("cli")
    with Cluster(kafka.bootstrap_servers, directory, group, 1, offset_flush_interval_ms="1000") as cluster:
        cluster.start()
        url = f"http://127.0.0.1:{cluster.workers[0].port}"
        with httpx.Client(base_url=url, timeout=100) as rest:
            yield Side(url, True, rest)


@shared
def connect_side(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    group = f"oracle-{uuid.uuid4().hex[:6]}"
    settings = {
        "group.id": group,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "1000",
        **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
    }
    directory = tmp_path_factory.mktemp("oracle")
    with KafkaConnect(kafka.bootstrap_servers, directory, free_port(), settings) as worker:
        with httpx.Client(base_url=worker.url, timeout=100) as rest:
            yield Side(worker.url, False, rest)


@pytest.fixture(params=["fencepost", pytest.param("connect", marks=ORACLE)])
def side(request: pytest.FixtureRequest) -> Side:
    """Each of the two; Kafka Connect only in `make chaos`."""
    found: Side = request.getfixturevalue(f"{request.param}_side")
    return found


@pytest.fixture
def run(side: Side, tmp_path: Path) -> Callable[..., Ran]:
    """Runs a command on that side, as a user without contexts."""

    def ran(*arguments: object, **how: Any) -> Ran:
        own = {"FENCEPOST_URL": side.url, "XDG_CONFIG_HOME": str(tmp_path / "config")}
        return fencepost(*arguments, **{**own, **how})

    return ran


@pytest.fixture
def name(side: Side, topic_name: str) -> Iterator[str]:
    """A name for connectors; those whose names begin with it are deleted afterwards."""
    short = topic_name[-40:].lstrip("-")
    yield short
    for each in side.rest.get("/connectors").json():
        if each.startswith(short):
            side.rest.delete(f"/connectors/{each}")
