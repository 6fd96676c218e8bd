"""Topics that empty themselves, where the worker may not do all that it takes: it says what is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import Consumer

from fencepost.testing import eventually
from support.log_writer import LogWriter
from support.retention_scene import RetentionStage
from support.secured import Grant, SecuredKafka

WORKER = "User:worker"


@pytest.fixture
def scene(broker: SecuredKafka) -> Iterator[RetentionStage]:
    writer = LogWriter(broker.kafka.internal_servers)
    made = RetentionStage(writer, {**broker.client("worker"), "bootstrap.servers": broker.kafka.bootstrap_servers})
    yield made
    made.retention.stop()
    writer.close()


def is_emptied(scene: RetentionStage, until: int) -> bool:
    scene.round()
    if scene.start == until:
        return True
    raise AssertionError(f"{scene.start} {scene.told()}")


def test_nothing_is_deleted_without_a_right_and_the_right_is_named(broker: SecuredKafka, scene: RetentionStage) -> None:
    said = {
        Grant(WORKER, "cluster", "kafka-cluster", "Describe"): "may not Describe the cluster",
        Grant(WORKER, "topic", scene.topic, "Delete"): "TOPIC_AUTHORIZATION_FAILED",
        Grant(WORKER, "topic", scene.topic, "DescribeConfigs"): "TOPIC_AUTHORIZATION_FAILED",
        Grant(WORKER, "group", "*", "Describe"): "may not Describe it",
    }
    broker.grant([*said, Grant(WORKER, "topic", scene.topic, "Describe")])
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


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_topics_unknown_to_the_worker_require_the_right_to_describe_all_topics(
    broker: SecuredKafka, scene: RetentionStage, protocol: str
) -> None:
    """Kafka does not tell of the members of a newer group (KIP-848) that reads one topic that may not be seen."""
    broker.grant([
        *(Grant(WORKER, "topic", scene.topic, operation) for operation in ("Describe", "DescribeConfigs", "Delete")),
        Grant(WORKER, "group", "*", "Describe"), Grant(WORKER, "cluster", "kafka-cluster", "Describe"),
    ])  # fmt: skip
    elsewhere, group = scene.writer.topic(f"unseen-{scene.topic}"), f"outside-{scene.topic}"
    scene.writer.send(elsewhere, ["a"])
    all_topics = Grant(WORKER, "topic", "*", "Describe")
    with reading(scene, group, elsewhere, protocol):
        if protocol == "consumer":
            eventually(partial(is_told, scene, f"group {group} may read it: the principal may not Describe a topic"))
            assert scene.start == 0
            broker.grant([all_topics])
        eventually(partial(is_emptied, scene, 8), within_s=60)
    if protocol == "consumer":
        broker.revoke(all_topics)


@contextmanager
def reading(scene: RetentionStage, group: str, topic: str, protocol: str) -> Iterator[None]:
    """Join a group, in a way that takes no rights."""
    consumer = Consumer({
        "bootstrap.servers": scene.bootstrap, "group.id": group, "group.protocol": protocol,
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
    })  # fmt: skip
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.05) is not None)
    yield
    consumer.close()


def is_told(scene: RetentionStage, why: str) -> bool:
    scene.round()
    if why in scene.told():
        return True
    raise AssertionError(scene.told())
