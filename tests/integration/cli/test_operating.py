"""Commands of the day, on a worker of ours and on one of Kafka Connect."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.command_line import Ran

Run = Callable[..., Ran]
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
SECRET = "notes.api.token"  # nothing reads it
CANARY = "c4n4ry-of-a-password"


def runs(side: Any, name: str) -> bool:
    return bool(side.states(name) == ["RUNNING", "RUNNING"])


@pytest.fixture
def source(side: Any, name: str, tmp_path: Path) -> str:
    """A source that has read three lines and runs."""
    (tmp_path / "lines.txt").write_text("one\ntwo\nthree\n")
    config = {
        "connector.class": SOURCE,
        "file": str(tmp_path / "lines.txt"),
        "topic": f"{name}-lines",
        "tasks.max": "1",
        SECRET: CANARY,
        "offset.flush.interval.ms": "500",
    }
    side.rest.put(f"/connectors/{name}/config", json=config).raise_for_status()
    eventually(lambda: runs(side, name), within_s=60)
    eventually(lambda: positions(side, name) == [14], within_s=60)
    return name


@pytest.fixture
def sink(side: Any, name: str, tmp_path: Path, kafka: EmbeddedKafka) -> Iterator[str]:
    """A sink that has read five records and runs."""
    topic = f"{name}-in"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic, partitions=2, replication=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(5):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    producer.flush(30)
    config = {"connector.class": SINK, "file": str(tmp_path / "out.txt"), "topics": topic, "tasks.max": "1"}
    side.rest.put(f"/connectors/{name}/config", json=config).raise_for_status()
    eventually(lambda: sink_offsets(side, name) == {0: 3, 1: 2}, within_s=60)
    yield name
    side.rest.delete(f"/connectors/{name}")


def positions(side: Any, name: str) -> list[int]:
    found = side.rest.get(f"/connectors/{name}/offsets").json()["offsets"]
    return [one["offset"]["position"] for one in found]


def sink_offsets(side: Any, name: str) -> dict[int, int]:
    found = side.rest.get(f"/connectors/{name}/offsets").json()["offsets"]
    return {one["partition"]["kafka_partition"]: one["offset"]["kafka_offset"] for one in found}


def test_an_export_is_applied_unchanged_and_has_no_secret(run: Run, side: Any, source: str, tmp_path: Path) -> None:
    exported = run("export", f"{source}*", "--dir", tmp_path / "backup")
    assert exported.code == 0
    [file] = (tmp_path / "backup").iterdir()
    assert f"{source}: {SECRET}" in exported.err
    assert CANARY not in file.read_text() + exported.text + run("export", f"{source}*").text
    again = run("apply", tmp_path / "backup")
    assert (again.code, again.out) == (0, "0 done, 1 unchanged\n")
    config = json.loads(file.read_text())
    config["config"]["topic"] = "other"
    file.write_text(json.dumps(config))
    assert run("apply", file).code == 0, "the secret that it has is kept"
    assert side.config(source)["topic"] == "other"
    kept = side.config(source)[SECRET]
    assert kept == ("[hidden]" if side.is_ours else CANARY)
    side.rest.delete(f"/connectors/{source}")
    eventually(lambda: side.config(source) == {}, within_s=60)
    refused = run("validate", file)
    assert refused.code == 2
    assert f"{SECRET}: there is no value to keep" in refused.err


def test_a_connector_is_described_without_its_secrets(run: Run, side: Any, source: str) -> None:
    described = run("describe", source)
    assert described.code == 0
    for text in (f"{source}: a source, RUNNING", "[hidden]", f"{source}-lines", '"position": 14', "Tasks:"):
        assert text in described.out, text
    data = json.loads(run("describe", source, "-o", "json").out)
    assert data["config"][SECRET] == "[hidden]"
    assert [task["state"] for task in data["status"]["tasks"]] == ["RUNNING"]
    printed = [
        described,
        run("describe", source, "-o", "json"),
        run("get", source, "-o", "yaml"),
        run("status", source),
    ]
    assert not [each for each in printed if CANARY in each.text]


def test_offsets_of_a_source_are_moved_and_reset(run: Run, side: Any, source: str) -> None:
    shown = json.loads(run("offsets", "show", source, "-o", "json").out)
    partition = shown["offsets"][0]["partition"]
    change = json.dumps({"partition": partition, "offset": {"position": 4}})
    assert '{"position": 4}' in run("offsets", "move", source, change, "--preview").out
    declined = run("offsets", "move", source, change, typed="n\n")
    assert declined.code == 1
    assert positions(side, source) == [14]
    moved = run("offsets", "move", source, change, "--yes", "--keep-stopped")
    assert moved.code == 0, moved.text
    assert "is stopped for the change, and stays stopped" in moved.err
    assert (side.states(source), positions(side, source)) == (["STOPPED"], [4])
    reset = run("offsets", "reset", source, typed="y\n")
    assert (reset.code, side.states(source)) == (0, ["STOPPED"]), reset.text
    assert positions(side, source) == []
    assert run("resume", source).out == f"{source}: asked to resume\n"
    eventually(lambda: positions(side, source) == [14], within_s=60)
    assert run("offsets", "move", source, '{"partition": {}}').code == 1


def test_offsets_of_a_running_sink_are_moved_and_the_sink_resumes(
    run: Run, side: Any, sink: str, tmp_path: Path
) -> None:
    moved = run("offsets", "move", sink, f"{sink}-in:0=1", f"{sink}-in:1=0", typed="y\n")
    assert moved.code == 0, moved.text
    for before, after in ((3, 1), (2, 0)):
        assert f'{{"kafka_offset": {before}}}  {{"kafka_offset": {after}}}' in moved.out
    eventually(lambda: runs(side, sink), within_s=60)
    eventually(lambda: (tmp_path / "out.txt").read_text().split().count("1") == 2, within_s=60)
    eventually(lambda: sink_offsets(side, sink) == {0: 3, 1: 2}, within_s=60)
    assert sorted((tmp_path / "out.txt").read_text().split()) == ["0", "1", "1", "2", "2", "3", "3", "4", "4"]
    refused = run("offsets", "move", sink, "no-such-topic-at-all:0=7", "--yes")
    said = "No offset was changed" if side.is_ours else "not known whether"  # it answers as if it had an error inside
    assert (refused.code, said in refused.err) == (1, True), refused.text
    eventually(lambda: runs(side, sink), within_s=60)


def test_connectors_are_paused_resumed_stopped_restarted_and_deleted(run: Run, side: Any, source: str) -> None:
    assert run("pause", source).code == 0
    eventually(lambda: side.states(source) == ["PAUSED", "PAUSED"], within_s=60)
    assert run("resume", source).code == 0
    eventually(lambda: runs(side, source), within_s=60)
    assert run("restart", source, "--tasks").out == f"{source}: restarted\n"
    eventually(lambda: runs(side, source), within_s=60)
    assert run("restart").code == 1
    some = run("stop", source, "no-such-connector")
    assert (some.code, some.out) == (1, f"{source}: asked to stop\n")
    assert "no-such-connector: not asked to stop" in some.err
    eventually(lambda: side.states(source) == ["STOPPED"], within_s=60)
    assert run("delete", source, typed="n\n").code == 1
    assert run("delete", source, "--yes").out == f"{source}: deleted\n"
    eventually(lambda: side.config(source) == {}, within_s=60)


def test_restart_failed_restarts_failed_connectors(run: Run, side: Any, name: str, tmp_path: Path) -> None:
    """A sink whose directory is missing fails; once it is there, the restart of what has failed mends it."""
    file = tmp_path / "absent" / "out.txt"
    config = {"connector.class": SINK, "file": str(file), "topics": f"{name}-in", "tasks.max": "1"}
    side.rest.put(f"/connectors/{name}/config", json=config).raise_for_status()
    eventually(lambda: side.states(name) == ["RUNNING", "FAILED"], within_s=60)
    found = json.loads(run("get", "--state", "failed", "-o", "json").out)
    assert [each["name"] for each in found] == [name]
    assert "FAILED" in run("status", name).out
    file.parent.mkdir()
    assert run("restart", "--failed").out == f"{name}: restarted\n"
    eventually(lambda: runs(side, name), within_s=60)


def test_validation_names_an_unknown_key_and_the_similar_known_key(run: Run, name: str, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    config = {"connector.class": SOURCE, "topicc": "t", "batch.sizee": "7", "file": "/f", "tasks.max": "x"}
    file.write_text(json.dumps({"name": name, "config": config}))
    refused = run("validate", file)
    assert refused.code == 2
    lines = refused.err.splitlines()
    assert any(f"{file}: {name}: tasks.max: " in line for line in lines)
    assert any("topic" in line and "topicc" in line for line in lines), lines
    assert any("batch.size" in line and "batch.sizee" in line for line in lines), lines
    assert {each["key"] for each in json.loads(run("validate", file, "-o", "json").out)["faults"]} >= {"tasks.max"}
    config = {"connector.class": SOURCE, "topic": "t", "file": "/f"}
    file.write_text(json.dumps({"name": name, "config": config}))
    assert (run("validate", file).code, run("validate", file).out) == (0, "1 valid\n")
