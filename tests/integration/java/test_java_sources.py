"""A Java source, from `plugin.path` to Kafka: exactly once, whoever of its processes is killed.

The plug-in is compiled here (`support/java/plugins`): Kafka's own sources are in Python on a worker, which has them.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import orjson
import psutil
import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.log import LogReader
from fencepost.testing import eventually, judge
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation, Sequenced, Verdict
from support.chaos.processes import is_alive, peer_ports, standing_still
from support.host_processes import hosts
from support.worker import Worker

SOURCE = "tests.NumberSourceConnector"
TOOLS = "org.apache.kafka.connect.tools"
WITHIN_S = 240
ENDLESS = 10**9  # a source that does not end by itself while a test is slow


def numbers(topic: str, **more: Any) -> dict[str, str]:
    """Return the config of a source of numbers; underscores in names of `more` stand for dots."""
    own = {"connector.class": SOURCE, "topic": topic, "tasks.max": "1"}
    return own | {key.replace("_", "."): str(value) for key, value in more.items()}


def created(worker: Worker, name: str, config: Mapping[str, str]) -> None:
    answer = worker.create(name, config)
    assert answer.status_code == 201, answer.text


def sighting(record: Observation) -> Sequenced:
    part, number = (record.value or b"").decode().split(":")
    assert record.key == part.encode()
    return part, int(number)


def seen(kafka: EmbeddedKafka, topic: str) -> list[Observation]:
    with CommittedReader(kafka.bootstrap_servers, [topic]) as reader:
        return list(reader.read_all(60))


def verdict(kafka: EmbeddedKafka, topic: str, count: int, parts: int = 1) -> Verdict:
    """Wait until the last numbers are there, and compare all."""
    with CommittedReader(kafka.bootstrap_servers, [topic]) as reader:
        ends = {f"{part}:{count}".encode() for part in range(parts)}
        eventually(lambda: ends <= {one.value for one in reader.seen()}, within_s=WITHIN_S)
    expected = {str(part): list(range(1, count + 1)) for part in range(parts)}
    return judge(expected, seen(kafka, topic), sighting=sighting)


def committed(kafka: EmbeddedKafka, topic: str, at_least: int) -> Callable[[], bool]:
    """Return whether so many records are visible."""
    return lambda: len(seen(kafka, topic)) >= at_least


def await_more(reader: CommittedReader, topic: str, count: int = 100, parts: int = 1) -> None:
    """Wait until each part has `count` records that come after all that are in the log now."""
    reader.catch_up(WITHIN_S)
    start = len(reader.seen_of(topic))

    def came() -> bool:
        more = Counter(one.key for one in reader.seen_of(topic, start))
        assert all(more[str(part).encode()] >= count for part in range(parts)), more
        return True

    eventually(came, within_s=WITHIN_S)


def busy_slots(worker: Worker, kafka: EmbeddedKafka) -> list[int]:
    """Return the processes of slots that have tasks: they are connected to the broker. An idle one may have a host."""
    broker = int(kafka.bootstrap_servers.rpartition(":")[2])
    return [pid for pid in worker.slots().values() if broker in peer_ports(pid)]


def stopped_verdict(worker: Worker, kafka: EmbeddedKafka, name: str, parts: int = 1) -> Verdict:
    """Stop a connector that would never end, and compare what is there with the numbers up to its offsets."""
    assert worker.rest.put(f"/connectors/{name}/stop").status_code == 204
    eventually(
        lambda: (worker.status(name)["connector"]["state"], worker.task_states(name)) == ("STOPPED", []),
        within_s=WITHIN_S,
    )
    offsets = worker.rest.get(f"/connectors/{name}/offsets").json()["offsets"]
    ends = {one["partition"]["part"]: one["offset"]["number"] for one in offsets}
    assert len(ends) == parts
    expected = {part: list(range(1, end + 1)) for part, end in ends.items()}
    return judge(expected, seen(kafka, name), sighting=sighting)


def test_a_java_connector_is_listed_described_validated_and_runs(
    worker: Worker, kafka: EmbeddedKafka, name: str
) -> None:
    listed = {one["class"]: one for one in worker.rest.get("/connector-plugins").json()}
    assert listed[SOURCE] == {"class": SOURCE, "type": "source", "version": "3.14"}
    keys = {one["name"]: one for one in worker.rest.get(f"/connector-plugins/{SOURCE}/config").json()}
    assert (keys["count"]["type"], keys["count"]["default_value"]) == ("LONG", "1000")
    assert "transaction.boundary" in keys
    wrong = numbers(name, count=-1, tasks_max=0) | {"name": name}
    report = worker.rest.put(f"/connector-plugins/{SOURCE}/config/validate", json=wrong).json()
    faults = {one["value"]["name"]: one["value"]["errors"] for one in report["configs"] if one["value"]["errors"]}
    assert faults.keys() == {"count", "tasks.max"}
    assert "Value must be at least 0" in faults["count"][0]
    config = numbers(name, count=100, tasks_max=2, exactly_once_support="required", passphrase="canary")
    created(worker, name, config)
    assert verdict(kafka, name, 100, parts=2).is_clean
    assert worker.rest.get(f"/connectors/{name}").json()["config"]["passphrase"] == "[hidden]"
    status = worker.status(name)
    assert (status["type"], status["connector"]["version"]) == ("source", "3.14")
    offsets = worker.rest.get(f"/connectors/{name}/offsets").json()["offsets"]
    assert {one["partition"]["part"]: one["offset"]["number"] for one in offsets} == {"0": 100, "1": 100}
    task = worker.rest.get(f"/connectors/{name}/tasks").json()[0]["config"]
    assert task["task.class"] == "tests.NumberSourceTask"
    registered = [
        f'fencepost_plugin_value{{connector="{name}",metric="next-number",tags="part=1",task="1"}} 101.0',
        f'fencepost_plugin_connector_value{{connector="{name}",metric="starts",tags=""}} 1.0',
    ]
    eventually(lambda: set(registered) <= set(worker.rest.get("/metrics").text.splitlines()), within_s=WITHIN_S)


def test_settings_of_a_java_connector_are_checked_without_a_worker(java_plugins: Path, tmp_path: Path) -> None:
    """By what it declares, and with the transforms that it names."""

    def validated(**config: str) -> tuple[int, str]:
        file = tmp_path / "offline.json"
        file.write_text(
            json.dumps({"name": "offline", "config": {"connector.class": "tests.LinesSinkConnector", **config}})
        )
        command = ["validate", str(file), "--offline", "--plugin-path", str(java_plugins)]
        done = subprocess.run(
            [sys.executable, "-m", "fencepost.cli.main", *command], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    code, output = validated(topics="t", file="/lines")
    assert (code, "1 valid" in output) == (0, True), output
    code, output = validated(topics="t", transforms="anew", **{"transforms.anew.type": "tests.NoSuchTransform"})
    assert code == 2, output
    assert 'file: Missing required configuration "file"' in output
    assert "tests.NoSuchTransform" in output


def test_javas_transforms_and_converters_are_applied(worker: Worker, kafka: EmbeddedKafka, name: str) -> None:
    config = numbers(name, count=20) | {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "wrap,route",
        "transforms.wrap.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.wrap.field": "n",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "$1-routed",
    }
    created(worker, name, config)
    eventually(committed(kafka, f"{name}-routed", 20), within_s=WITHIN_S)
    assert [one.value for one in seen(kafka, f"{name}-routed")][:2] == [b'{"n":"0:1"}', b'{"n":"0:2"}']


def test_a_java_providers_value_is_looked_up_for_a_task(worker: Worker, kafka: EmbeddedKafka, name: str) -> None:
    config = numbers(name, count=2) | {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "wrap",
        "transforms.wrap.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.wrap.field": "${vault:way:token}",
        "config.reload.action": "none",
    }
    created(worker, name, config)
    eventually(committed(kafka, name, 2), within_s=WITHIN_S)
    assert [one.value for one in seen(kafka, name)] == [b'{"way:of-vault":"0:1"}', b'{"way:of-vault":"0:2"}']
    assert worker.rest.get(f"/connectors/{name}").json()["config"]["transforms.wrap.field"] == "${vault:way:token}"


@pytest.mark.parametrize("boundary", ["poll", "connector"])
def test_a_record_that_java_cannot_transform_becomes_a_dead_letter(
    worker: Worker, kafka: EmbeddedKafka, name: str, boundary: str
) -> None:
    config = numbers(name, count=30, act="bad", act_at=7, transaction_boundary=boundary) | {
        "transforms": "picky",
        "transforms.picky.type": "tests.Picky",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    created(worker, name, config)
    eventually(lambda: b"0:30" in [one.value for one in seen(kafka, name)], within_s=WITHIN_S)
    assert [one.value for one in seen(kafka, name)] == [f"0:{n}".encode() for n in range(1, 31) if n != 7]
    assert [(one.key, one.value) for one in seen(kafka, f"{name}-dead")] == [(b'"0"', b'"bad"')]
    headers: dict[str, bytes | None] = {}
    with closing(LogReader({"bootstrap.servers": kafka.bootstrap_servers}, f"{name}-dead")) as reader:
        reader.read_to_end(60, lambda letter: headers.update(letter.headers))
    assert headers["__connect.errors.offset"] == b'{"number":7}'
    assert headers["__connect.errors.class.name"] == b"tests.Picky"
    assert headers["__connect.errors.exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert b"at tests.Picky.apply(Picky.java" in (headers["__connect.errors.exception.stacktrace"] or b"")


@pytest.mark.parametrize("boundary", ["poll", "interval", "connector"])
def test_no_record_is_lost_or_doubled_when_host_slot_or_worker_is_killed(
    worker: Worker, kafka: EmbeddedKafka, name: str, boundary: str
) -> None:
    more = {"transaction_boundary": boundary, "transaction_boundary_interval_ms": 100} if boundary != "poll" else {}
    with CommittedReader(kafka.bootstrap_servers, [name]) as reader:
        created(worker, name, numbers(name, count=ENDLESS, tasks_max=2, pause_ms=20, **more))
        await_more(reader, name, parts=2)
        before = hosts(worker)
        for host in before:
            host.kill()
        await_more(reader, name, parts=2)
        assert not any(map(is_alive, before))
        os.kill(busy_slots(worker, kafka)[0], signal.SIGKILL)
        await_more(reader, name, parts=2)
        if boundary == "poll":
            worker.kill()
            worker.start()
            await_more(reader, name, parts=2)
    found = stopped_verdict(worker, kafka, name, parts=2)
    assert found.is_clean, found


def test_host_of_a_zombie_task_commits_nothing(worker: Worker, kafka: EmbeddedKafka, name: str) -> None:
    """What a host gives goes through its slot's producers: the successor has fenced them."""
    with CommittedReader(kafka.bootstrap_servers, [name]) as reader:
        created(worker, name, numbers(name, count=ENDLESS, pause_ms=20))
        await_more(reader, name)

        def only_slot() -> psutil.Process:
            [pid] = busy_slots(worker, kafka)  # others have just been left
            return psutil.Process(pid)

        slot = eventually(only_slot, within_s=WITHIN_S)
        with standing_still(slot):
            await_more(reader, name)
            assert slot.status() == psutil.STATUS_STOPPED, "the zombie was gone before it could wake up"
        eventually(lambda: not is_alive(slot), within_s=WITHIN_S)
        await_more(reader, name)
    found = stopped_verdict(worker, kafka, name)
    assert found.is_clean, found


