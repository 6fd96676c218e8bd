"""Each sentence of KIP-762's list of conditions; what sinks have committed, in whatever state they are; and logs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from retention_stage import Stage

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.topics import INTERNAL_TOPICS
from fencepost.storage import records
from fencepost.storage.change import TopicRetention
from fencepost.testing import eventually
from support.cluster import LightWorker
from support.log_writer import LogWriter

# The KIP's sentences


def test_the_topic_must_be_processed_by_some_sink(stage: Stage) -> None:
    topic = stage.topic(9)
    stage.refused(topic, "no sink connector reads it")
    stage.sink(topic, 9)
    stage.await_starts(topic, 9)


def test_the_topic_must_be_matched_by_delete_committed_topics(stage: Stage) -> None:
    meant = stage.topic(9)
    others = [stage.topic(9, name=name) for name in (f"not-{meant}", meant.replace("emptied", "Emptied"))]
    for topic in (meant, *others):
        stage.sink(topic, 9)
    stage.await_starts(meant, 9)
    for topic in others:
        assert stage.starts(topic) == [0]
        answer = stage.worker.rest.get(f"/retention/{topic}")
        assert answer.status_code == 404
        assert "no pattern of delete.committed.topics matches it" in answer.json()["message"]


def test_the_worker_must_be_the_only_consumer_group_subscribing_to_the_topic(stage: Stage) -> None:
    topic, group = stage.topic(9), "outside-only"
    with stage.member(group, topic):
        stage.sink(topic, 9)
        stage.refused(topic, f"group {group}")
    stage.await_starts(topic, 9)


def test_the_worker_logs_a_warning_when_it_discovers_another_group(stage: Stage) -> None:
    topic = stage.topic(9)
    stage.set_offsets("outside-warned", topic, 9)
    stage.sink(topic, 9)
    stage.refused(topic, "outside-warned")
    warnings = [line for line in stage.worker.log_text().splitlines() if f"retention: topic {topic}" in line]
    assert len(warnings) == 1, warnings
    assert "is not emptied" in warnings[0]
    assert "outside-warned" in warnings[0]
    stage.forget("outside-warned")


def test_consumer_groups_are_checked_in_every_round(stage: Stage) -> None:
    """The KIP looks again only when the active topics are reset."""
    topic, group = stage.topic(9), "outside-later"
    sink = stage.sink(topic, 3)
    stage.await_starts(topic, 3)
    stage.set_offsets(group, topic, 3)
    stage.refused(topic, group)
    stage.commit(sink, topic, 9)
    stage.refused(topic, group)
    stage.forget(group)
    stage.await_starts(topic, 9)


def test_each_deletion_is_requested_once(stage: Stage) -> None:
    topic = stage.topic(9, 4)
    sink = stage.sink(topic, 3, 4)
    stage.await_starts(topic, 3, 4)
    stage.commit(sink, topic, 9, 4)
    stage.await_starts(topic, 9, 4)
    told = stage.told(topic)
    assert (told["deleted"], told["refused"], told["error"]) == (13, None, None)
    assert told["last_deletion"]


def test_records_are_deleted_as_a_running_sink_flushes(stage: Stage) -> None:
    topic = stage.topic(9, 9)
    sink = stage.sink(topic, state="RUNNING")
    stage.await_starts(topic, 9, 9)
    stage.writer.send(topic, ["a", "b"], 1)
    stage.await_starts(topic, 9, 11)
    assert len((stage.directory / f"{sink}.txt").read_text().splitlines()) == 20


@pytest.fixture(scope="module")
def unasked(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LightWorker]:
    """Another cluster's worker, of which nobody has asked to delete anything, while a pattern takes every topic."""
    directory = tmp_path_factory.mktemp("unasked")
    given = {"delete.committed.topics": ".*", "offset.flush.interval.ms": "300"}
    with LightWorker(kafka.bootstrap_servers, directory, given, group="retention-unasked") as running:
        yield running


def test_the_feature_must_be_explicitly_enabled_and_a_preview_works_without(
    unasked: LightWorker, log_writer: LogWriter, tmp_path: Path
) -> None:
    stage = Stage(unasked, log_writer, "unasked", tmp_path)
    topic, other = stage.topic(9), stage.topic(9, cleanup_policy="compact")
    stage.sink(f"{topic},{other}", name="unasked")
    for each in (topic, other):
        stage.set_offsets("connect-unasked", each, 5)
    assert unasked.rest.get("/retention").json() == {
        "enabled": False, "decided": None, "error": None, "requests": 0, "topics": [],
    }  # fmt: skip

    def preview() -> dict[str, Any]:
        """Groups of other tests whose members still leave may be readers of any topic."""
        answer = unasked.rest.get("/retention", params={"dry": "true"}).json()
        assert answer["enabled"] is False
        told = {each["topic"]: each for each in answer["topics"]}
        assert told[topic]["refused"] is None, told[topic]
        return told

    told = eventually(preview)
    assert told[topic]["partitions"][0]["until"] == 5
    assert "cleanup.policy is compact" in told[other]["refused"]
    of_worker = [f"retention-unasked-{kind}" for kind in ("configs", "offsets", "status")]
    assert {told[name]["refused"] for name in of_worker} == {"it is an internal topic"}
    assert not told.keys() & INTERNAL_TOPICS
    one = unasked.rest.get(f"/retention/{topic}", params={"dry": "true"}).json()
    assert one["partitions"][0]["until"] == 5
    assert stage.starts(topic) == [0]
    stage.clear()


