"""Exactly-once is switched on and off worker by worker, under load (KIP-618, Compatibility, Deprecation, Migration)."""

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from rows import hurry, judged, ok, rows

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Verdict
from support.cluster import Cluster, is_ready, ready
from support.long_form import IS_LONG
from support.worker import Worker

MODE = "exactly.once.source.support"
TASKS = 3
PER_S = 75


@pytest.fixture
def cluster(kafka: EmbeddedKafka, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """As many workers of a group of their own as the test names, all in one mode.

    Without exactly-once a task that is abandoned, since it did not stop in time, may deliver again.
    """
    group, (count, mode) = f"rolling-{uuid.uuid4().hex[:6]}", request.param
    settings = {"exactly_once_source_support": mode, "task_shutdown_graceful_timeout_ms": "20000"}
    with Cluster(kafka.bootstrap_servers, tmp_path, group, count, **settings) as made:
        made.start()
        yield made


def roll(cluster: Cluster, mode: str, key: str = MODE) -> None:
    """Restart one worker after the other with another mode; each is back, and has tasks, before the next one goes."""
    for worker in cluster.workers:
        assert worker.stop() == 0
        worker.properties.pop(MODE, None)
        worker.properties[key] = mode
        ready(worker)
        cluster.await_leader()


def committed(cluster: Cluster, topic: str) -> list[int]:
    """The numbers of the rows that are visible now, in order."""
    with CommittedReader(cluster.bootstrap, [topic]) as reader:
        return [json.loads(o.value or b"")["id"] for o in reader.read_all(30)]


def doubles(verdict: Verdict) -> list[int]:
    return sorted({number for _, number in verdict.duplicated})


@pytest.mark.parametrize("cluster", [(3 if IS_LONG else 2, "disabled")], indirect=True)
@pytest.mark.parametrize(
    "rolls", [[(MODE, "preparing"), (MODE, "enabled")], [("exactly.once.source.enabled", "true")]], ids=["two", "one"]
)
def test_rolling_upgrades_lose_nothing_and_end_exactly_once(
    cluster: Cluster, topic_name: str, rolls: list[tuple[str, str]]
) -> None:
    count, via = 30_000, cluster.workers[0]
    ok(via.create(topic_name, rows(topic_name, count, TASKS, PER_S)), 201)
    cluster.await_owners(topic_name, TASKS, cluster.workers, via)
    for key, value in rolls:
        roll(cluster, value, key)
        cluster.await_owners(topic_name, TASKS, cluster.workers, via)
    once_from = max(committed(cluster, topic_name))
    assert once_from < count - PER_S, "the load ended before the upgrade did"
    killed = cluster.followers()[0]
    killed.kill()
    others = [worker for worker in cluster.workers if worker is not killed]
    cluster.await_owners(topic_name, TASKS, others, others[0])
    hurry(others[0], topic_name)
    verdict = judged(cluster.bootstrap, topic_name, count, TASKS)
    assert verdict.missing == ()
    assert [number for number in doubles(verdict) if number > once_from] == []


@pytest.mark.parametrize("cluster", [(2, "enabled")], indirect=True)
def test_soft_downgrade_and_upgrade_keep_the_connectors_own_offsets_topic(cluster: Cluster, topic_name: str) -> None:
    """`offsets.storage.topic` holds "regardless of whether" exactly-once is on: nothing is stale after the way back."""
    count, via = 30_000, cluster.workers[0]
    config = rows(topic_name, count, TASKS, PER_S) | {"offsets.storage.topic": f"{topic_name}-offsets"}
    ok(via.create(topic_name, config), 201)
    cluster.await_owners(topic_name, TASKS, cluster.workers, via)
    eventually(lambda: len(committed(cluster, topic_name)) > PER_S, within_s=60)
    roll(cluster, "disabled")
    cluster.await_owners(topic_name, TASKS, cluster.workers, via)
    roll(cluster, "enabled")
    cluster.await_owners(topic_name, TASKS, cluster.workers, via)
    hurry(via, topic_name)
    verdict = judged(cluster.bootstrap, topic_name, count, TASKS)
    assert verdict.is_clean, verdict


@pytest.mark.parametrize("cluster", [(1, "enabled")], indirect=True)
@pytest.mark.parametrize("is_own_topic_deleted", [False, True])
def test_upgrade_after_a_hard_downgrade_reads_a_stale_topic_unless_deleted(
    cluster: Cluster, topic_name: str, is_own_topic_deleted: bool
) -> None:
    """A worker that knows nothing of `offsets.storage.topic` went on in between, in the worker's topic alone."""
    via, own = cluster.workers[0], f"{topic_name}-offsets"
    ok(via.create(topic_name, rows(topic_name, 100_000, 1, PER_S) | {"offsets.storage.topic": own}), 201)
    eventually(lambda: len(committed(cluster, topic_name)) > PER_S, within_s=60)
    _stop_all(cluster.workers)
    before = committed(cluster, topic_name)
    assert before == list(range(len(before)))
    between = range(len(before), len(before) + 10)
    _as_an_old_worker(cluster, topic_name, between)
    if is_own_topic_deleted:
        Admin({"bootstrap.servers": cluster.bootstrap}).topics.delete([own])
    cluster.start()
    cluster.await_leader()
    eventually(lambda: len(committed(cluster, topic_name)) > between.stop + PER_S, within_s=60)
    after = committed(cluster, topic_name)
    again = between.stop if is_own_topic_deleted else between.start
    assert after == [*range(between.stop), *range(again, again + len(after) - between.stop)]
    eventually(lambda: (stored_row(via, topic_name) or 0) > after[-1], within_s=60)


def test_worker_that_is_ready_has_a_slot_while_workers_are_restarted_one_by_one(
    kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    """The next worker is stopped as soon as `/health` answers 200, as Kubernetes does."""
    count, group = 6_000, f"ready-{uuid.uuid4().hex[:6]}"
    with Cluster(kafka.bootstrap_servers, tmp_path, group, 2, kind=Worker) as cluster:
        cluster.start()
        ok(cluster.workers[0].create(topic_name, rows(topic_name, count, 2, PER_S)), 201)
        cluster.await_owners(topic_name, 2, cluster.workers, cluster.workers[0])
        for worker in cluster.workers:
            assert worker.stop() == 0
            worker.launch()
            eventually(lambda: is_ready(worker), within_s=240)  # noqa: B023
            assert worker.slots()
        hurry(cluster.workers[0], topic_name)
        verdict = judged(cluster.bootstrap, topic_name, count, 2)
    assert verdict.is_clean, verdict


def stored_row(worker: Worker, name: str) -> int | None:
    offsets: list[dict[str, Any]] = worker.rest.get(f"/connectors/{name}/offsets").json().get("offsets", [])
    return max((entry["offset"]["row"] for entry in offsets if entry["offset"]), default=None)


def _stop_all(workers: Sequence[Worker]) -> None:
    for worker in workers:
        assert worker.stop() == 0
        worker.process = None


def _as_an_old_worker(cluster: Cluster, name: str, numbers: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
    for number in numbers:
        producer.produce(name, json.dumps({"id": number, "name": "old"}).encode())
    key = f'["{name}",{{"task":0,"tasks":1}}]'
    producer.produce(f"{cluster.group}-offsets", key=key.encode(), value=b'{"row":%d}' % numbers[-1])
    assert producer.flush(60) == 0
