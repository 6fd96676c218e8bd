"""Instances of an old program and ours in one group: partitions move from the ones to the others, and back (E20)."""

import signal
from collections.abc import Iterator, Sequence

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.group.group_admin import remove_members
from fencepost.testing import eventually
from support.log_writer import LogWriter
from support.old_style.per_partition import POINTS
from support.old_style.running import OldProgram
from support.old_style.scene import CopyScene
from support.stream_stage import StreamStage


@pytest.fixture
def stage(kafka: EmbeddedKafka, topic_name: str) -> Iterator[StreamStage]:
    made = StreamStage(kafka.bootstrap_servers, topic_name, len(POINTS))
    yield made
    made.close()


@pytest.fixture
def scene(kafka: EmbeddedKafka, stage: StreamStage) -> Iterator[CopyScene]:
    writer = LogWriter(kafka.bootstrap_servers)
    yield CopyScene(writer, stage.group, (stage.source, stage.target), len(POINTS))
    writer.close()


def old(scene: CopyScene, consumers: int, points: Sequence[str] = POINTS) -> OldProgram:
    return OldProgram.per_partition(scene.bootstrap, scene.group, scene.topics, consumers, points)


def wake_up(program: OldProgram) -> None:
    """Let a program that was paused go on in the middle of its transactions, until it is refused all of them."""
    program.signal(signal.SIGCONT)
    program.go()
    program.await_said("ended")


def take_out(stage: StreamStage) -> None:
    """End the sessions of members whose program does not live any more."""
    members = [each.member_id for each in stage.admin.groups.describe(stage.group).members]
    remove_members({"bootstrap.servers": stage.bootstrap}, stage.group, members, 30)


def shares(stage: StreamStage) -> bool:
    """Say whether ours has some of the partitions, and others have others."""
    members = stage.admin.groups.describe(stage.group).members
    having = {each.client_id == f"{stage.name}-0" for each in members if each.topic_partitions}
    return having == {True, False}


def test_e20_partitions_move_from_and_to_old_instances_without_duplicates(stage: StreamStage, scene: CopyScene) -> None:
    with scene.watched() as reader, old(scene, 2, ()):
        for _ in range(2):
            scene.write(50)
            run = stage.start()
            eventually(lambda: shares(stage), within_s=60)
            scene.write(50)
            scene.await_copied(reader)
            scene.write(50)
            run.stop()
        scene.await_copied(reader)
        verdict = scene.verdict(reader)
        assert verdict.is_clean, verdict


def test_e20_partition_moves_during_a_transaction_that_is_never_ended(stage: StreamStage, scene: CopyScene) -> None:
    with scene.watched() as reader, old(scene, len(POINTS)) as program:
        scene.hold(program, reader)
        program.signal(signal.SIGSTOP)
        run = stage.start()
        scene.await_copied(reader)
        assert run.runner.counters.producers_fenced == len(POINTS)
        wake_up(program)
        verdict = scene.verdict(reader)
        assert verdict.is_clean, verdict


def test_e20_old_instance_that_comes_back_is_fenced(stage: StreamStage, scene: CopyScene) -> None:
    with scene.watched() as reader:
        scene.write(5)
        with old(scene, 1, ()):
            scene.await_copied(reader)
        take_out(stage)
        scene.write(5)
        first = stage.start()
        scene.await_copied(reader)  # all that the group stands at is ours now
        first.stop()
        with old(scene, len(POINTS), ("begun", "produced")) as program:  # the broker knows of no offsets yet
            scene.write(5, hold=True)
            scene.await_held(program)
            program.signal(signal.SIGSTOP)
            take_out(stage)
            stage.start()
            scene.await_copied(reader)
            wake_up(program)
        verdict = scene.verdict(reader)
        assert verdict.is_clean, verdict
