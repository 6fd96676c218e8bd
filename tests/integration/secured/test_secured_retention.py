"""Topics that empty themselves, where the worker may not do all that it takes: it says what is missing."""

from collections.abc import Iterator
from functools import partial

import pytest

from fencepost.testing import eventually
from support.log_writer import LogWriter
from support.retention_scene import Scene
from support.secured import Grant, SecuredKafka

WORKER = "User:worker"


@pytest.fixture
def scene(broker: SecuredKafka) -> Iterator[Scene]:
    writer = LogWriter(broker.kafka.internal_servers)
    made = Scene(writer, {**broker.client("worker"), "bootstrap.servers": broker.kafka.bootstrap_servers})
    yield made
    made.retention.stop()
    writer.close()


def is_emptied(scene: Scene, until: int) -> bool:
    scene.round()
    if scene.start == until:
        return True
    raise AssertionError(f"{scene.start} {scene.told()}")


def test_nothing_goes_without_any_of_its_rights_and_it_is_said_which(broker: SecuredKafka, scene: Scene) -> None:
    said = {
        Grant(WORKER, "cluster", "kafka-cluster", "Describe"): "may not Describe the cluster",
        Grant(WORKER, "topic", scene.topic, "Delete"): "TOPIC_AUTHORIZATION_FAILED",
        Grant(WORKER, "topic", scene.topic, "DescribeConfigs"): "TOPIC_AUTHORIZATION_FAILED",
        Grant(WORKER, "group", "*", "Describe"): "may not Describe it",
    }
    rights = [*said, Grant(WORKER, "topic", scene.topic, "Describe")]
    broker.grant(rights)
    committed = 7
    scene.commit("a", committed)
    eventually(partial(is_emptied, scene, committed), within_s=60)
    for right, why in said.items():
        broker.revoke(right)
        committed += 1
        scene.writer.send(scene.topic, ["more"])
        scene.commit("a", committed)
        scene.round()
        assert why in scene.told(), right
        assert scene.start == committed - 1, right
        broker.grant([right])
        eventually(partial(is_emptied, scene, committed), within_s=60)