# Sinks, in whatever state they are


def test_deletion_follows_the_slower_of_two_sinks(stage: Stage) -> None:
    topic = stage.topic(9)
    slow, fast = stage.sink(topic, 4), stage.sink(topic, 9)  # else it may be emptied for the fast one alone
    stage.await_starts(topic, 4)
    assert stage.held(topic) == f"sink connector {slow}, which has committed 4"
    stage.commit(slow, topic, 6)
    stage.await_starts(topic, 6)
    stage.delete_sink(fast)
    stage.forget(f"connect-{fast}")
    stage.commit(slow, topic, 9)
    stage.await_starts(topic, 9)


def test_a_new_sink_keeps_all_records_because_it_may_begin_at_the_earliest(stage: Stage) -> None:
    topic = stage.topic(9, 9)
    stage.sink(topic, 9, 9)
    stage.await_starts(topic, 9, 9)
    late = stage.sink("", topics__regex=f"{topic[:-1]}.")
    stage.writer.send(topic, ["a", "b"])
    stage.rounds()
    assert stage.starts(topic) == [9, 9]
    assert stage.held(topic) == f"sink connector {late} has committed nothing there yet"
    stage.commit(late, topic, 10)
    stage.rounds()
    assert stage.starts(topic) == [9, 9]  # the other sink has not committed what is new
    assert "which has committed 9" in stage.held(topic)


@pytest.mark.parametrize("state", ["paused", "stopped", "failed"])
def test_a_sink_that_does_not_run_holds_deletion(stage: Stage, state: str) -> None:
    topic = stage.topic(9)
    fast = stage.sink(topic)
    broken = {"file": "/nowhere/at/all"} if state == "failed" else {}
    idle = stage.sink(topic, state="RUNNING", **broken)
    if state == "failed":
        stage.worker.wait_for_tasks(idle, "FAILED")
        stage.commit(idle, topic, 9)
    eventually(lambda: stage.worker.rest.get(f"/connectors/{idle}/offsets").json()["offsets"], within_s=60)
    if state == "paused":
        stage.worker.rest.put(f"/connectors/{idle}/pause")
        stage.worker.wait_for_tasks(idle, "PAUSED")
    elif state == "stopped":
        stage.stop_sink(idle)
    stage.writer.send(topic, ["a", "b"])
    stage.commit(fast, topic, 11)
    stage.await_starts(topic, 9)
    assert stage.held(topic) == f"sink connector {idle}, which has committed 9"


def test_a_sink_with_a_group_name_of_its_own_holds_deletion_and_is_not_foreign(stage: Stage) -> None:
    topic = stage.topic(9)
    own = stage.sink(topic, 2, consumer__override__group__id="a-group-of-its-own")
    stage.sink(topic, 9)
    stage.await_starts(topic, 2)
    assert stage.held(topic) == f"sink connector {own}, which has committed 2"


def test_group_of_a_sink_is_foreign_to_topics_that_the_sink_does_not_read(stage: Stage) -> None:
    topic, elsewhere = stage.topic(9), stage.topic(9)
    stage.sink(elsewhere, 9, consumer__override__group__id="shared")
    stage.set_offsets("shared", topic, 1)
    stage.sink(topic, 9)
    stage.refused(topic, "group shared")
    stage.await_starts(elsewhere, 9)


def test_a_sink_with_dead_letters_on_another_cluster_holds_deletion(stage: Stage) -> None:
    topic = stage.topic(9)
    stage.sink(topic, 2, admin__override__bootstrap__servers="127.0.0.1:1")
    stage.sink(topic, 9)
    stage.await_starts(topic, 2)


def test_unreadable_offsets_of_a_sink_stop_deletion_and_are_reported(stage: Stage) -> None:
    topic, other = stage.topic(9), stage.topic(9)
    stage.sink(topic, 9)
    trust = {
        "admin__override__ssl__truststore__certificates": "of nobody",
        "admin__override__ssl__truststore__type": "PEM",
    }
    blind = stage.sink(topic, admin__override__security__protocol="SSL", **trust)
    stage.sink(other, 9)
    stage.refused(topic, f"the offsets of sink connector {blind} (group connect-{blind}) cannot be read")
    stage.await_starts(other, 9)


# Offsets that are moved


def test_an_offset_below_deleted_records_is_refused(stage: Stage) -> None:
    topic = stage.topic(9)
    sink = stage.sink(topic, 5)
    stage.await_starts(topic, 5)
    code, message = stage.alter(sink, topic, 4)
    assert (code, "its log, which begins at 5 and ends at 9" in message) == (400, True), message
    assert stage.alter(sink, topic, 5)[0] == 200