def test_a_task_that_keeps_ending_its_jvm_fails_while_its_neighbour_continues(
    worker: Worker, kafka: EmbeddedKafka, name: str, request: pytest.FixtureRequest
) -> None:
    neighbour = f"{name}-neighbour"
    request.addfinalizer(lambda: worker.rest.delete(f"/connectors/{neighbour}"))
    with CommittedReader(kafka.bootstrap_servers, [neighbour]) as reader:
        created(worker, neighbour, numbers(neighbour, count=ENDLESS, pause_ms=20))
        await_more(reader, neighbour)
        created(worker, name, numbers(name, act="exit", act_at=1))
        (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=WITHIN_S)
        trace = failed["trace"]
        assert "the host (a JVM) of its slot ended" in trace
        assert "its exit code is 7" in trace
        await_more(reader, neighbour)
    found = stopped_verdict(worker, kafka, neighbour)
    assert found.is_clean, found


def test_deleting_the_connector_ends_the_host_of_a_poll_that_never_returns(
    worker: Worker, kafka: EmbeddedKafka, name: str
) -> None:
    created(worker, name, numbers(name, act="loop", act_at=11))
    eventually(committed(kafka, name, 10), within_s=WITHIN_S)
    before = hosts(worker)
    assert before
    worker.rest.delete(f"/connectors/{name}")
    eventually(lambda: not all(map(is_alive, before)), within_s=WITHIN_S)
    eventually(lambda: not worker.status(name), within_s=WITHIN_S)
    assert len(seen(kafka, name)) == 10


