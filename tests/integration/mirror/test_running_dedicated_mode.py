"""`fencepost mirror FILE`: flows of a MirrorMaker 2 file."""

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fencepost.cli.main import app
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.chaos.processes import is_alive
from support.group_commit import put_at
from support.log_writer import LogWriter
from support.mirror.mirror_process import DedicatedModeStage, MirrorProcess, with_quick_spark
from support.mirror.rows import values

CONNECTOR = "MirrorSourceConnector"


@pytest.fixture
def scene(tmp_path: Path, source_writer: LogWriter, target_writer: LogWriter, topic_name: str) -> DedicatedModeStage:
    return DedicatedModeStage(tmp_path, source_writer, target_writer, topic_name)


def test_a_flow_follows_its_file_and_resumes_after_the_file_has_changed(scene: DedicatedModeStage) -> None:
    first, second = (scene.source.topic(f"{scene.prefix}-{n}") for n in (1, 2))
    scene.source.send(first, ["a"])
    scene.source.send(second, ["b"])
    scene.write({">topics": first, f"{scene.b}.exactly.once.source.support": "enabled", "topcis": "x"})
    with scene.process() as process:
        scene.await_values(first, [b"a"])
        assert process.end() == 0
        assert f"stored the file's config of connector {CONNECTOR}" in process.said()
        process.start()
        eventually(lambda: process.status(CONNECTOR).get("tasks"), within_s=60)
        assert process.end(signal.SIGTERM) == 0
        assert "stored the file's config" not in process.said()
        scene.write({">topics": f"{first},{second}"})
        process.start()
        scene.await_values(second, [b"b"])
        scene.await_values(first, [b"a"])
        assert process.end() == 0


def test_processes_with_the_same_file_share_the_work_and_one_is_enough(scene: DedicatedModeStage) -> None:
    topic = scene.source.topic(scene.prefix, partitions=2)
    scene.write({"tasks.max": "2"})

    def owners(process: MirrorProcess) -> set[str]:
        tasks = process.status(CONNECTOR).get("tasks", [])
        return {task["worker_id"] for task in tasks if task["state"] == "RUNNING"}

    with scene.process(1) as one, scene.process(2) as other:
        eventually(lambda: len(owners(one)) == 2, within_s=120)
        scene.source.send(topic, ["a"], partition=0)
        scene.source.send(topic, ["b"], partition=1)
        eventually(lambda: sorted(set(scene.values(topic))) == [b"a", b"b"], within_s=120, every_s=0.2)  # at least once
        one.kill()
        scene.source.send(topic, ["c"], partition=1)
        scene.source.send(topic, ["d"], partition=0)
        eventually(lambda: sorted(set(scene.values(topic))) == [b"a", b"b", b"c", b"d"], within_s=120, every_s=0.2)
        eventually(lambda: len(owners(other)) == 1, within_s=60)


def test_the_other_type_is_refused_while_the_first_type_may_still_run(scene: DedicatedModeStage) -> None:
    topic = scene.source.topic(scene.prefix)
    scene.source.send(topic, ["a"])
    scene.write()
    with scene.process() as process:
        scene.await_values(topic, [b"a"])
        assert process.end() == 0
        scene.write({"connector.type": "sink"})
        process.start()
        assert process.await_end(within_s=120) == 1
        assert f"There is a connector {CONNECTOR}: it mirrors {scene.flow} as the other type" in process.said()
    assert scene.values(topic) == [b"a"]


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_either_type_runs_with_transactions_and_reports_its_progress(scene: DedicatedModeStage, kind: str) -> None:
    topic = scene.source.topic(scene.prefix, partitions=2)
    scene.source.send(topic, ["a"])
    exact = f"{scene.b}.exactly.once.source.support"
    scene.write({">connector.type": kind, ">transaction.producer": "true", exact: "enabled"})
    assert told(scene.path)["state"] == "NEVER RUN"
    with scene.process() as process:
        scene.await_values(topic, [b"a"])
        eventually(lambda: of_topic(told(scene.path), topic)["sync_ms"] is not None, within_s=60)
        assert process.end() == 0
        scene.source.send(topic, ["b", "c"])
        scene.source.send(topic, ["d"], partition=1)
        eventually(lambda: told(scene.path)["state"] == "NO WORKER", within_s=60)
        flow = told(scene.path)
        assert (flow["flow"], flow["gaps"]) == (scene.flow, [])
        found = of_topic(flow, topic)
        assert (found["remote"], found["partitions"], found["behind"]) == (f"{scene.a}.{topic}", 2, 3)
        assert found["behind_ms"] >= 0
        assert found["sync_ms"] >= 0
        process.start()
        scene.await_values(topic, [b"a", b"b", b"c", b"d"])
        with process.rest() as rest:
            url = str(rest.base_url)
        eventually(lambda: of_topic(told(url), topic)["behind"] == 0, within_s=60)
        for where in (url, scene.path):
            eventually(lambda where=where: states(told(where)) == ("RUNNING", ["RUNNING"]), within_s=60)


