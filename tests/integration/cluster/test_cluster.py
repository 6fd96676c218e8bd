"""Three workers of one group: who leads, who runs what, and what becomes of it when workers come and go."""

from collections.abc import Iterator
from typing import Any

import pytest
from rows import gone, hurry, judged, ok, rows

from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.cluster import Cluster, identity, pause, resume, url
from support.dead_letters import DeadLetters
from support.long_form import IS_LONG
from support.proxy import Action, ApiKey, KafkaProxy
from support.worker import Worker

TASKS = 6
LONG = pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long runs these")


@pytest.fixture
def name(cluster: Cluster, topic_name: str) -> Iterator[str]:
    yield topic_name
    for worker in cluster.workers:
        if worker.process is not None:
            gone(worker, topic_name)
            break


def test_connectors_are_created_through_any_worker_and_seen_by_all(cluster: Cluster, topic_name: str) -> None:
    names = [f"{topic_name}-{n}" for n in range(len(cluster.workers))]
    for worker, name in zip(cluster.workers, names, strict=True):
        answer = ok(worker.create(name, rows(name, 10, 1)), 201)
        assert answer.headers["location"] == f"/connectors/{name}"
        assert ok(worker.rest.get(f"/connectors/{name}"), 200).json()["name"] == name
    for worker in cluster.workers:
        for name in names:
            worker.wait_for_tasks(name, "RUNNING")
    again = cluster.followers()[0].create(names[0], rows(names[0], 10, 1))
    assert (again.status_code, again.json()["message"]) == (409, f"Connector {names[0]} already exists")
    refused = cluster.followers()[0].create("no-class", {"topic": "t"})
    assert refused.status_code == 400
    follower, other = cluster.followers()
    ok(follower.rest.put(f"/connectors/{names[0]}/config", json=rows(names[0], 10, 2)), 200)
    other.wait_for_tasks(names[0], "RUNNING", "RUNNING")
    ok(follower.rest.patch(f"/connectors/{names[0]}/config", json={"tasks.max": "1"}), 200)
    other.wait_for_tasks(names[0], "RUNNING")
    ok(follower.rest.put(f"/connectors/{names[0]}/stop"), 204)
    other.wait_for_tasks(names[0])
    for name in names:
        ok(other.rest.delete(f"/connectors/{name}"), 204)
    for worker in cluster.workers:
        eventually(lambda worker=worker: worker.rest.get("/connectors").json() == [], within_s=60)


def test_tasks_are_spread_and_restarts_reach_their_owners(cluster: Cluster, name: str) -> None:
    follower, other = cluster.followers()
    ok(follower.create(name, rows(name, 300, TASKS)), 201)
    owners = cluster.await_owners(name, TASKS, cluster.workers, other)
    for worker in cluster.workers:
        starts = _starts(cluster, name)
        ok(worker.rest.post(f"/connectors/{name}/tasks/0/restart"), 204)
        eventually(lambda starts=starts: _starts(cluster, name)[0] > starts[0], within_s=60)
        assert _starts(cluster, name)[1:] == starts[1:]
        # A start that is interrupted may outlast its time to stop: its slot then ends, with the tasks that share it.
        other.wait_for_tasks(name, *["RUNNING"] * TASKS)
    ok(follower.rest.post(f"/connectors/{name}/restart"), 204)
    for worker in cluster.workers:
        worker.wait_for_tasks(name, *["RUNNING"] * TASKS)
    nothing = follower.rest.post(f"/connectors/{name}/restart", params={"includeTasks": "true", "onlyFailed": "true"})
    assert [t["state"] for t in ok(nothing, 202).json()["tasks"]] == ["RUNNING"] * TASKS
    starts = _starts(cluster, name)
    everything = ok(follower.rest.post(f"/connectors/{name}/restart", params={"includeTasks": "true"}), 202)
    assert [t["state"] for t in everything.json()["tasks"]] == ["RESTARTING"] * TASKS
    eventually(lambda: all(a > b for a, b in zip(_starts(cluster, name), starts, strict=True)), within_s=60)
    assert cluster.await_owners(name, TASKS, cluster.workers, follower) == owners
    assert follower.rest.post(f"/connectors/{name}/tasks/99/restart").status_code == 404
    verdict = judged(cluster.bootstrap, name, 300, TASKS)
    assert verdict.is_clean, verdict


