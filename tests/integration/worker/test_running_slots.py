"""Slots on a running worker: neighbours of a task that hangs, and many tasks."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from file_connector import append, created, file_source, numbered, settings_of_tests

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.source import DEAF, HANG, TestingSource
from support.worker import Worker

Values = Callable[..., list[str]]

SLOW_S = 300  # for some starts of slots, one after the other, on a machine that others use


def test_a_task_that_hangs_does_not_stop_its_neighbours_and_is_abandoned(
    worker: Worker, name: str, values: Values, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    file, neighbour = tmp_path / "in.txt", f"{name}-neighbour"
    append(file, numbered(1, 10))
    created(worker, neighbour, file_source(file, neighbour))
    source = TestingSource(["a", DEAF()], topic=name, bootstrap=kafka.bootstrap_servers)
    created(worker, name, {**source.properties(name=name), "progress.timeout.ms": "1000"})
    worker.wait_for_tasks(name, "RUNNING")
    assert len(values(name, 1)) == 1
    append(file, numbered(11, 20))
    assert values(neighbour, 20) == numbered(1, 20)
    eventually(lambda: "The task has stood still since" in trace_of(worker, name), within_s=60)
    assert "in poll" in trace_of(worker, name)
    worker.wait_for_tasks(name, "RUNNING")
    assert worker.rest.put(f"/connectors/{name}/stop").status_code == 204
    eventually(lambda: f"task {name}-0 did not stop within" in worker.log_text(), within_s=60)
    append(file, numbered(21, 30))
    assert values(neighbour, 30) == numbered(1, 30)
    worker.wait_for_tasks(neighbour, "RUNNING")
    worker.rest.delete(f"/connectors/{neighbour}")


def test_a_hanging_task_fails_when_configured_and_its_neighbours_continue(
    worker: Worker, name: str, values: Values, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    file, neighbour = tmp_path / "in.txt", f"{name}-neighbour"
    append(file, numbered(1, 10))
    created(worker, neighbour, file_source(file, neighbour))
    assert values(neighbour, 10) == numbered(1, 10)
    source = TestingSource(["a", DEAF()], topic=name, bootstrap=kafka.bootstrap_servers)
    progress = {"progress.timeout.ms": "10000", "progress.timeout.action": "fail"}
    created(worker, name, {**source.properties(name=name), **progress})
    worker.wait_for_tasks(name, "FAILED", within_s=120)
    assert "in poll" in trace_of(worker, name)
    append(file, numbered(11, 20))
    assert values(neighbour, 20) == numbered(1, 20)
    assert len(values(name, 1)) == 1
    worker.rest.delete(f"/connectors/{neighbour}")


def trace_of(worker: Worker, name: str) -> str:
    return str(worker.status(name)["tasks"][0].get("trace", ""))


def test_a_task_that_waits_but_heeds_a_stop_is_not_abandoned(
    worker: Worker, name: str, values: Values, kafka: EmbeddedKafka
) -> None:
    source = TestingSource(["a", HANG()], topic=name, bootstrap=kafka.bootstrap_servers)
    created(worker, name, source.properties(name=name))
    values(name, 1)
    worker.rest.put(f"/connectors/{name}/stop")
    eventually(lambda: worker.status(name)["tasks"] == [])
    assert f"task {name}-0 did not stop" not in worker.log_text()


def test_many_tasks_share_few_slots(worker: Worker, name: str, values: Values) -> None:
    count = 24
    config = {
        "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
        "tasks.max": str(count),
        "topic": name,
        "throughput": "50",
    }
    created(worker, name, config)
    worker.wait_for_tasks(name, *["RUNNING"] * count, within_s=90)
    assert len(worker.slots()) <= int(worker.properties["slots.max"]) + 1
    assert len(values(name, 500)) >= 500
    worker.rest.put(f"/connectors/{name}/pause")
    worker.wait_for_tasks(name, *["PAUSED"] * count)
    worker.rest.put(f"/connectors/{name}/stop")
    eventually(lambda: worker.status(name)["tasks"] == [])


@pytest.mark.timeout(5 * SLOW_S)
def test_a_task_that_keeps_killing_its_slot_fails_while_its_neighbour_continues(
    kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    """In one slot, so that they are neighbours: the worker has one only, but for tasks that have to be alone."""
    idle, busy, deadly = (f"{topic_name}-{kind}" for kind in ("idle", "busy", "deadly"))
    settings = {**settings_of_tests(), "slots.max": "1"}
    file = tmp_path / "in.txt"
    file.touch()
    with Worker(kafka.bootstrap_servers, tmp_path, settings, group=topic_name) as worker:
        eventually(worker.slots, within_s=200)
        created(worker, idle, file_source(file, idle))
        created(worker, busy, {**VERIFIABLE, "topic": busy, "throughput": "50"})
        for neighbour in (idle, busy):
            worker.wait_for_tasks(neighbour, "RUNNING", within_s=SLOW_S)
        created(worker, deadly, {"connector.class": "worker_suite.DeadlyConnector"})
        (failed,) = worker.wait_for_tasks(deadly, "FAILED", within_s=SLOW_S)
        trace = failed["trace"]
        assert f"Task {deadly}-0 ended the process of its slot 3 times in a row" in trace
        assert "was ended by SIGKILL" in trace, "the cause"
        for neighbour in (idle, busy):
            worker.wait_for_tasks(neighbour, "RUNNING", within_s=SLOW_S)  # the idle one in a slot of its own by now
        append(file, numbered(1, 10))
        with CommittedReader(kafka.bootstrap_servers, [idle, busy]) as reader:
            eventually(lambda: sum(o.topic == idle for o in reader.seen()) == 10, within_s=SLOW_S)
            assert judge_numbers(
                eventually(lambda: [o.value for o in reader.seen() if o.topic == busy], within_s=SLOW_S)
            )
        restarts = worker.log_text().count(f"task {busy}-0 starts again")
        assert restarts <= 2, "a task that commits is no suspect, and is not with the suspects after the second time"


def judge_numbers(values: Sequence[bytes | None]) -> bool:
    """Say whether the numbers of a verifiable source are whole, in order and without a repetition."""
    numbers = [int(value or b"-1") for value in values]
    return len(numbers) > 0 and numbers == list(range(len(numbers)))


VERIFIABLE = {"connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector"}


@pytest.mark.timeout(4 * SLOW_S)
def test_a_task_that_blocks_python_is_named_and_moved_to_a_slot_of_its_own(
    kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    neighbour, stuck = f"{topic_name}-neighbour", f"{topic_name}-stuck"
    settings = {**settings_of_tests(), "slots.max": "1", "slot.lease.ms": "3000"}
    file = tmp_path / "in.txt"
    file.touch()
    with Worker(kafka.bootstrap_servers, tmp_path, settings, group=topic_name) as worker:
        created(worker, neighbour, file_source(file, neighbour))
        worker.wait_for_tasks(neighbour, "RUNNING", within_s=SLOW_S)
        hangs = {"hang.in": "start", "hang.how": "matches_a_regular_expression"}
        created(worker, stuck, {"connector.class": "hanging.HangingSource", "topic": stuck, **hangs})
        eventually(lambda: "holds Python's interpreter lock" in trace_of(worker, stuck), within_s=SLOW_S)
        worker.wait_for_tasks(stuck, "FAILED", within_s=SLOW_S)
        assert "in start" in trace_of(worker, stuck)
        assert "hanging.py" in trace_of(worker, stuck)
        worker.wait_for_tasks(neighbour, "RUNNING", within_s=SLOW_S)
        append(file, numbered(1, 10))
        with CommittedReader(kafka.bootstrap_servers, [neighbour]) as reader:
            eventually(lambda: len(reader.seen()) == 10, within_s=SLOW_S)
