"""E20: a stream's task begins when nobody else may move its positions any more, and says who might have."""

from collections.abc import Iterator

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.group.group_offsets import contribution_of
from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.kafka.group.memberless import memberless, read_stable
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from fencepost.transaction import CommitUnknownError, TransactionalWriter, WriterFencedError
from support.stream_stage import StreamStage


@pytest.fixture
def stage(kafka: EmbeddedKafka, topic_name: str) -> Iterator[StreamStage]:
    made = StreamStage(kafka.bootstrap_servers, topic_name)
    yield made
    made.close()


@pytest.fixture
def old(kafka: EmbeddedKafka, stage: StreamStage) -> Iterator[TransactionalWriter]:
    """The producer for partition 0 of a program that has processed the group so far."""
    eventually(lambda: stage.offsets() == {})  # a new broker's coordinator of groups: librdkafka waits for it for ever
    id_ = f"old-{stage.name}-0"
    writer = TransactionalWriter(transactional_conf({"bootstrap.servers": kafka.bootstrap_servers}, id_).conf, id_)
    writer.open()
    read_stable({"bootstrap.servers": kafka.bootstrap_servers}, stage.group, 60)  # which makes a new broker coordinate
    yield writer
    writer.close()


def begin(stage: StreamStage, writer: TransactionalWriter, offset: int) -> None:
    """Do what the program does, up to the commit."""
    writer.send(stage.target, b"old %d" % offset)
    writer.flush()
    writer.send_group_offsets([GroupOffset(stage.source, 0, offset)], memberless(stage.group))


@pytest.mark.parametrize("has_committed", [True, False])
def test_e20_stream_task_fences_the_old_producer_of_its_input_and_logs_it(
    stage: StreamStage, old: TransactionalWriter, has_committed: bool
) -> None:
    stage.produce(range(10))
    if has_committed:
        begin(stage, old, 4)
        old.commit()
    begin(stage, old, 7)
    run = stage.start()
    expected = (["old 4", *map(str, range(4, 10))]) if has_committed else [str(n) for n in range(10)]
    assert stage.await_values(len(expected)) == expected
    assert run.runner.counters.producers_fenced == 1
    told = next(report for report in run.reports if report.trace)
    assert told.state.value == "RUNNING"
    assert f"{old.transactional_id} (producer" in str(told.trace)
    assert f"{stage.source}-0" in str(told.trace)
    with pytest.raises((WriterFencedError, CommitUnknownError)):
        old.commit()
    run.stop()
    assert stage.values() == expected
    assert stage.offsets() == {0: 10}


def test_e20_offsets_of_a_stream_task_name_its_producer(stage: StreamStage) -> None:
    stage.produce(range(3))
    run = stage.start()
    stage.await_values(3)
    run.stop()
    place = TopicPartition(stage.source, 0)
    survey = GroupSurvey({"bootstrap.servers": stage.bootstrap, "group.id": stage.group}, timeout_s=30)
    named = eventually(lambda: contribution_of(survey.metadata(stage.group, [place])[place]), within_s=60)
    survey.close()
    assert named is not None
    assert named.transactional_id == run.runner.spec.output.transactional_id
    assert (named.producer_id >= 0, named.producer_epoch >= 0) == (True, True)
    again = stage.start(1)
    stage.produce([3])
    assert stage.await_values(4) == ["0", "1", "2", "3"]
    assert again.runner.counters.producers_fenced == 0
