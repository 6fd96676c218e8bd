"""E2, E4, E6, E8: who may still write, and who may not."""

import json
import subprocess
import sys
import textwrap
import uuid

import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.setting.table import CLIENT
from fencepost.kafka.value.position import GroupOffset
from fencepost.testing import eventually
from fencepost.transaction import CommitUnknownError, StaleMemberError, WriterFencedError
from fencepost.transaction.writer import WriterState
from support.clients import column, other_than
from support.member import undisturbed_member
from support.timing import fastest_s


def successive(make_writer, topic):
    """Return two writers of one id, each with a record of an open transaction."""
    old = make_writer("the-id-" + topic)
    old.open()
    old.send(topic, b"old")
    old.flush()
    new = make_writer(old.transactional_id)
    new.open()
    new.send(topic, b"new")
    return old, new


def test_e2_open_fences_the_predecessor_and_hides_its_open_transaction(make_writer, topic, committed):
    old, new = successive(make_writer, topic)
    new.commit()
    with pytest.raises((WriterFencedError, CommitUnknownError)):
        old.commit()
    assert old.state in (WriterState.FENCED, WriterState.UNKNOWN)
    old.close()
    assert committed(topic) == [b"new"]


def test_e2_every_call_of_a_fenced_writer_fails(make_writer, topic, committed):
    old = make_writer("the-id-" + topic)
    old.open()
    old.send(topic, b"0")
    old.commit()
    make_writer(old.transactional_id).open()
    old.send(topic, b"1")
    with pytest.raises(WriterFencedError):
        old.flush()
    assert old.state is WriterState.FENCED
    for call in (lambda: old.send(topic, b"2"), lambda: old.send_columns(*column(topic, [b"3"])), old.commit):
        with pytest.raises(WriterFencedError):
            call()
    old.abort()
    assert committed(topic) == [b"0"]


def test_e2_a_fenced_writer_that_commits_without_flushing_does_not_succeed(make_writer, topic, committed):
    old = make_writer("the-id-" + topic)
    old.open()
    for n in range(1000):
        old.send(topic, b"%d" % n)
    make_writer(old.transactional_id).open()
    with pytest.raises((WriterFencedError, CommitUnknownError)):
        old.commit()
    assert committed(topic) == []


def test_e2_abort_of_a_fenced_writer_does_not_disturb_the_newer_writer(make_writer, topic, committed):
    old, new = successive(make_writer, topic)
    new.flush()
    old.abort()
    assert old.state is WriterState.FENCED
    with pytest.raises(WriterFencedError):
        old.commit()
    new.commit()
    assert committed(topic) == [b"new"]


def test_e2_writers_of_different_clients_fence_each_other(make_writer, topic, committed, client):
    """Another config, or a newer worker, may give a task another client, and later the one that it had."""
    writers = []
    for number, each in enumerate((client, other_than(client), client)):
        writer = make_writer("the-id-" + topic, conf={CLIENT: each})
        writer.open()
        writer.send(topic, b"%d" % number, partition=0)
        writer.commit()
        writer.send(topic, b"open in %d" % number, partition=0)
        writer.flush()
        writers.append(writer)
    *fenced, newest = writers
    for writer in fenced:
        with pytest.raises((WriterFencedError, CommitUnknownError)):
            writer.commit()
        assert writer.state in (WriterState.FENCED, WriterState.UNKNOWN)
    newest.commit()
    assert committed(topic) == [b"0", b"1", b"2", b"open in 2"]


