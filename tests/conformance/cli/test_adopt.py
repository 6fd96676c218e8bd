"""Groups of the old style, taken over in the middle of their transactions: nothing twice, nothing left out."""

import json
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner

from fencepost.cli.main import app
from fencepost.kafka.group.contributors import Contributor, Contributors, denied
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.group.memberless import memberless, read_stable
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from fencepost.transaction import CommitUnknownError, TransactionalWriter, WriterFencedError
from fencepost.transaction.adoption import AdoptionError
from support.log_writer import LogWriter
from support.long_form import IS_LONG
from support.old_style.per_partition import POINTS
from support.old_style.running import OldProgram
from support.old_style.scene import CopyScene
from support.old_style.successor import Successor
from support.stream_stage import StreamStage

Start = Callable[[CopyScene], OldProgram]
# Each member holds one transaction open.
PARTITIONS, MEMBERS = (50, 10) if IS_LONG else (15, 5)


@pytest.fixture
def scene(log_writer: LogWriter, topic_name: str) -> CopyScene:
    return CopyScene.create(log_writer, topic_name, len(POINTS))


def per_partition(scene: CopyScene, consumers: int = len(POINTS), points: Sequence[str] = POINTS) -> OldProgram:
    return OldProgram.per_partition(scene.bootstrap, scene.group, scene.topics, consumers, points)


