"""Checkpoints of groups, on a running worker; offset syncs are written by the tests, groups and topics are real."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from flow import Flow

from fencepost.builtin.mirror.checkpoint.connector import Ends
from fencepost.builtin.mirror.formats import OffsetSync
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.worker import free_port


def start(flow: Flow, *, tasks: int = 1, **more: str) -> str:
    """Start a checkpoint connector that looks every second."""
    quick = {"emit__checkpoints__interval__seconds": "1", "sync__group__offsets__interval__seconds": "1"}
    return flow.start("Checkpoint", tasks=tasks, **{"groups": flow.groups, **quick, **more})


def a_round(flow: Flow, group: str) -> None:
    """Wait until the task of a group has looked at all that there is by now: what came up last tells."""
    topic = flow.topic(1)
    flow.sync(topic, (0, 0))
    flow.commit(group, topic, 0)
    flow.await_positions(group, topic, (0, 0))


def deny(flow: Flow, kind: ResourceType, name: str) -> None:
    """Deny all principals access to a group or topic of the source."""
    nobody = AclBinding(
        kind,
        name,
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        AclOperation.ALL,
        AclPermissionType.DENY,
    )
    client = AdminClient({"bootstrap.servers": flow.source.bootstrap})
    for future in client.create_acls([nobody]).values():
        future.result(30)


@contextmanager
def member(flow: Flow, group: str, topic: str) -> Iterator[Consumer]:
    """Read a topic of the target as a member of a group that commits nothing."""
    consumer = Consumer(
        {
            "bootstrap.servers": flow.target.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.05) is not None)
    yield consumer
    consumer.close()


def test_positions_are_translated_and_never_go_back_unless_the_group_does(flow: Flow) -> None:
    topic, group = flow.topic(), flow.group()
    flow.sync(topic, (9, 20), (19, 31))
    flow.commit(group, topic, 10, note="mine")
    start(flow)
    flow.await_positions(group, topic, (10, 21))  # the boundary behind record 9
    assert flow.checkpoints()[0].metadata == "mine"
    flow.commit(group, topic, 15)
    a_round(flow, group)
    assert flow.positions(group, topic) == [(10, 21)], "nothing more is known of 15 than of 10"
    flow.commit(group, topic, 20)
    flow.await_positions(group, topic, (10, 21), (20, 32))
    flow.commit(group, topic, 25)
    flow.sync(topic, (24, 40))
    flow.await_positions(group, topic, (10, 21), (20, 32), (25, 41))
    flow.commit(group, topic, 12)
    flow.await_positions(group, topic, (10, 21), (20, 32), (25, 41), (12, 21))
    latency, labels = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms_max", {"group": group}
    eventually(lambda: 0 < flow.worker.metric(latency, topic=flow.remote(topic), **labels) < 600_000)


def test_no_checkpoint_is_written_without_an_offset_sync(flow: Flow) -> None:
    early, unknown, excluded = flow.topic(), flow.topic(), flow.topic()
    group = flow.group()
    flow.sync(early, (50, 50))
    flow.sync(excluded, (0, 0))
    for topic in (early, unknown, excluded):
        flow.commit(group, topic, 10)
    flow.commit(flow.group("-left-out"), early, 60)
    start(flow, topics__exclude=excluded, groups__exclude=".*-left-out")
    a_round(flow, group)
    assert flow.positions(group, early) == [(10, 0)], "the beginning of the remote partition"
    for topic in (unknown, excluded):
        assert flow.positions(group, topic) == []
    assert {each.group for each in flow.checkpoints()} == {group}


def test_checkpoints_never_exceed_the_end_of_the_remote_topic(flow: Flow) -> None:
    topic, group = flow.topic(records=30), flow.group()
    flow.sync(topic, (10, 10), (20, 40))
    flow.commit(group, topic, 20)
    start(flow)
    a_round(flow, group)
    assert flow.positions(group, topic) == []
    flow.commit(group, topic, 11)
    flow.await_positions(group, topic, (11, 11))


def test_groups_are_divided_among_tasks_and_new_groups_are_found(flow: Flow) -> None:
    topic = flow.topic()
    flow.sync(topic, (0, 0))
    flow.commit(flow.group("-elsewhere"), flow.topic(), 1)
    name = start(flow, tasks=0, tasks__max="2", refresh__groups__interval__seconds="1", topics=topic)
    flow.commit(flow.group("-0"), topic, 1)
    flow.worker.wait_for_tasks(name, "RUNNING")
    flow.await_positions(flow.group("-0"), topic, (1, 1))
    for number in range(1, 4):
        flow.commit(flow.group(f"-{number}"), topic, 1)
    flow.worker.wait_for_tasks(name, "RUNNING", "RUNNING")
    for number in range(4):
        flow.await_positions(flow.group(f"-{number}"), topic, (1, 1))
    configs = flow.worker.rest.get(f"/connectors/{name}/tasks").json()
    found = [group for task in configs for group in task["config"]["task.assigned.groups"].split(",")]
    assert found == [flow.group(f"-{number}") for number in range(4)]


def test_a_checkpoint_of_an_older_task_is_never_moved_back(flow: Flow) -> None:
    topic, group = flow.topic(), flow.group()
    flow.sync(topic, (9, 20), (19, 31))
    flow.commit(group, topic, 20)
    name = start(flow)
    flow.await_positions(group, topic, (20, 32))
    flow.stop(name)
    flow.source.recreate(flow.syncs_topic)
    flow.sync(topic, (9, 20))  # compaction has left less
    start(flow)
    a_round(flow, group)
    assert flow.positions(group, topic) == [(20, 32)]


def test_another_topic_of_offset_syncs_is_read_from_its_beginning(flow: Flow) -> None:
    topic, other, group = flow.topic(), flow.topic(), flow.group()
    flow.sync(topic, (9, 20), (19, 31))
    flow.commit(group, topic, 10)
    start(flow)
    flow.await_positions(group, topic, (10, 21))
    flow.source.recreate(flow.syncs_topic)
    flow.sync(topic, (9, 23))
    flow.sync(other, *((number, number) for number in range(5)))
    flow.await_positions(group, topic, (10, 21), (10, 24))


def test_another_remote_topic_has_checkpoints_of_its_own(flow: Flow) -> None:
    topic, group = flow.topic(), flow.group()
    flow.sync(topic, (19, 80))
    flow.commit(group, topic, 20)
    start(flow)
    flow.await_positions(group, topic, (20, 81))
    flow.target.recreate(flow.remote(topic))
    flow.target.send(flow.remote(topic), ["again"] * 30)
    flow.sync(topic, (19, 5))
    flow.await_positions(group, topic, (20, 81), (20, 6))


def test_groups_without_members_are_committed_at_target_and_never_moved_back(flow: Flow) -> None:
    topic = flow.topic(partitions=2)
    idle, ahead, busy = (flow.group(suffix) for suffix in ("-idle", "-ahead", "-busy"))
    for partition in (0, 1):
        flow.sync(topic, (9, 20), (19, 31), partition=partition)
    for group in (idle, ahead, busy):
        flow.commit(group, topic, 10, 20)
    remote = flow.remote(topic)
    flow.commit_at_target(ahead, remote, 25, 25)
    with member(flow, busy, remote):
        start(flow, sync__group__offsets__enabled="true")
        eventually(lambda: flow.committed_at_target(idle) == {(remote, 0): 21, (remote, 1): 32}, within_s=60)
        eventually(lambda: flow.committed_at_target(ahead) == {(remote, 0): 25, (remote, 1): 32}, within_s=60)
        flow.commit(idle, topic, 20, 10)
        eventually(lambda: flow.committed_at_target(idle) == {(remote, 0): 32, (remote, 1): 32}, within_s=60)
        assert flow.committed_at_target(busy) == {}
    eventually(lambda: flow.committed_at_target(busy) == {(remote, 0): 21, (remote, 1): 32}, within_s=60)


def test_an_unauthorized_group_does_not_delay_other_groups(flow: Flow) -> None:
    topic, group, denied = flow.topic(), flow.group(), flow.group("-denied")
    flow.sync(topic, (9, 20), (19, 31))
    for each in (group, denied):
        flow.commit(each, topic, 10)
    start(flow)
    flow.await_positions(group, topic, (10, 21))
    flow.await_positions(denied, topic, (10, 21))
    deny(flow, ResourceType.GROUP, denied)
    told = f"group {denied}: its offsets at the source cannot be read"
    eventually(lambda: told in flow.worker.log_text(), within_s=60)
    flow.commit(group, topic, 20)
    flow.await_positions(group, topic, (10, 21), (20, 32))
    assert flow.worker.log_text().count(told) == 1


def test_an_unauthorized_topic_does_not_delay_other_topics(flow: Flow, caplog: pytest.LogCaptureFixture) -> None:
    open_, denied = flow.topic(7), flow.topic(7)
    deny(flow, ResourceType.TOPIC, denied)
    ends = Ends(flow.source.admin)
    places = [TopicPartition(topic, n) for topic in (open_, denied, "missing") for n in (0, 1)]
    eventually(lambda: ends.of(places) == {TopicPartition(open_, 0): 7})  # what is denied is refused a moment later
    assert ends.of(places) == {TopicPartition(open_, 0): 7}
    assert caplog.text.count(f"topic {denied}: its end offsets cannot be read") == 1


def test_no_group_is_committed_at_the_target_by_default(flow: Flow) -> None:
    topic, group = flow.topic(), flow.group()
    flow.sync(topic, (9, 20))
    flow.commit(group, topic, 10)
    start(flow)
    flow.await_positions(group, topic, (10, 21))
    a_round(flow, group)
    assert flow.committed_at_target(group) == {}


def test_a_deleted_remote_topic_does_not_delay_other_topics(flow: Flow) -> None:
    topic, gone, group = flow.topic(), flow.topic(), flow.group()
    for each in (topic, gone):
        flow.sync(each, (9, 20))
        flow.commit(group, each, 10)
    flow.target.admin.topics.delete([flow.remote(gone)])
    start(flow, sync__group__offsets__enabled="true")
    flow.await_positions(group, topic, (10, 21))
    eventually(lambda: flow.committed_at_target(group) == {(flow.remote(topic), 0): 21}, within_s=60)
    assert flow.positions(group, gone) == []


@pytest.mark.parametrize("is_committed", [True, False])
def test_offset_syncs_at_the_target_count_once_they_are_committed(flow: Flow, is_committed: bool) -> None:
    topic, group = flow.topic(), flow.group()
    syncs = f"mm2-offset-syncs.{flow.source_alias}.internal"
    flow.target.topic(syncs)

    def write(upstream: int, downstream: int, *, is_committed: bool) -> None:
        sync = OffsetSync(TopicPartition(topic, 0), upstream, downstream)
        flow.target.write(syncs, [sync.value()], is_committed=is_committed, key=sync.key())

    write(9, 20, is_committed=True)
    write(19, 31, is_committed=is_committed)
    flow.commit(group, topic, 20)
    start(flow, **{"offset-syncs__topic__location": "target"})
    flow.await_positions(group, topic, (20, 32) if is_committed else (20, 21))


def test_task_waits_for_a_missing_topic_of_offset_syncs(flow: Flow) -> None:
    topic, group = flow.topic(), flow.group()
    flow.commit(group, topic, 10)
    start(flow)
    eventually(lambda: f"until topic {flow.syncs_topic} exists" in flow.worker.log_text(), within_s=60)
    flow.sync(topic, (9, 20))
    flow.await_positions(group, topic, (10, 21))


def test_task_waits_for_an_unreachable_source(flow: Flow) -> None:
    topic, group = flow.topic(), flow.group()
    flow.sync(topic, (9, 20))
    flow.commit(group, topic, 10)
    config: dict[str, Any] = {"groups": flow.groups, "emit__checkpoints__interval__seconds": "1"}
    away = f"127.0.0.1:{free_port()}"
    name = flow.create("Checkpoint", **config, source__cluster__bootstrap__servers=away, admin__timeout__ms="300")
    eventually(lambda: f"sending the task configs of {name} will be retried" in flow.worker.log_text(), within_s=60)
    assert flow.worker.status(name)["connector"]["state"] == "RUNNING"
    answer = flow.worker.rest.put(f"/connectors/{name}/config", json=flow.config("Checkpoint", **config))
    assert answer.status_code == 200
    flow.await_positions(group, topic, (10, 21))
