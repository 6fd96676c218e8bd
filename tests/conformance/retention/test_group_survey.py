"""Who reads which topics, asked of a real broker at moments at which groups change."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.errors import AnswerError, KafkaUnavailableError
from fencepost.kafka.group.group_admin import listed_groups
from fencepost.kafka.group.group_offsets import GroupOffsets, read_offsets
from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.kafka.group.subscription import GroupSubscription
from fencepost.kafka.wire.requests import RequestClient
from fencepost.record import TopicPartition as Place
from fencepost.testing import eventually
from support.log_writer import LogWriter


@pytest.fixture
def topic(kafka: EmbeddedKafka) -> Iterator[str]:
    writer = LogWriter(kafka.bootstrap_servers)
    name = writer.topic(f"read-{uuid.uuid4().hex[:8]}")
    writer.send(name, ["a", "b"])
    yield name
    writer.close()


@pytest.fixture
def survey(kafka: EmbeddedKafka) -> Iterator[GroupSurvey]:
    made = GroupSurvey({"bootstrap.servers": kafka.bootstrap_servers}, timeout_s=30)
    yield made
    made.close()


@contextmanager
def member(kafka: EmbeddedKafka, group: str, topic: str, protocol: str) -> Iterator[Consumer]:
    consumer = Consumer({
        "bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "group.protocol": protocol,
        "enable.auto.commit": False, "auto.offset.reset": "earliest",
    })  # fmt: skip
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.05) is not None)
    yield consumer
    consumer.close()


def of(found: list[GroupSubscription], group: str) -> GroupSubscription:
    return next(each for each in found if each.group == group)


def before(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None]) -> None:
    """Have something happen before a question is asked, once."""
    known, acts = getattr(GroupSurvey, name), [act]

    def ask(*arguments: Any) -> Any:
        while acts:
            acts.pop()()
        return known(*arguments)

    monkeypatch.setattr(GroupSurvey, name, ask)


@pytest.mark.parametrize(("protocol", "question"), [("classic", "_classic_members"), ("consumer", "_members")])
def test_survey_sees_the_offsets_that_a_leaving_member_commits(
    kafka: EmbeddedKafka, survey: GroupSurvey, topic: str, protocol: str, question: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    group = f"leaving-{topic}"
    with member(kafka, group, topic, protocol) as consumer:

        def leave() -> None:
            consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
            consumer.close()

        before(monkeypatch, question, leave)
        found = of(survey.look(), group)
    assert found.reads(topic)


@pytest.mark.parametrize(("protocol", "question"), [("classic", "_classic_members"), ("consumer", "_members")])
def test_survey_is_uncertain_about_a_group_deleted_during_it(
    kafka: EmbeddedKafka, survey: GroupSurvey, topic: str, protocol: str, question: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    group = f"ending-{topic}"
    with member(kafka, group, topic, protocol) as consumer:

        def end() -> None:
            consumer.close()
            GroupOffsets({"bootstrap.servers": kafka.bootstrap_servers}, group).delete()

        before(monkeypatch, question, end)
        found = of(survey.look(), group)
    assert "has just ended" in str(found.doubt)
    assert [each for each in survey.look() if each.group == group] == []


def test_survey_asks_by_name_for_a_known_group_that_is_not_listed(
    kafka: EmbeddedKafka, survey: GroupSurvey, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is while its coordinator moves: nobody lists it until the next one has read its log."""
    group = f"unlisted-{topic}"
    GroupOffsets({"bootstrap.servers": kafka.bootstrap_servers}, group).alter({Place(topic, 0): 1})
    assert of(survey.look(), group).reads(topic)
    listed, hidden = listed_groups, [True]

    def without(client: RequestClient) -> list[Any]:
        found = listed(client)
        return [each for each in found if each.group_id != group] if hidden and hidden.pop() else found

    monkeypatch.setattr("fencepost.kafka.group.group_survey.listed_groups", without)
    assert of(survey.look(), group).reads(topic)


def test_survey_fails_when_a_known_group_has_no_coordinator(
    kafka: EmbeddedKafka, survey: GroupSurvey, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey.look()
    survey.seen |= {f"away-{topic}"}

    def ask(client: RequestClient, groups: Any) -> Any:
        if set(groups) == {f"away-{topic}"}:
            raise AnswerError(KafkaError.COORDINATOR_NOT_AVAILABLE, "moving")
        return read_offsets(client, groups)

    monkeypatch.setattr("fencepost.kafka.group.group_survey.read_offsets", ask)
    with pytest.raises(KafkaUnavailableError):
        survey.look()


@pytest.mark.parametrize(
    ("pattern", "topic", "is_read"),
    [
        ("a.c", "abc", True),
        ("^a", "ba", False),
        ("b", "abc", True),
        ("(?z", "x", True),
        ("^[[:alpha:]]+$", "abc", True),
    ],
)
def test_invalid_subscription_pattern_counts_as_reading_every_topic(pattern: str, topic: str, is_read: bool) -> None:
    assert GroupSubscription("g", "consumer", patterns=(pattern,)).reads(topic) is is_read