@pytest.fixture(params=["a producer for each partition", "streams"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    """Returns a program of the old style that waits at each of the points, in a partition each."""

    def streams(scene: CopyScene) -> OldProgram:
        return OldProgram.streams(scene.bootstrap, scene.group, scene.topics, len(POINTS), tmp_path)

    return streams if request.param == "streams" else per_partition


def adopt(scene: CopyScene, *options: str) -> dict[str, Any]:
    """Run the command. Raises what it does; else returns what it says as JSON."""
    command = ["adopt", scene.group, "--bootstrap", scene.bootstrap, "--json", *options]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("what", [signal.SIGKILL, signal.SIGSTOP])
def test_e20_group_is_adopted_during_its_transactions(
    scene: CopyScene, start: Start, what: signal.Signals, request: pytest.FixtureRequest
) -> None:
    if what is signal.SIGKILL and request.node.callspec.params["start"] == "streams" and not IS_LONG:
        pytest.skip("only in `make chaos`: who is killed is not told from who stands still until that one goes on")
    with scene.watched() as reader, start(scene) as program:
        scene.hold(program, reader)
        program.signal(what)
        told = adopt(scene, "--yes", "--remove-members")
        assert told["is_adopted"]
        with Successor(scene.bootstrap, scene.group, scene.topics) as successor:
            successor.run(lambda: scene.is_copied(reader))
            if what is signal.SIGSTOP:  # it wakes up in the middle of what it did
                program.signal(signal.SIGCONT)
                program.go()
                successor.run(lambda: "ended" in program.said)
            scene.write(5)
            successor.run(lambda: scene.is_copied(reader))
        verdict = scene.verdict(reader)
        assert verdict.is_clean, verdict


def test_group_with_members_is_shown_and_not_adopted_without_an_option(scene: CopyScene) -> None:
    with scene.watched() as reader, per_partition(scene) as program:
        scene.hold(program, reader)
        told = adopt(scene, "--dry-run")
        assert not told["is_adopted"]
        having = {each["partition"]: each["member"] for each in told["partitions"]}
        assert sorted(each["partitions"] for each in told["members"]) == [[place] for place in sorted(having)]
        producers = {each["transactional_id"]: each for each in told["producers"]}
        assert {each["partition"]: each["transactional_id"] for each in told["partitions"]} == {
            f"{scene.topics[0]}-{n}": f"{scene.group}-old-{n}" for n in scene.partitions
        }
        found = [producers[f"{scene.group}-old-{n}"] for n in scene.partitions]
        assert [each["is_open"] for each in found] == [False, True, True, True]  # of what is only begun nobody knows
        assert [each["has_offsets"] for each in found] == [False, False, True, True]
        assert [each["is_pending"] for each in told["partitions"]] == [False, False, True, True]
        assert [each["committed"] for each in told["partitions"]] == [10, 10, None, None]
        with pytest.raises(AdoptionError, match=r"has 4 members \(rdkafka at .*--remove-members"):
            adopt(scene, "--yes")
        program.go()
        scene.await_copied(reader)  # nobody was fenced
        verdict = scene.verdict(reader)
        assert verdict.is_clean, verdict


def test_group_with_members_of_the_consumer_protocol_is_not_adopted(scene: CopyScene) -> None:
    scene.write(3)
    conf = {"bootstrap.servers": scene.bootstrap, "group.id": scene.group, "group.protocol": "consumer"}
    consumer = Consumer({**conf, "auto.offset.reset": "earliest"})
    consumer.subscribe([scene.topics[0]])
    try:
        eventually(lambda: consumer.poll(0.1))
        with pytest.raises(AdoptionError, match="is a consumer group with members: end the program"):
            adopt(scene, "--yes", "--remove-members")
    finally:
        consumer.close()
    assert adopt(scene, "--yes")["is_adopted"]


def test_missing_group_is_not_adopted(scene: CopyScene) -> None:
    with pytest.raises(AdoptionError, match="There is no group"):
        adopt(scene, "--dry-run")


def test_producers_without_commits_are_found_by_the_prefix_of_their_ids(scene: CopyScene) -> None:
    with scene.watched() as reader, per_partition(scene) as program:
        scene.write(5, hold=True)
        scene.await_held(program)
        program.signal(signal.SIGSTOP)
        told = adopt(scene, "--yes", "--remove-members", "--prefix", f"{scene.group}-old-")
        assert len(told["producers"]) == len(POINTS)
        with Successor(scene.bootstrap, scene.group, scene.topics) as successor:
            successor.run(lambda: scene.is_copied(reader))
            program.signal(signal.SIGCONT)
            program.go()
            successor.run(lambda: "ended" in program.said)
        verdict = scene.verdict(reader)
        assert verdict.is_clean, verdict


def test_owner_of_an_id_that_only_resembles_the_others_must_be_named(log_writer: LogWriter, topic_name: str) -> None:
    scene = CopyScene.create(log_writer, topic_name, 2)
    conf, group = {"bootstrap.servers": scene.bootstrap}, memberless(scene.group)
    read_stable(conf, scene.group, 60)  # a cluster that has had no group yet makes it wait
    offsets = [GroupOffset(scene.topics[0], n, 0) for n in range(2)]

    def producer(id_: str) -> TransactionalWriter:
        made = TransactionalWriter(transactional_conf(conf, id_).conf, id_)
        made.open()
        made.send(scene.topics[1], b"x")
        made.flush()
        return made

    known, other = f"{scene.group}-old-0", f"{scene.group}-old-1"
    with closing(producer(known)) as first, closing(producer(f"{topic_name}-by-hand")) as second:
        first.commit(group_offsets=offsets[:1], group_metadata=group)
        second.commit(group_offsets=offsets[1:], group_metadata=group)
    with closing(producer(other)) as stranger:
        with pytest.raises(AdoptionError, match=rf"{other}: named like .*--prefix if .*--foreign if"):
            adopt(scene, "--yes")
        assert {each["transactional_id"] for each in adopt(scene, "--dry-run")["producers"] if each["is_guessed"]} == {
            other
        }
        left = adopt(scene, "--yes", "--foreign", other)
        assert other not in {each["transactional_id"] for each in left["producers"]}
        left = adopt(scene, "--yes", "--foreign", other, "--prefix", f"{scene.group}-old-")
        assert other not in {each["transactional_id"] for each in left["producers"]}
        stranger.commit()
    with closing(producer(other)) as own:
        assert adopt(scene, "--yes", "--prefix", other)["is_adopted"]
        with pytest.raises((WriterFencedError, CommitUnknownError)):
            own.commit()


def test_ids_must_be_named_without_the_right_to_read_the_offsets_log(
    scene: CopyScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last(*_: object) -> dict[TopicPartition, Contributor]:
        raise denied()

    monkeypatch.setattr(Contributors, "last", last)
    id_, conf = f"{scene.group}-old-0", {"bootstrap.servers": scene.bootstrap}
    with closing(TransactionalWriter(transactional_conf(conf, id_).conf, id_)) as log_writer:
        log_writer.open()
        log_writer.send(scene.topics[1], b"0:0")
        log_writer.flush()
        read_stable(conf, scene.group, 60)  # a cluster that has had no group yet makes it wait
        GroupOffsets(conf, scene.group).alter({TopicPartition(scene.topics[0], 0): 0})
        with pytest.raises(AdoptionError, match=r"Grant Read on it .*--prefix"):
            adopt(scene, "--yes")
        [producer] = adopt(scene, "--yes", "--prefix", id_)["producers"]
        assert (producer["transactional_id"], producer["is_open"]) == (id_, True)
        with pytest.raises((WriterFencedError, CommitUnknownError)):
            log_writer.commit()


def test_many_partitions_with_open_transactions_are_adopted_within_seconds(
    log_writer: LogWriter, topic_name: str
) -> None:
    stage = StreamStage(log_writer.bootstrap, topic_name, PARTITIONS)
    scene = CopyScene(log_writer, stage.group, (stage.source, stage.target), PARTITIONS)
    with scene.watched() as reader, per_partition(scene, consumers=MEMBERS, points=["offsets"]) as program:
        scene.write(2)
        scene.await_copied(reader)
        scene.write(1, hold=True)
        eventually(lambda: sum(line.startswith("at offsets") for line in program.said) == MEMBERS, within_s=120)
        program.signal(signal.SIGKILL)
        began_s = time.monotonic()
        told = adopt(scene, "--yes", "--remove-members")
        took_s = time.monotonic() - began_s
        assert sum(each["is_open"] for each in told["producers"]) == MEMBERS
        assert len(told["positions"]) == PARTITIONS
        assert took_s < 30  # a second or two by itself; who waits for the transactions to end waits for about a minute
        with closing(stage):
            stage.start()
            scene.await_copied(reader)
        verdict = scene.verdict(reader)
        assert verdict.is_clean, verdict