def test_a_leaving_worker_hands_tasks_over_and_a_joining_worker_gets_its_share(cluster: Cluster, name: str) -> None:
    stays, leaves = cluster.await_leader(), cluster.followers()[0]
    ok(stays.create(name, rows(name, 1500, TASKS)), 201)
    before = cluster.await_owners(name, TASKS, cluster.workers, stays)
    kept = {task for task, owner in before.items() if owner != identity(leaves)}
    starts = _starts(cluster, name)
    assert leaves.stop() == 0
    leaves.process = None
    assert url(leaves) not in _members(cluster)  # nobody waits for its session to end
    others = [w for w in cluster.workers if w is not leaves]
    after = cluster.await_owners(name, TASKS, others, stays)
    assert {task: after[task] for task in kept} == {task: before[task] for task in kept}
    assert all(_starts(cluster, name)[task] == starts[task] for task in kept)
    cluster.start()
    back = cluster.await_owners(name, TASKS, cluster.workers, stays)
    moved = [task for task, owner in back.items() if owner != after[task]]
    assert len(moved) == TASKS // 3
    hurry(stays, name)
    verdict = judged(cluster.bootstrap, name, 1500, TASKS)
    assert verdict.is_clean, verdict


def test_a_new_leader_takes_over_at_once_when_the_leader_leaves(cluster: Cluster, name: str) -> None:
    leaves = cluster.await_leader()
    stays = cluster.followers()[0]
    ok(stays.create(name, rows(name, 1500, TASKS)), 201)
    cluster.await_owners(name, TASKS, cluster.workers, stays)
    assert leaves.stop() == 0
    leaves.process = None
    assert url(leaves) not in _members(cluster)  # nobody waits for its session to end
    ok(stays.rest.patch(f"/connectors/{name}/config", json={"batch.size": "30"}), 200)
    cluster.await_owners(name, TASKS, [w for w in cluster.workers if w is not leaves], stays)
    hurry(stays, name)
    verdict = judged(cluster.bootstrap, name, 1500, TASKS)
    assert verdict.is_clean, verdict


@pytest.mark.parametrize("victim", ["follower", pytest.param("leader", marks=LONG)])
def test_tasks_of_a_killed_worker_move_after_the_session_time_out(cluster: Cluster, name: str, victim: str) -> None:
    killed = cluster.await_leader() if victim == "leader" else cluster.followers()[0]
    others = [w for w in cluster.workers if w is not killed]
    ok(others[0].create(name, rows(name, 1500, TASKS)), 201)
    before = cluster.await_owners(name, TASKS, cluster.workers, others[0])
    killed.kill()
    after = cluster.await_owners(name, TASKS, others, others[0], within_s=60)
    stayed = {task: owner for task, owner in before.items() if owner != identity(killed)}
    assert {task: after[task] for task in stayed} == stayed
    hurry(others[1], name)  # a change that the new leader carries out, too
    verdict = judged(cluster.bootstrap, name, 1500, TASKS)
    assert verdict.is_clean, verdict


def test_unreachable_cluster_of_one_connector_does_not_delay_failover_of_others(cluster: Cluster, name: str) -> None:
    killed, via = cluster.followers()[0], cluster.await_leader()
    others = [w for w in cluster.workers if w is not killed]
    sick = f"{name}-sick"
    with KafkaProxy(cluster.bootstrap) as away:
        # Its own offsets topic: in the workers' the transactions that are cut off here would hold up every reader.
        elsewhere = {
            "producer.override.bootstrap.servers": away.bootstrap_servers,
            "offsets.storage.topic": f"{sick}-offsets",
        }
        ok(via.create(sick, rows(sick, 100_000, TASKS) | elsewhere), 201)
        try:
            # One after the other: what is spread evenly is all that there is, not each connector by itself.
            cluster.await_owners(sick, TASKS, cluster.workers, via)
            ok(via.create(name, rows(name, 1500, TASKS)), 201)
            cluster.await_owners(name, TASKS, cluster.workers, via)
            away.pause()
            killed.kill()
            cluster.await_owners(name, TASKS, others, via, within_s=25, even=False)
            others[1].kill()
            others[1].start(within_s=60)  # what its predecessor held is no reason to wait, either
            hurry(via, name)
            verdict = judged(cluster.bootstrap, name, 1500, TASKS)
            assert verdict.is_clean, verdict
        finally:
            away.resume()
            gone(via, sick)


