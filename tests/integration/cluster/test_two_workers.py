"""Two workers, whose session keys are renewed all the time and whose tasks wait for who had them."""

import base64
import json
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rows import gone, hurry, judged, ok, rows

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.cluster import Cluster, LightWorker, identity, url
from support.proxy import KafkaProxy
from support.worker import Worker

DELAY_S = 40
KEY_TTL_MS = 300
_MOST_ROUNDS = 101


@pytest.fixture(scope="module")
def shared_pair(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(
        kafka.bootstrap_servers,
        tmp_path_factory.mktemp("pair"),
        f"pair-{uuid.uuid4().hex[:6]}",
        2,
        scheduled_rebalance_max_delay_ms=str(DELAY_S * 1000),
        inter_worker_key_ttl_ms=str(KEY_TTL_MS),
    ) as cluster:
        yield cluster


@pytest.fixture
def pair(shared_pair: Cluster) -> Cluster:
    """Both workers run."""
    shared_pair.start()
    shared_pair.await_leader()
    return shared_pair


def _records(cluster: Cluster, which: str) -> list[tuple[str, Any]]:
    reader = CommittedReader(cluster.bootstrap, [f"{cluster.group}-{which}"])
    return [((o.key or b"").decode(), json.loads(o.value) if o.value else None) for o in reader.read_all(20)]


def _session_keys(cluster: Cluster) -> list[bytes]:
    return [base64.b64decode(value["key"]) for key, value in _records(cluster, "configs") if key == "session-key"]


def test_no_request_between_workers_fails_while_session_keys_are_renewed(pair: Cluster, topic_name: str) -> None:
    names = [f"{topic_name}-{n}" for n in range(4)]
    for name in names:
        ok(pair.workers[0].create(name, rows(name, 100_000, 2)), 201)
    eventually(lambda: {_owner(pair, name) for name in names} == {identity(w) for w in pair.workers}, within_s=60)
    first = pair.await_leader()
    _reconfigure(pair, pair.workers, names, renewals=1)
    assert first.stop() == 0  # its successor goes on with the key that there is, and renews it
    first.process = None
    _reconfigure(pair, [w for w in pair.workers if w is not first], names, renewals=1)
    pair.start()
    assert pair.await_leader() is not first
    eventually(lambda: {_owner(pair, name) for name in names} == {identity(w) for w in pair.workers}, within_s=60)
    _reconfigure(pair, pair.workers, names, renewals=1)
    for name in names:
        for worker in pair.workers:
            worker.wait_for_tasks(name, "RUNNING", "RUNNING", "RUNNING")
    said = [(key, value) for key, value in _records(pair, "status") if value and value.get("state") == "FAILED"]
    assert said == []
    assert not any("sending the task configs of" in worker.log_text() for worker in pair.workers)
    gone(pair.workers[0], *names)


def _reconfigure(cluster: Cluster, workers: list[Worker], names: list[str], renewals: int) -> None:
    """Have every connector publish tasks, which are fenced then, by way of each worker in turn, all with 3 at the end.

    Goes on until the leader, which looks at the key every second or so, has renewed it so often meanwhile.
    """
    enough = len(_session_keys(cluster)) + renewals
    for number in range(_MOST_ROUNDS):
        for n, name in enumerate(names):
            change = {"tasks.max": str(3 - number % 2), "batch.size": str(20 + number)}
            worker = workers[(number + n) % len(workers)]
            ok(worker.rest.patch(f"/connectors/{name}/config", json=change), 200)
        if number % 2 == 0 and len(_session_keys(cluster)) >= enough:
            return
    raise AssertionError(f"the session key was not renewed {renewals} times in {_MOST_ROUNDS} rounds of requests")


def _owner(cluster: Cluster, name: str) -> str | None:
    status = cluster.workers[0].status(name)
    return status["connector"]["worker_id"] if status.get("connector", {}).get("state") == "RUNNING" else None


def test_tasks_of_a_killed_worker_wait_for_its_return(pair: Cluster, topic_name: str) -> None:
    stays = pair.await_leader()
    killed = pair.followers()[0]
    ok(stays.create(topic_name, rows(topic_name, 600, 4, per_second=60)), 201)
    before = pair.await_owners(topic_name, 4, pair.workers, stays)
    lost = [task for task, owner in before.items() if owner == identity(killed)]
    killed.kill()
    eventually(lambda: _waiting(stays, topic_name) == lost, within_s=60)
    reason = next(t["trace"] for t in stays.status(topic_name)["tasks"] if t["state"] == "UNASSIGNED")
    assert url(killed) in reason
    assert "scheduled.rebalance.max.delay.ms" in reason
    assert pair.owners(topic_name, stays) == {t: owner for t, owner in before.items() if t not in lost}
    pair.start()
    assert pair.await_owners(topic_name, 4, pair.workers, stays, within_s=DELAY_S) == before
    hurry(stays, topic_name)
    verdict = judged(pair.bootstrap, topic_name, 600, 4)
    assert verdict.is_clean, verdict
    gone(stays, topic_name)


def test_tasks_of_a_lost_worker_move_after_the_rebalance_delay(pair: Cluster, topic_name: str) -> None:
    stays = pair.await_leader()
    lost = pair.followers()[0]
    ok(stays.create(topic_name, rows(topic_name, 900, 4, per_second=60)), 201)
    before = pair.await_owners(topic_name, 4, pair.workers, stays)
    lost.kill()
    eventually(lambda: len(_waiting(stays, topic_name)) == 2, within_s=60)
    since_s = time.monotonic()
    after = pair.await_owners(topic_name, 4, [stays], stays)
    assert time.monotonic() - since_s > DELAY_S / 2
    assert set(after.values()) == {identity(stays)} != set(before.values())
    hurry(stays, topic_name)
    verdict = judged(pair.bootstrap, topic_name, 900, 4)
    assert verdict.is_clean, verdict
    gone(stays, topic_name)


def _waiting(worker: Worker, name: str) -> list[int]:
    return [t["id"] for t in worker.status(name)["tasks"] if t["state"] == "UNASSIGNED"]


def test_a_worker_exits_with_the_reason_when_another_process_has_its_address(pair: Cluster, topic_name: str) -> None:
    stays = pair.await_leader()
    loses = pair.followers()[0]
    assert loses.process is not None
    wins = LightWorker(pair.bootstrap, pair.directory, pair.settings, group=pair.group)
    wins.properties["rest.advertised.port"] = str(loses.port)
    wins.advertised_port = loses.port
    try:
        wins.launch()
        assert loses.process.wait(90) == 1
        loses.process = None
        assert "has joined group" in loses.log_text()
        assert "rest.advertised.port" in loses.log_text()
        eventually(lambda: wins.rest.get("/health").status_code == 200, within_s=90)
        assert stays.process is not None
        assert stays.process.poll() is None
    finally:
        if wins.process is not None:
            wins.stop()


@pytest.fixture
def patient(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Cluster]:
    """Three workers whose group waits for two minutes before it misses one."""
    settings = {"session_timeout_ms": "120000", "heartbeat_interval_ms": "1000"}
    with Cluster(kafka.bootstrap_servers, tmp_path, f"patient-{uuid.uuid4().hex[:6]}", 3, **settings) as cluster:
        cluster.start()
        yield cluster


def test_a_killed_worker_is_detected_long_before_its_session_time_out(patient: Cluster, topic_name: str) -> None:
    leader, (follower, last) = patient.await_leader(), patient.followers()
    ok(last.create(topic_name, rows(topic_name, 900, 6, per_second=60)), 201)
    patient.await_owners(topic_name, 6, patient.workers, last)
    follower.kill()
    patient.await_owners(topic_name, 6, [leader, last], last, within_s=60)
    leader.kill()
    patient.await_owners(topic_name, 6, [last], last, within_s=60)
    hurry(last, topic_name)
    verdict = judged(patient.bootstrap, topic_name, 900, 6)
    assert verdict.is_clean, verdict


def test_a_live_worker_with_a_refusing_address_is_removed_once_and_rejoins(
    kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    """Something else answers at its advertised address, and ends: as a proxy in front of it would."""
    settings = {"session_timeout_ms": "120000", "heartbeat_interval_ms": "1000"}
    group = f"proxied-{uuid.uuid4().hex[:6]}"
    with (
        KafkaProxy(kafka.bootstrap_servers) as proxy,
        Cluster(kafka.bootstrap_servers, tmp_path, group, 1, **settings) as cluster,
    ):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            cluster.start()
            leader = cluster.await_leader()
            behind = cluster.made(proxy.bootstrap_servers)
            behind.advertised_port = int(listener.getsockname()[1])
            behind.properties["rest.advertised.port"] = str(behind.advertised_port)
            cluster.workers.append(behind)
            cluster.start()
            ok(leader.create(topic_name, rows(topic_name, 600, 4, per_second=40)), 201)
            cluster.await_owners(topic_name, 4, cluster.workers, leader)
            proxy.pause()  # else it may be back before it is missed
        eventually(lambda: "refuses connections: its worker" in leader.log_text(), within_s=120)
        eventually(lambda: "leader: tasks of a lost worker are fenced" in leader.log_text(), within_s=120)
        proxy.resume()
        cluster.await_owners(topic_name, 4, cluster.workers, leader)
        hurry(leader, topic_name)
        verdict = judged(cluster.bootstrap, topic_name, 600, 4)
        assert verdict.is_clean, verdict
        assert leader.log_text().count("refuses connections: its worker") == 1
        assert behind.process is not None
        assert behind.process.poll() is None