def test_a_java_exception_fails_the_task_with_the_first_cause_first(
    worker: Worker, kafka: EmbeddedKafka, name: str
) -> None:
    created(worker, name, numbers(name, act="throw", act_at=1))
    (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=WITHIN_S)
    trace = failed["trace"]
    assert trace.index("the cause") < trace.index("it was told to throw")
    assert "NumberSourceTask.java" in trace


def test_a_paused_java_task_sends_nothing_and_resumes_at_its_offset(
    worker: Worker, kafka: EmbeddedKafka, name: str, request: pytest.FixtureRequest
) -> None:
    """While it is paused, a neighbour polls a hundred times, as slowly as the task would."""
    neighbour = f"{name}-neighbour"
    request.addfinalizer(lambda: worker.rest.delete(f"/connectors/{neighbour}"))
    with CommittedReader(kafka.bootstrap_servers, [name, neighbour]) as reader:
        for each in (name, neighbour):
            created(worker, each, numbers(each, count=ENDLESS, pause_ms=20))
        await_more(reader, name)
        worker.rest.put(f"/connectors/{name}/pause")
        eventually(lambda: worker.task_states(name) == ["PAUSED"], within_s=WITHIN_S)
        await_more(reader, neighbour)
        paused = len(reader.seen_of(name))
        await_more(reader, neighbour, count=1000)
        reader.catch_up(WITHIN_S)
        assert len(reader.seen_of(name)) == paused
        worker.rest.put(f"/connectors/{name}/resume")
        await_more(reader, name)
    found = stopped_verdict(worker, kafka, name)
    assert found.is_clean, found


