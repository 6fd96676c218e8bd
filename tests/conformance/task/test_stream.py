"""Stream tasks on the real broker: what is read is written once, with the offsets that cover it."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.api import SinkBatch
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.leave import MemberRemoval
from fencepost.testing import eventually
from support.stream_stage import StreamStage


@pytest.fixture
def stage(kafka: EmbeddedKafka, topic_name: str) -> Iterator[StreamStage]:
    made = StreamStage(kafka.bootstrap_servers, topic_name)
    yield made
    made.close()


def test_what_is_read_is_written_once_and_its_offsets_are_the_groups(stage: StreamStage) -> None:
    stage.produce(range(1_000))
    run = stage.start()
    assert stage.await_values(1_000) == [str(n) for n in range(1_000)]
    stage.produce(range(1_000, 1_010))
    assert stage.await_values(1_010)[1_000:] == [str(n) for n in range(1_000, 1_010)]
    eventually(lambda: stage.offsets() == {0: 1_010})
    run.stop()
    assert run.states == ["RUNNING", "STOPPED"]
    assert stage.offsets() == {0: 1_010}


def test_e19_a_member_whose_generation_is_over_commits_neither_output_nor_offsets(stage: StreamStage) -> None:
    """Its transactional id is another one than its successor's: nobody but the group can keep it out."""
    stage.produce(range(10))
    entered, may_go_on = threading.Event(), threading.Event()
    calls: list[int] = []

    def process(task: Any, batch: SinkBatch) -> SinkBatch:
        calls.append(len(batch))
        if len(calls) == 1:
            entered.set()
            assert may_go_on.wait(60)
        return batch.to(stage.target)

    stage.scripts[stage.name] = process
    zombie = stage.start(0)
    assert entered.wait(60)
    MemberRemoval(30).remove(zombie.runner.spec.consumer_conf, lambda: True)
    successor = stage.start(1)
    assert stage.await_values(10) == [str(n) for n in range(10)]
    may_go_on.set()
    eventually(lambda: zombie.runner.counters.commit_failures == 1, within_s=60)
    zombie.stop()
    successor.stop()
    assert stage.values() == [str(n) for n in range(10)]
    assert stage.offsets() == {0: 10}
