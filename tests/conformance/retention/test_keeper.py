"""A leader's rounds against a real broker, and a config topic in memory: what stands between a look and a deletion."""

from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from fencepost.cluster.command import now_ms
from fencepost.kafka.admin.topics import Topic, Topics
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.record import TopicPartition as Place
from fencepost.retention import keeper, survey
from fencepost.storage import records
from fencepost.storage.change import TargetState, TopicRetention
from fencepost.testing import eventually
from support.log_writer import LogWriter
from support.retention_scene import RetentionStage


@pytest.fixture
def scene(log_writer: LogWriter) -> Iterator[RetentionStage]:
    made = RetentionStage(log_writer)
    made.await_certainty()
    yield made
    made.retention.stop()


def forget_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a topic that is gone count as gone for long enough."""
    monkeypatch.setattr(survey, "_FORGET_S", 0.0)


def test_records_committed_by_the_sink_are_given_up_before_they_are_deleted(scene: RetentionStage) -> None:
    began: list[int] = []
    scene.leader.before.append(lambda: began.append(scene.start))
    assert scene.round() is None
    assert (began, scene.start) == ([0], 8), scene.retention.info()
    assert scene.leader.snapshot.retention[scene.topic].deleted == {0: 8}


def test_e9_records_unread_by_a_stopped_sink_are_kept(scene: RetentionStage) -> None:
    scene.sink("b", 3)
    scene.leader.write(records.target_state(f"a-{scene.topic}", TargetState.STARTED))
    scene.round()
    assert scene.start == 3


def test_e9_records_are_kept_while_an_open_transaction_may_rewind_the_sink(scene: RetentionStage) -> None:
    producer = Producer({"bootstrap.servers": scene.bootstrap, "transactional.id": scene.topic})
    producer.init_transactions(30)
    reader = Consumer({"bootstrap.servers": scene.bootstrap, "group.id": f"connect-a-{scene.topic}"})
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(scene.topic, 0, 2)], reader.consumer_group_metadata(), 30)
    scene.round()
    assert scene.start == 0
    producer.commit_transaction(30)
    scene.round()
    assert scene.start in (0, 2)  # the markers may come a moment later
    reader.close()


def test_e9_nothing_is_deleted_while_a_foreign_group_reads_the_topic(scene: RetentionStage) -> None:
    group = GroupOffsets({"bootstrap.servers": scene.bootstrap}, f"outside-{scene.topic}")
    group.alter({Place(scene.topic, 0): 10})
    scene.round()
    assert scene.start == 0
    group.delete()
    scene.round()
    assert scene.start == 8


def test_e9_leader_deposed_during_its_decision_deletes_nothing(scene: RetentionStage) -> None:
    scene.leader.is_leading = False
    assert scene.round()
    assert (scene.start, scene.leader.snapshot.retention) == (0, {})


def test_e9_leader_deletes_nothing_when_another_leader_has_decided_first(scene: RetentionStage) -> None:
    assert scene.round() is None
    scene.commit("a", 10)
    known = scene.leader.snapshot.retention[scene.topic]
    other = records.topic_retention(scene.topic, TopicRetention(known.topic_id, {0: 9}))
    scene.leader.before.append(lambda: scene.leader.write(other))
    assert "Another leader has decided" in str(scene.round())
    assert scene.start == 8


def test_e9_survey_from_before_another_leaders_term_gives_up_nothing(scene: RetentionStage) -> None:
    def lead_again() -> None:
        scene.leader.term = object()
        scene.commit("a", 2)  # by the leader of the term in between: the config topic knows nothing of it

    scene.leader.before.append(lead_again)
    assert "may have been leader" in str(scene.round())
    assert scene.start == 0
    assert scene.round() is None
    assert scene.start == 2


def test_e9_sink_created_during_a_decision_loses_no_records(scene: RetentionStage) -> None:
    scene.leader.before.append(lambda: (scene.sink("late"), None)[1])
    assert "Connectors have changed" in str(scene.round())
    assert scene.round() is None
    assert scene.start == 0


def test_e9_topic_recreated_during_a_decision_loses_no_records(scene: RetentionStage) -> None:
    def come_again() -> None:
        scene.writer.recreate(scene.topic)
        scene.writer.send(scene.topic, [str(n) for n in range(10)])

    scene.leader.before.append(come_again)
    scene.round()
    assert scene.start == 0


def test_e9_deletion_from_an_old_survey_is_left_to_the_next_round(
    scene: RetentionStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slow:
        slow.setattr(keeper, "_OLDEST_LOOK_S", -1.0)
        assert "too long" in str(scene.round())
        assert scene.start == 0
    assert scene.round() is None
    assert scene.start == 8


def test_facts_about_a_deleted_topic_are_forgotten_after_a_while(
    scene: RetentionStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scene.round() is None
    scene.delete_topic()
    for _ in range(3):
        assert scene.round() is None
    assert scene.topic in scene.leader.snapshot.retention
    forget_at_once(monkeypatch)
    eventually(lambda: scene.round() or scene.topic not in scene.leader.snapshot.retention)


def test_facts_about_a_topic_are_forgotten_once_no_group_has_offsets_there(
    scene: RetentionStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_at_once(monkeypatch)
    assert scene.round() is None
    scene.leader.write(records.connector_removed(f"a-{scene.topic}"))
    for _ in range(3):
        assert scene.round() is None
    assert scene.topic in scene.leader.snapshot.retention
    group = GroupOffsets({"bootstrap.servers": scene.bootstrap}, f"connect-a-{scene.topic}")
    scene.writer.recreate(scene.topic)
    scene.writer.send(scene.topic, ["0", "1"])
    eventually(lambda: not group.read(), within_s=60)  # with the older topic go offsets of its name, a moment later
    scene.commit("a", 1)
    for _ in range(3):
        assert scene.round() is None
    assert scene.topic in scene.leader.snapshot.retention
    group.delete()
    eventually(lambda: scene.round() or scene.topic not in scene.leader.snapshot.retention)


def test_failed_request_is_no_sign_that_a_topic_was_deleted(
    scene: RetentionStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_at_once(monkeypatch)
    assert scene.round() is None
    scene.delete_topic()
    known = Topics.get_all
    with monkeypatch.context() as silent:

        def ask(topics: Topics, names: Collection[str], *, timeout_s: float | None = None) -> dict[str, Topic]:
            if scene.topic in names:
                raise KafkaUnavailableError("No answer")
            return known(topics, names, timeout_s=timeout_s)

        silent.setattr(Topics, "get_all", ask)
        for _ in range(3):
            assert scene.round() in (None, "No answer")  # the latter where the group's offsets are still there
        assert scene.topic in scene.leader.snapshot.retention
    eventually(lambda: scene.round() or scene.topic not in scene.leader.snapshot.retention)


def test_facts_written_by_another_leader_meanwhile_are_not_forgotten(
    scene: RetentionStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_at_once(monkeypatch)
    assert scene.round() is None
    other = TopicRetention("another", {0: 9})
    scene.delete_topic()

    def fail() -> bool:
        scene.leader.before[:] = [lambda: scene.leader.write(records.topic_retention(scene.topic, other))]
        return "Another leader has decided" in str(scene.round())

    eventually(fail)
    assert scene.leader.snapshot.retention == {scene.topic: other}


def test_only_one_round_runs_at_a_time(scene: RetentionStage) -> None:
    """The KIP: no outstanding record deletion requests for this worker."""
    with ThreadPoolExecutor(2) as pool:
        others: list[Future[object]] = []

        def ask_for_more() -> None:
            others.extend([pool.submit(scene.retention.round), pool.submit(scene.retention.preview)])
            assert wait(others, timeout=0.3).done == set()

        scene.leader.before.append(ask_for_more)
        assert scene.round() is None
        for each in others:
            each.result(60)
    assert len(others) == 2
    assert scene.start == 8
    assert scene.retention.info().topics[0].deleted == 8


def test_unreachable_broker_is_reported_and_nothing_is_deleted(
    log_writer: LogWriter,
) -> None:
    scene = RetentionStage(log_writer, {"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.5)
    assert "127.0.0.1:1" in str(scene.round())
    assert scene.retention.preview().error
    assert scene.start == 0
    scene.retention.stop()


def test_configured_number_of_records_is_kept_below_the_sinks_offset(log_writer: LogWriter) -> None:
    scene = RetentionStage(log_writer, {"delete.committed.keep.records": "3"})
    assert scene.round() is None
    assert scene.start == 5
    scene.retention.stop()


def test_records_are_kept_until_they_have_the_configured_age(
    log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = RetentionStage(log_writer, {"delete.committed.keep.ms": "3600000"})
    assert scene.round() is None
    assert scene.start == 0
    assert scene.retention.info().topics[0].partitions[0].held_by == "delete.committed.keep.ms"
    later_ms = now_ms() + 7_200_000
    monkeypatch.setattr(survey, "now_ms", lambda: later_ms)
    assert scene.round() is None
    assert scene.start == 8
    scene.retention.stop()