def told(where: Path | str) -> dict[str, Any]:
    """Return what `fencepost mirror status` says of the only flow."""
    done = CliRunner().invoke(app, ["mirror", "status", "--json", str(where)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    [flow] = json.loads(done.stdout)
    return dict(flow)


def of_topic(flow: Mapping[str, Any], topic: str) -> dict[str, Any]:
    [found] = [one for one in flow["topics"] if one["topic"] == topic]
    return dict(found)


def states(flow: Mapping[str, Any]) -> tuple[str, list[str]]:
    return flow["state"], flow["tasks"]


@pytest.mark.timeout(900)
def test_both_directions_run_on_spark_and_end_together(scene: DedicatedModeStage) -> None:
    there, back = scene.source.topic(f"{scene.prefix}-there"), f"{scene.prefix}-back"
    scene.target.topic(back)
    scene.source.send(there, ["to b"])
    scene.target.send(back, ["to a"])
    against = {f"{scene.b}->{scene.a}.enabled": "true", "emit.heartbeats.enabled": "true"}
    scene.write(with_quick_spark(against))
    with MirrorProcess(scene.path) as process:
        # Two JVMs of Spark come up first. At least once.
        eventually(lambda: set(scene.values(there)) == {b"to b"}, within_s=240, every_s=0.2)
        eventually(lambda: set(values(scene.source, f"{scene.b}.{back}")) == {b"to a"}, within_s=240, every_s=0.2)
        eventually(lambda: len(scene.values("heartbeats")) > 1, within_s=120)
        below = process.below()
        assert process.end(within_s=120) == 0
        eventually(lambda: not [each for each in below if is_alive(each)], within_s=60)
        assert f"[{scene.flow}] " in process.said()


def test_groups_have_positions_at_the_target_within_the_interval_of_checkpoints(scene: DedicatedModeStage) -> None:
    """At least once, long before offsets are committed: also groups before the last record that was mirrored."""
    topic = scene.source.topic(scene.prefix, partitions=2)
    scene.source.send(topic, [str(n) for n in range(10)])
    conf, place = {"bootstrap.servers": scene.source.bootstrap}, TopicPartition(topic, 0)
    groups = {f"{topic}-{offset}": offset for offset in (0, 4, 10)}
    for group, offset in groups.items():
        put_at(GroupOffsets(conf, group), {place: offset}, within_s=180)
    scene.write(
        {
            ">groups": f"{topic}-.*",
            ">emit.checkpoints.interval.seconds": "1",
            ">sync.group.offsets.enabled": "true",
            ">sync.group.offsets.interval.seconds": "1",
            "offset.flush.interval.ms": "3600000",
        }
    )
    target = {"bootstrap.servers": scene.target.bootstrap}
    remote = TopicPartition(f"{scene.a}.{topic}", 0)

    def positions() -> dict[str, int | None]:
        return {group: GroupOffsets(target, group).read().get(remote) for group in groups}

    with scene.process():
        found = eventually(lambda: at if None not in (at := positions()).values() else None, within_s=180)
    print(f"positions at the target: {found}")
    assert all(0 <= at <= groups[group] for group, at in found.items())
    assert found[f"{topic}-10"] > 0