def test_a_connector_that_asks_for_new_task_configs_gets_more_tasks(
    worker: Worker, kafka: EmbeddedKafka, name: str
) -> None:
    created(worker, name, numbers(name, count=50, tasks_max=2, grows="true"))
    assert verdict(kafka, name, 50, parts=2).is_clean


def test_a_java_connector_checks_changes_of_its_offsets(worker: Worker, kafka: EmbeddedKafka, name: str) -> None:
    created(worker, name, numbers(name, count=20))
    assert verdict(kafka, name, 20).is_clean
    worker.rest.put(f"/connectors/{name}/stop")
    eventually(lambda: worker.task_states(name) == [], within_s=WITHIN_S)

    def moved(to: int) -> httpx.Response:
        offset = {"partition": {"part": "0"}, "offset": {"number": to}}
        return worker.rest.patch(f"/connectors/{name}/offsets", json={"offsets": [offset]})

    assert "a number is at least 0: {number=-1}" in moved(-1).text
    assert moved(18).status_code == 200
    worker.rest.put(f"/connectors/{name}/resume")
    eventually(committed(kafka, name, 22), within_s=WITHIN_S)
    assert [one.value for one in seen(kafka, name)][20:] == [b"0:19", b"0:20"]


def test_a_java_connector_moved_from_another_cluster_continues_at_its_offsets(
    worker: Worker, kafka: EmbeddedKafka, name: str
) -> None:
    created(worker, name, numbers(name, count=100))
    eventually(committed(kafka, name, 100), within_s=WITHIN_S)
    worker.rest.put(f"/connectors/{name}/stop")
    eventually(lambda: worker.task_states(name) == [], within_s=WITHIN_S)
    shown = worker.rest.get(f"/connectors/{name}/offsets").json()["offsets"]
    assert worker.rest.delete(f"/connectors/{name}/offsets").status_code == 200, "this cluster knows nothing of it"
    assert worker.rest.delete(f"/connectors/{name}").status_code == 204
    answer = worker.create(name, numbers(name, count=150), initial_offsets=shown)
    assert answer.status_code == 201, answer.text
    assert verdict(kafka, name, 150).is_clean


def test_topics_of_a_java_source_are_created_by_its_topic_creation_groups(
    worker: Worker, kafka: EmbeddedKafka, name: str
) -> None:
    """Here with Kafka's own SchemaSourceConnector, whose structs are converted in Java."""
    config = {
        "connector.class": f"{TOOLS}.SchemaSourceConnector",
        "tasks.max": "1",
        "topic": f"{name}-made",
        "num.messages": "10",
        "throughput": "-1",
        "multiple.schema": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.groups": "made",
        "topic.creation.made.include": ".*-made",
        "topic.creation.made.partitions": "3",
    }
    created(worker, name, config)
    eventually(committed(kafka, f"{name}-made", 10), within_s=WITHIN_S)
    found = seen(kafka, f"{name}-made")
    assert sorted(orjson.loads(one.value or b"null")["seqno"] for one in found) == list(range(10))
    assert Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.partitions(f"{name}-made") == 3


@pytest.mark.parametrize("mode", ["task-failure", "connector-failure"])
def test_kafkas_mock_source_fails_as_configured(worker: Worker, name: str, mode: str) -> None:
    config = {"connector.class": f"{TOOLS}.MockSourceConnector", "mock_mode": mode, "delay_ms": "0", "tasks.max": "1"}
    created(worker, name, config)

    def failed() -> bool:
        status = worker.status(name)
        part = status["connector"] if mode == "connector-failure" else (status["tasks"] or [{"state": ""}])[0]
        return part["state"] == "FAILED" and "java.lang.RuntimeException" in part["trace"]

    eventually(failed, within_s=WITHIN_S)


def test_the_level_of_a_logger_reaches_the_host_of_a_slot(worker: Worker, kafka: EmbeddedKafka, name: str) -> None:
    created(worker, name, numbers(name, count=300, pause_ms=20))
    eventually(committed(kafka, name, 10), within_s=WITHIN_S)
    line = f"{name}-0: polls number "
    assert line not in worker.log_text()
    worker.rest.put("/admin/loggers/tests.NumberSourceTask", json={"level": "DEBUG"})
    eventually(lambda: line in worker.log_text(), within_s=WITHIN_S)
    worker.rest.put("/admin/loggers/tests.NumberSourceTask", json={"level": "INFO"})