@pytest.mark.parametrize("victim", [pytest.param("follower", marks=LONG), "leader"])
def test_tasks_of_a_suspended_worker_move_and_the_resumed_worker_rejoins(
    cluster: Cluster, name: str, victim: str
) -> None:
    paused = cluster.await_leader() if victim == "leader" else cluster.followers()[0]
    others = [w for w in cluster.workers if w is not paused]
    ok(others[0].create(name, rows(name, 1500, TASKS)), 201)
    cluster.await_owners(name, TASKS, cluster.workers, others[0])
    pause(paused)
    try:
        cluster.await_owners(name, TASKS, others, others[0], within_s=60)
    finally:
        resume(paused)
    cluster.await_owners(name, TASKS, cluster.workers, others[0])
    _is_whole(paused)
    assert not any("refuses connections: its worker" in worker.log_text().split(name)[-1] for worker in others), (
        "it refuses nothing"
    )
    hurry(others[0], name)
    verdict = judged(cluster.bootstrap, name, 1500, TASKS)
    assert verdict.is_clean, verdict


def test_a_worker_that_is_cut_off_from_kafka_ends_its_tasks(cluster: Cluster, name: str, proxy: KafkaProxy) -> None:
    cut, *others = cluster.workers[::-1]
    ok(others[0].create(name, rows(name, 1500, TASKS)), 201)
    before = cluster.await_owners(name, TASKS, cluster.workers, others[0])
    lost = [task for task, owner in before.items() if owner == identity(cut)]
    proxy.pause()
    try:
        cluster.await_owners(name, TASKS, others, others[0], within_s=60)
        eventually(lambda: "its tasks are stopped" in cut.log_text(), within_s=60)
        eventually(lambda: not _running(cut, name, lost), within_s=60)
        assert cut.rest.get(f"/connectors/{name}").status_code == 200, "it answers what it knows"
    finally:
        proxy.resume()
    cluster.await_owners(name, TASKS, cluster.workers, others[0])
    _is_whole(cut)
    hurry(others[0], name)
    verdict = judged(cluster.bootstrap, name, 1500, TASKS)
    assert verdict.is_clean, verdict


def test_a_cluster_wide_log_level_reaches_every_worker(cluster: Cluster) -> None:
    logger = "/admin/loggers/fencepost.task.source.loop"
    before = [worker.rest.get(logger).json()["level"] for worker in cluster.workers]
    ok(cluster.workers[1].rest.put(logger, params={"scope": "cluster"}, json={"level": "error"}), 204)
    for worker in cluster.workers:
        eventually(lambda worker=worker: worker.rest.get(logger).json()["level"] == "ERROR", within_s=60)
    ok(cluster.workers[0].rest.put(logger, params={"scope": "cluster"}, json={"level": before[0]}), 204)


def test_requests_with_a_foreign_host_or_origin_are_refused_on_loopback(cluster: Cluster) -> None:
    """A name that leads to the worker is in `Host`, a page elsewhere in `Origin`."""
    for worker in cluster.workers:
        led, foreign = {"host": f"evil.example:{worker.port}"}, {"origin": "https://evil.example"}
        for path in ("/connectors", "/ui", "/metrics", "/admin/loggers"):
            assert worker.rest.get(path, headers=led).status_code == 403, path
        for headers in (led, foreign):
            answer = worker.rest.put("/admin/loggers/evil", json={"level": "DEBUG"}, headers=headers)
            assert answer.status_code == 403
        assert worker.rest.get("/connectors", headers={"host": f"localhost:{worker.port}"}).status_code == 200
        assert "evil" not in worker.rest.get("/admin/loggers").json()


def test_topics_used_by_tasks_of_one_worker_are_known_to_all_workers(cluster: Cluster, name: str) -> None:
    ok(cluster.workers[0].create(name, rows(name, 200, TASKS)), 201)
    for worker in cluster.workers:
        eventually(
            lambda worker=worker: worker.rest.get(f"/connectors/{name}/topics").json() == {name: {"topics": [name]}},
            within_s=30,
        )
    assert judged(cluster.bootstrap, name, 200, TASKS).is_clean
    # What a slot reports after the reset, of records that it sent before, is noted again.
    eventually(lambda: sum(_told_of(worker, name) for worker in cluster.workers) == 200)
    ok(cluster.workers[1].rest.put(f"/connectors/{name}/topics/reset"), 202)
    for worker in cluster.workers:
        eventually(
            lambda worker=worker: worker.rest.get(f"/connectors/{name}/topics").json() == {name: {"topics": []}},
            within_s=30,
        )


def _told_of(worker: Worker, connector: str) -> float:
    """Return how many records the slots have said they wrote, as the worker knows."""
    return worker.metric("kafka_connect_source_task_metrics_source_record_write_total", connector=connector)