class _Member:
    """A real group member, and the terms it was given."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.terms: list = []
        conf = {"bootstrap.servers": bootstrap, "group.id": group, "session.timeout.ms": 6000}
        self.membership = undisturbed_member(conf, topic, self.terms.append)
        self.membership.start()

    def ownership(self):
        return eventually(lambda: self.terms and self.terms[-1].is_owner and self.terms[-1].metadata)


@pytest.fixture
def member(kafka):
    members = []

    def join(group, topic):
        members.append(_Member(kafka.bootstrap_servers, group, topic))
        return members[-1]

    yield join
    for each in members:
        each.membership.stop()


def test_e4_stale_group_metadata_is_refused_and_the_writer_stays_usable(
    make_writer, kafka, topic_name, committed, member
):
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=1, replication=1)
    group = f"group-{uuid.uuid4().hex[:6]}"
    first = member(group, topic_name)
    metadata = first.ownership()
    writer = make_writer()
    writer.open()
    writer.send(topic_name, b"leader")
    writer.commit(group_offsets=[GroupOffset(topic_name, 0, 1)], group_metadata=metadata)
    first.membership.stop()
    second = member(group, topic_name)
    newer = second.ownership()
    writer.send(topic_name, b"deposed")
    with pytest.raises(StaleMemberError):
        writer.commit(group_offsets=[GroupOffset(topic_name, 0, 1)], group_metadata=metadata)
    assert writer.state is WriterState.OPEN
    writer.send(topic_name, b"rejoined")
    writer.commit(group_offsets=[GroupOffset(topic_name, 0, 2)], group_metadata=newer)
    assert committed(topic_name) == [b"leader", b"rejoined"]


@pytest.mark.parametrize("offsets", [(), [GroupOffset("t", 0, -1)]], ids=["no offsets", "no valid offset"])
def test_e4_commit_of_no_valid_offset_is_refused_as_membership_is_unchecked(make_writer, topic, committed, offsets):
    """librdkafka asks the coordinator only if there is a valid offset to commit, and else says that all is well."""
    writer = make_writer()
    writer.open()
    writer.send(topic, b"unchecked")
    with pytest.raises(ValueError, match="offset"):
        writer.commit(group_offsets=offsets, group_metadata=b"whatever it is")
    writer.abort()
    assert committed(topic) == []


def test_e4_commit_is_refused_when_the_members_generation_has_passed(make_writer, kafka, topic_name, committed, member):
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=1, replication=1)
    group = f"group-{uuid.uuid4().hex[:6]}"
    first = member(group, topic_name)
    metadata = first.ownership()
    member(group, topic_name)  # joins: the generation goes up, though the first one may keep its partition
    writer = make_writer()
    writer.open()

    def refused() -> bool:
        try:
            writer.send(topic_name, b"x")
            writer.commit(group_offsets=[GroupOffset(topic_name, 0, 1)], group_metadata=metadata)
        except StaleMemberError:
            return True
        return False

    eventually(refused, within_s=60)
    before = len(committed(topic_name))
    assert refused()
    assert len(committed(topic_name)) == before


_FORKED = textwrap.dedent("""
    import json, os, sys, time
    from fencepost.transaction import TransactionalWriter
    conf, transactional_id, topic = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
    writer = TransactionalWriter(conf, transactional_id)
    writer.open()
    writer.send(topic, b"parent")
    calls = {
        "send": lambda: writer.send(topic, b"child"),
        "send_columns": lambda: writer.send_columns([topic], [b"child"], [None]),
        "flush": writer.flush, "commit": writer.commit, "abort": writer.abort, "close": writer.close,
    }
    reader, answer = os.pipe()
    child = os.fork()
    if child == 0:
        told = {}
        for name, call in calls.items():
            started = time.monotonic()
            try:
                call()
                told[name] = ["nothing", 0]
            except BaseException as error:
                told[name] = [type(error).__name__, time.monotonic() - started]
        os.write(answer, json.dumps(told).encode())
        os._exit(0)
    os.waitpid(child, 0)
    writer.commit()
    print(os.read(reader, 10_000).decode())
""")


def test_e8_calls_in_a_forked_child_raise_at_once_and_the_parent_continues(kafka, client, topic, committed):
    conf = {**transactional_conf({"bootstrap.servers": kafka.bootstrap_servers}, topic).conf, CLIENT: client}
    command = [sys.executable, "-c", _FORKED, json.dumps(conf), topic, topic]
    parents = []

    def slowest_call_s() -> float:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        parents.append(b"parent")
        told = json.loads(done.stdout)
        assert {name: error for name, (error, _) in told.items()} == dict.fromkeys(told, "ForkedClientError")
        return max(took_s for _, took_s in told.values())

    assert fastest_s(slowest_call_s, below_s=1.0) < 1.0
    assert committed(topic) == parents
