"""Only the current leader writes the config topic (E4)."""

import uuid
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

import pytest

from fencepost.cluster.balance import LostTasks, Roster
from fencepost.cluster.command import PutConnector
from fencepost.cluster.errors import ConflictError, OperationError, WriteFailedError
from fencepost.cluster.fencing import leader_transactional_id
from fencepost.cluster.leader import CommandQueue, Leader
from fencepost.cluster.left_open import Settled
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.member import Term
from fencepost.kafka.setting.client_settings import member_conf, transactional_conf
from fencepost.storage.change import TaskId
from fencepost.storage.config_topic import ConfigTopic
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.testing import eventually
from fencepost.transaction import TransactionalWriter, WriterFencedError
from support.member import undisturbed_member


class _NothingLeftOpen:
    """No task ever runs here."""

    def end(self, snapshot: ClusterSnapshot, tasks: Collection[TaskId]) -> Settled:
        return Settled(tasks)


def _nobody(snapshot: ClusterSnapshot, alive: Collection[str]) -> set[TaskId]:
    return set()


class Candidate:
    """A worker's part in leadership. A frozen one does not learn how its membership changes."""

    def __init__(self, bootstrap: str, group: str, topic: str, name: str) -> None:
        self.group = group
        self.topic = ConfigTopic({"bootstrap.servers": bootstrap}, topic)
        self.topic.start(30)
        writing = transactional_conf({"bootstrap.servers": bootstrap}, "").conf
        del writing["transactional.id"]
        self.leader = Leader(
            group, self.topic, writing, Roster(list), LostTasks(_NothingLeftOpen(), _nobody), CommandQueue()
        )
        self.is_frozen = False
        joining: dict[str, Any] = {
            **member_conf({"bootstrap.servers": bootstrap}, group).conf,
            "session.timeout.ms": 8000,
            "heartbeat.interval.ms": 1000,
            "group.instance.id": name,
            "auto.offset.reset": "latest",
        }
        self.membership = undisturbed_member(joining, topic, self._on_term)

    def _on_term(self, term: Term) -> None:
        if not self.is_frozen:
            self.leader.on_term(term)

    def start(self) -> None:
        self.leader.start()
        self.membership.start()

    def put(self, name: str) -> None:
        self.leader.submit(PutConnector(name, {"name": name})).result(60)

    def stop(self) -> None:
        self.leader.stop()
        self.membership.stop()
        self.topic.stop()


@pytest.fixture
def pair(kafka: EmbeddedKafka, topic_name: str) -> Iterator[tuple[Candidate, Candidate]]:
    group = f"g-{uuid.uuid4().hex[:6]}"
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(topic_name, partitions=1, replication=1, configs={"cleanup.policy": "compact"})
    old, new = (Candidate(kafka.bootstrap_servers, group, topic_name, name) for name in ("a", "b"))
    old.start()
    eventually(lambda: old.leader.is_leading, within_s=60)
    new.start()
    # With it the group has another generation: a write that still names the last one would be refused.
    eventually(lambda: new.leader.has_joined and old.leader.term.number > 1, within_s=60)  # type: ignore[attr-defined]
    yield old, new
    for each in (old, new):
        each.stop()


def test_a_resumed_deposed_leader_writes_nothing_and_the_new_leader_continues(
    pair: tuple[Candidate, Candidate],
) -> None:
    old, new = pair
    old.put("first")
    eventually(lambda: not new.leader.is_leading and new.leader.has_joined, within_s=60)
    with pytest.raises(ConflictError):
        new.put("refused-because-a-leads")
    old.is_frozen = True
    old.membership.stop()  # its session ends and the group moves on, which the frozen one is not told
    eventually(lambda: new.leader.is_leading, within_s=60)
    new.put("second")
    assert old.leader.is_leading
    with pytest.raises(OperationError):
        old.put("by-a-zombie")

    def is_put() -> bool:
        with suppress(WriteFailedError):  # the zombie may have taken the id before it was refused
            new.put("third")
            return True
        return False

    eventually(is_put, within_s=60)
    with pytest.raises(OperationError):
        old.put("by-a-zombie-again")
    snapshot = new.topic.read_to_end(30)
    assert sorted(snapshot.connectors) == ["first", "second", "third"]


def test_a_stolen_id_makes_the_first_request_fail_clearly_and_the_next_succeed(
    pair: tuple[Candidate, Candidate], kafka: EmbeddedKafka
) -> None:
    old, _ = pair
    old.put("first")
    thief = TransactionalWriter({"bootstrap.servers": kafka.bootstrap_servers}, leader_transactional_id(old.group))
    thief.open()
    with pytest.raises(WriteFailedError, match=r"^Failed to write to config topic.* can be safely retried$"):
        old.put("second")
    assert sorted(old.topic.read_to_end(30).connectors) == ["first"]
    old.put("second")
    assert sorted(old.topic.read_to_end(30).connectors) == ["first", "second"]
    thief.send(old.topic.topic, b"{}", key=b"connector-by-a-thief")
    with pytest.raises(WriterFencedError):
        thief.commit()
    thief.close()


def test_nothing_is_written_when_leadership_is_lost_before_the_write(
    pair: tuple[Candidate, Candidate],
) -> None:
    old, _ = pair
    old.put("first")
    before = old.topic.read_to_end(30).offset
    old.leader._term = Term(99)
    with pytest.raises(OperationError):
        old.leader._carry_out([PutConnector("unproven", {"name": "unproven"})])
    assert "unproven" not in old.topic.read_to_end(30).connectors
    assert old.topic.snapshot.offset >= before