def test_tasks_fail_with_the_leaders_trace_when_kafka_refuses_a_fencing_round(cluster: Cluster, name: str) -> None:
    follower = cluster.followers()[0]
    ok(follower.create(name, rows(name, 100, 2)), 201)
    cluster.await_owners(name, 2, cluster.workers, follower, even=False)
    beyond = {"producer.override.transaction.timeout.ms": "900001", "tasks.max": "3"}
    ok(follower.rest.patch(f"/connectors/{name}/config", json=beyond), 200)
    follower.wait_for_tasks(name, "FAILED", "FAILED", "FAILED")
    for task in follower.status(name)["tasks"]:
        assert "WriterOpenError" in task["trace"], task["trace"]
        assert "rounds.py" in task["trace"], "the leader's trace"
    ok(follower.rest.patch(f"/connectors/{name}/config", json={"producer.override.transaction.timeout.ms": None}), 200)
    cluster.await_owners(name, 3, cluster.workers, follower, even=False)
    assert judged(cluster.bootstrap, name, 100, 1).missing == ()  # other tasks sent the rest: no order between them


def _running(worker: Worker, name: str, tasks: list[int]) -> list[int]:
    """Return the tasks that the worker's own metrics say it runs."""
    lines = [line for line in worker.rest.get("/metrics").text.splitlines() if 'status="running"' in line]
    return [n for n in tasks if any(f'connector="{name}"' in line and f'task="{n}"' in line for line in lines)]


def _is_whole(worker: Worker) -> None:
    assert worker.process is not None
    assert worker.process.poll() is None, worker.log_text()[-2000:]
    eventually(lambda: worker.rest.get("/health").status_code == 200, within_s=60)


def _members(cluster: Cluster) -> set[str]:
    """Return the URLs of the workers that are members of the group."""
    described = Admin({"bootstrap.servers": cluster.bootstrap}).groups.describe(cluster.group)
    return {member.client_id for member in described.members}


def _starts(cluster: Cluster, name: str) -> list[int]:
    """Return how often each task was given to a slot, over all workers; replacing a struck producer is not that."""
    text = "".join(worker.log_text() for worker in cluster.workers)
    return [text.count(f"task {name}-{number} starts here") for number in range(TASKS)]


def test_a_resend_repeated_after_a_leader_kill_sends_each_letter_once(cluster: Cluster, name: str) -> None:
    """Through a follower, which forwards; the leader dies between its first transaction and its second."""
    admin = Admin({"bootstrap.servers": cluster.bootstrap})
    letters, resend = DeadLetters(cluster.bootstrap, name), f"/connectors/{name}/dead-letters/resend"
    for topic in (letters.topic, letters.dead):
        admin.topics.create(topic, partitions=2, replication=1)
    letters.bury(*map(str, range(700)))
    leader, via = cluster.await_leader(), cluster.followers()[0]
    with KafkaProxy(cluster.bootstrap) as proxy:
        sink = {
            "connector.class": "FileStreamSink",
            "file": str(cluster.directory / f"{name}.txt"),
            "topics": name,
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": letters.dead,
            "consumer.override.bootstrap.servers": proxy.bootstrap_servers,
            "producer.override.bootstrap.servers": proxy.bootstrap_servers,
        }
        ok(via.create(name, sink, initial_state="STOPPED"), 201)
        proxy.on(ApiKey.END_TXN, Action.PASS, 1)
        end = proxy.on(ApiKey.END_TXN, Action.HOLD, 1)
        ok(via.rest.post(resend), 202)
        end.await_met(within_s=60)
        for worker in cluster.workers:
            found = ok(worker.rest.get(resend), 200).json()
            assert (found["state"], found["total"], found["sent"]) == ("sending", 700, 500)
            refused = ok(worker.rest.post(resend), 409).json()["message"]
            assert "are being resent already, and 500 of 700 are sent" in refused
            page = ok(worker.rest.get(f"/connectors/{name}/dead-letters", params={"limit": 3}), 200).json()
            assert [one["is_handled"] for one in page["letters"]] == [False] * 3
        leader.kill()
        end.discard()
        cluster.await_leader(leader)
        # `via` hears of the new leader a moment later.
        eventually(lambda: ok(via.rest.get(resend), 200).json()["state"] == "none", within_s=60)
        ok(via.rest.post(resend), 202)
        ended = eventually(lambda: _ended(via, resend), within_s=60)
    assert ended is not None
    assert (ended["state"], ended["total"], ended["sent"]) == ("done", 200, 200)
    assert letters.values == [str(n) for n in range(700)]


def _ended(worker: Worker, resend: str) -> dict[str, Any] | None:
    found: dict[str, Any] = ok(worker.rest.get(resend), 200).json()
    return found if found["ended_ms"] is not None else None
