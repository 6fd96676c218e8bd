"""Calls of Java tasks that do not return, or end their JVM: they cost their own host alone, and no record.

Each task is in a slot of its own, and so in a host of its own. One that ends its host starts again by itself; one that
hangs does so when it is restarted, within `task.shutdown.graceful.timeout.ms` and the time of a start.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually, judge
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation, Sequenced
from support.cluster import LightWorker
from support.host_processes import hosts
from support.java_plugins import compile_plugins
from support.long_form import IS_LONG
from support.worker import Worker

ENDS = ("exit", "memory")
HANGS = ("sleep", "socket", "loop", "deadlock")
CALLS = ("start", "poll", "commit")
WITHIN_S = 240
BEFORE, COUNT = 200, 400
DEADLINE_S = 2
START_S, MOST_STARTS = 30, 5  # for that of a slot and its host: these seconds, and so many of the first one's
SETTINGS = {
    "spark.master": "local[32]",
    "task.shutdown.graceful.timeout.ms": f"{DEADLINE_S}000",
    "slot.lease.ms": "60000",  # a slot that stands still for a moment is none of those that hang
    "session.timeout.ms": "60000",
    "java.host.options": "-Xmx128m",  # of which "memory" takes all
}


@pytest.fixture
def worker(kafka: EmbeddedKafka, tmp_path: Path, seed: int) -> Iterator[Worker]:
    compile_plugins(tmp_path / "plugins" / "numbers")
    settings = {**SETTINGS, "plugin.path": str(tmp_path / "plugins")}
    with LightWorker(kafka.bootstrap_servers, tmp_path, settings, group=f"hangs-{seed}") as running:
        yield running


def created(worker: Worker, name: str, **more: Any) -> None:
    own = {"connector.class": "tests.NumberSourceConnector", "topic": name, "tasks.max": "1", "slot.dedicated": "true"}
    answer = worker.create(name, own | {key.replace("_", "."): str(value) for key, value in more.items()})
    assert answer.status_code == 201, answer.text


def sighting(record: Observation) -> Sequenced:
    part, number = (record.value or b"").decode().split(":")
    return part, int(number)


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_a_task_that_hangs_or_ends_its_host_costs_no_other_host_and_no_record(
    worker: Worker, kafka: EmbeddedKafka, tmp_path: Path, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    drawn = random.Random(seed)
    acts = [(what, call) for what in (*ENDS, *HANGS) for call in CALLS]
    chosen = (
        acts
        if IS_LONG
        else [(drawn.choice(ENDS), "poll"), *((what, drawn.choice(CALLS)) for what in drawn.sample(HANGS, 2))]
    )
    names = {f"hang-{seed}-{what}-{call}": (what, call) for what, call in chosen}
    neighbour = f"hang-{seed}-neighbour"
    with capfd.disabled(), CommittedReader(kafka.bootstrap_servers, [neighbour, *names]) as reader:
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        began = time.monotonic()
        created(worker, neighbour, count=10**9, pause_ms=20)
        eventually(lambda: reader.seen_of(neighbour, 0), within_s=WITHIN_S)
        most_s = DEADLINE_S + START_S + MOST_STARTS * (time.monotonic() - began)
        (host,) = hosts(worker)
        for name, (what, call) in names.items():
            at = 1 if call == "start" else BEFORE + 1
            created(worker, name, count=COUNT, act=what, act_in=call, act_at=at, act_once=tmp_path / name)
        eventually(lambda: all((tmp_path / name).exists() for name in names), within_s=WITHIN_S)
        for name, (what, call) in names.items():
            began = time.monotonic()
            if what in HANGS:
                answer = worker.rest.post(f"/connectors/{name}/tasks/0/restart")
                assert answer.status_code == 204, answer.text
            ends = f"0:{COUNT}".encode()
            eventually(
                lambda name=name, ends=ends: (
                    ends in {one.value for one in reader.seen_of(name, 0)} or _states(worker, name)
                ),
                within_s=WITHIN_S,
            )
            took_s = time.monotonic() - began
            print(f"{what} in {call}: done {took_s:.1f} s later, of {most_s:.1f} s", flush=True)
            assert took_s < most_s
        mark = len(reader.seen_of(neighbour, 0))
        eventually(lambda: len(reader.seen_of(neighbour, 0)) > mark, within_s=WITHIN_S)
        assert host in hosts(worker)  # the same process, below the same slot
        for name in names:
            found = judge({"0": list(range(1, COUNT + 1))}, reader.seen_of(name, 0), sighting=sighting)
            assert found.is_clean, (name, found)
        seen = list(reader.seen_of(neighbour, 0))
        found = judge({"0": list(range(1, len(seen) + 1))}, seen, sighting=sighting)
        assert found.is_clean, found


def _states(worker: Worker, name: str) -> bool:
    raise AssertionError(worker.status(name))