def test_an_offset_below_a_decided_deletion_is_refused(stage: Stage) -> None:
    topic = stage.topic(9, name=f"given-up-{stage.prefix}")
    sink = stage.sink(topic, 9)
    described = stage.writer.admin.topics.get(topic)
    assert described is not None
    key, value = records.topic_retention(topic, TopicRetention(described.id, {0: 7}))
    stage.writer.plain.produce(stage.worker.properties["config.storage.topic"], value, key=key, partition=0)
    stage.writer.plain.flush(30)
    code, message = stage.alter(sink, topic, 6)
    assert (code, "its log, which begins at 7 and ends at 9" in message) == (400, True), message
    assert stage.alter(sink, topic, 7)[0] == 200


def test_deletion_ends_at_an_offset_that_was_moved_back(stage: Stage) -> None:
    topic = stage.topic(9)
    held, ahead = stage.sink(topic), stage.sink(topic, 9)  # in this order, or a round between them empties the topic
    eventually(lambda: stage.alter(ahead, topic, 3)[0] == 200)  # once it has stopped
    stage.commit(held, topic, 9)
    stage.await_starts(topic, 3)


def test_answer_to_a_reset_names_topics_with_deleted_records(stage: Stage) -> None:
    topic, untouched = stage.topic(9), stage.topic(9)
    sink, other = stage.sink(topic, 5), stage.sink(untouched)
    stage.await_starts(topic, 5)
    said = [stage.worker.rest.delete(f"/connectors/{name}/offsets").json()["message"] for name in (sink, other)]
    assert f"What was deleted from {topic} because all sinks had committed it" in said[0]
    assert "is not delivered again" in said[0]
    assert "delivered again" not in said[1]
    stage.rounds()
    assert stage.starts(topic) == [5]
    assert stage.held(topic) == f"sink connector {sink} has committed nothing there yet"


def test_a_commit_that_an_open_transaction_may_lower_does_not_count(stage: Stage) -> None:
    topic = stage.topic(9, 9)
    holding, moving = stage.sink(topic), stage.sink(topic, 8, 8)
    producer = Producer({"bootstrap.servers": stage.writer.bootstrap, "transactional.id": f"lower-{topic}"})
    producer.init_transactions(30)
    reader = Consumer({"bootstrap.servers": stage.writer.bootstrap, "group.id": f"connect-{moving}"})
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 3)], reader.consumer_group_metadata(), 30)
    stage.rounds()  # one that had begun before may know the commit as it was
    stage.commit(holding, topic, 9, 9)
    stage.rounds()
    assert stage.starts(topic)[0] == 0
    assert stage.held(topic) == f"sink connector {moving} has an offset there in a transaction that has not ended"
    producer.commit_transaction(30)
    stage.await_starts(topic, 3, 8)
    reader.close()


# The log


def test_no_record_is_deleted_from_an_open_transaction_onwards(stage: Stage) -> None:
    topic = stage.topic(5)
    with stage.writer.transaction() as producer:
        producer.produce(topic, "open", partition=0)
        producer.flush(30)
        stage.writer.send(topic, ["behind"])
        stage.sink(topic, 7)
        stage.await_starts(topic, 5)
        assert stage.held(topic) == "an open transaction"
    eventually(lambda: stage.starts(topic) == [7], within_s=60)


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_is_left_alone(stage: Stage, policy: str) -> None:
    topic = stage.topic(9, cleanup_policy=policy)
    stage.sink(topic, 9)
    stage.refused(topic, "its cleanup.policy is ", "compact", "records are deleted only from topics with delete alone")


def test_nothing_is_deleted_from_a_recreated_topic_by_former_commits(stage: Stage) -> None:
    topic = stage.topic(9)
    sink = stage.sink(topic, 5)
    stage.await_starts(topic, 5)
    stage.writer.recreate(topic)
    stage.writer.send(topic, [str(n) for n in range(12)])
    stage.rounds()
    assert stage.starts(topic) == [0]
    assert stage.alter(sink, topic, 2)[0] == 200
    stage.await_starts(topic, 2)


def test_deletion_waits_for_a_commit_of_added_partitions(stage: Stage) -> None:
    topic = stage.topic(9)
    sink = stage.sink(topic, 5)
    stage.await_starts(topic, 5)
    stage.grow(topic, 2)
    stage.writer.send(topic, ["a", "b"], 1)
    stage.rounds()
    assert stage.starts(topic) == [5, 0]
    stage.commit(sink, topic, 9, 2)
    stage.await_starts(topic, 9, 2)


def test_a_round_without_new_commits_writes_nothing(stage: Stage) -> None:
    topic = stage.topic(9)
    stage.sink(topic, 5)
    stage.await_starts(topic, 5)
    configs = (stage.worker.properties["config.storage.topic"], 0)
    ends = stage.writer.admin.offsets.ends([configs], read_committed=False)
    stage.rounds()
    assert stage.writer.admin.offsets.ends([configs], read_committed=False) == ends
    assert stage.starts(topic) == [5]
