"""Partitions of a lost process's sink are read again at once, long before its member's session ends."""

import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer
from rows import gone, ok

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.cluster import Cluster, identity
from support.long_form import IS_LONG
from support.worker import Worker

_PARTITIONS = 4
_SESSION_S, _LONGEST_S = 180, 120.0  # a member is not missed by its session


@pytest.fixture(scope="module")
def shared_pair(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers; tasks of a lost one wait for it."""
    directory, group = tmp_path_factory.mktemp("lost"), f"lost-{uuid.uuid4().hex[:6]}"
    delay = {"scheduled_rebalance_max_delay_ms": "120000", "offset_flush_interval_ms": "500"}
    with Cluster(kafka.bootstrap_servers, directory, group, 2, **delay) as cluster:
        yield cluster


class Flow:
    """A sink of two tasks on two workers, and the topic that it reads."""

    def __init__(self, cluster: Cluster, name: str, directory: Path) -> None:
        self.cluster, self.name, self.out = cluster, name, directory / "out.txt"
        self._sent = 0
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap})
        Admin({"bootstrap.servers": cluster.bootstrap}).topics.create(name, partitions=_PARTITIONS, replication=1)
        config = {"connector.class": "FileStreamSink", "file": str(self.out), "topics": name, "tasks.max": "2"}
        config["consumer.override.session.timeout.ms"] = str(_SESSION_S * 1000)
        ok(cluster.workers[0].create(name, config), 201)
        self.owners = cluster.await_owners(name, 2, cluster.workers, cluster.workers[0])
        members = lambda: Admin({"bootstrap.servers": cluster.bootstrap}).groups.describe(f"connect-{name}").members  # noqa: E731
        eventually(lambda: [len(m.topic_partitions) for m in members()] == [2, 2], within_s=60)
        self.go_on()

    def go_on(self, within_s: float = _LONGEST_S) -> float:
        """Write a record to each partition; returns how long it takes until all are in the file."""
        began = time.monotonic()
        numbers = range(self._sent, self._sent + _PARTITIONS)
        self._sent += _PARTITIONS
        for number in numbers:
            self._producer.produce(self.name, str(number).encode(), partition=number % _PARTITIONS)
        assert self._producer.flush(30) == 0
        wanted = set(map(str, numbers))
        eventually(lambda: wanted <= set(self.out.read_text().split()), within_s=within_s)
        return time.monotonic() - began


@pytest.fixture
def flow(shared_pair: Cluster, topic_name: str, tmp_path: Path) -> Iterator[Flow]:
    shared_pair.start()
    shared_pair.await_leader()
    yield Flow(shared_pair, topic_name, tmp_path)
    gone(next(w for w in shared_pair.workers if w.process is not None), topic_name)


def test_partitions_of_a_killed_slot_flow_again_at_once(flow: Flow) -> None:
    slots = next(w for w in flow.cluster.workers if identity(w) == flow.owners[1]).slots()
    for victim in slots.values():
        os.kill(victim, signal.SIGKILL)
    took_s = flow.go_on()
    print(f"a slot was killed: {took_s:.1f} s until all partitions flowed again")
    assert took_s < _LONGEST_S


@pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long runs it")
def test_partitions_of_a_killed_worker_flow_while_its_tasks_are_unassigned(flow: Flow) -> None:
    leader = flow.cluster.await_leader()
    victim = next(w for w in flow.cluster.workers if w is not leader)
    victim.kill()
    took_s = flow.go_on()
    print(f"a worker was killed: {took_s:.1f} s until all partitions flowed again")
    assert took_s < _LONGEST_S
    assert "UNASSIGNED" in leader.task_states(flow.name)


def test_partitions_of_a_killed_leader_flow_while_its_tasks_are_unassigned(flow: Flow) -> None:
    leader = flow.cluster.await_leader()
    leader.kill()
    took_s = flow.go_on()
    print(f"the leader was killed: {took_s:.1f} s until all partitions flowed again")
    assert took_s < _LONGEST_S


def test_a_sink_stopped_after_its_worker_was_killed_can_be_reset_at_once(flow: Flow) -> None:
    leader = flow.cluster.await_leader()
    victim = next(w for w in flow.cluster.workers if w is not leader)
    victim.kill()
    ok(leader.rest.put(f"/connectors/{flow.name}/stop"), 204)
    began = time.monotonic()
    answer = eventually(lambda: _reset(leader, flow.name), within_s=_LONGEST_S)
    took_s = time.monotonic() - began
    print(f"a worker was killed, its sink stopped: {took_s:.1f} s until it was reset")
    assert "reset successfully" in answer.json()["message"]
    assert took_s < _LONGEST_S


def _reset(worker: Worker, name: str) -> httpx.Response | None:
    """Return the answer once it is not a refusal for now."""
    answer = worker.rest.delete(f"/connectors/{name}/offsets")
    return answer if answer.status_code == 200 else None
