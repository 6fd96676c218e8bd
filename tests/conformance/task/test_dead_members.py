"""A group whose members are dead is emptied, so that its offsets can be changed; one whose member lives stays."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.group_admin import take_out_dead_members
from fencepost.kafka.group.group_offsets import GroupInUseError
from fencepost.record import TopicPartition
from support.group_members import Members, Notes

_MEMBER = """
import sys, time
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "client.id": sys.argv[3]})
consumer.subscribe([sys.argv[4]])
while not consumer.assignment():
    consumer.poll(0.1)
print("joined", flush=True)
time.sleep(600)
"""


@pytest.fixture
def members(kafka, topic_name: str) -> Iterator[Members]:
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=1, replication=1)
    made = Members(kafka.bootstrap_servers, topic_name)
    yield made
    for each in made.made:
        each.close()


def is_ours(client_id: str) -> bool:
    return client_id == "ours"


def kill_member(members: Members, client_id: str) -> None:
    """Leave a member in the group whose process was killed; its session takes 45 s."""
    command = [sys.executable, "-c", _MEMBER, members.bootstrap, members.group, client_id, members.topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"joined"
        process.kill()


def test_offsets_can_be_changed_after_removal_of_a_killed_processs_member(members: Members) -> None:
    kill_member(members, "ours")
    with pytest.raises(GroupInUseError):
        members.offsets().alter({TopicPartition(members.topic, 0): 7})
    take_out_dead_members(members.conf(), is_ours, 30)
    members.offsets().alter({TopicPartition(members.topic, 0): 7})
    assert members.offsets().read() == {TopicPartition(members.topic, 0): 7}


def test_group_with_a_live_member_is_reported_as_in_use(members: Members) -> None:
    """Kafka Connect's task of the same name, for one."""
    member, is_over = members.join(Notes(), client_id="ours"), threading.Event()

    def poll() -> None:
        while not is_over.is_set():
            member.poll(0.1, 1)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        while not member.assignment:
            is_over.wait(0.05)
        # It is given the time of two heartbeats, in which a slow machine may let it do nothing.
        conf = members.conf(heartbeat_interval_ms="15000")
        with pytest.raises(GroupInUseError, match="a live member: ours"):
            take_out_dead_members(conf, is_ours, 30)
    finally:
        is_over.set()
        thread.join(30)


def test_no_member_is_removed_from_a_group_with_foreign_members(members: Members) -> None:
    kill_member(members, "somebody else's")
    admin = Admin({"bootstrap.servers": members.bootstrap})
    before = {each.member_id for each in admin.groups.describe(members.group).members}
    take_out_dead_members(members.conf(), is_ours, 30)
    assert {each.member_id for each in admin.groups.describe(members.group).members} == before
