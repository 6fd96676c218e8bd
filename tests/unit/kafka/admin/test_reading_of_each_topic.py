"""What is read of several topics at once is asked for again while one of them is only unavailable."""

from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import KafkaError
from kafka.protocol.admin import DescribeConfigsResponse
from kafka.protocol.metadata import MetadataResponse

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import AnswerError, KafkaUnavailableError
from fencepost.kafka.wire.cluster import Cluster


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what a cluster answers to one request after the other: the last answer to all further ones."""
    given: list[Any] = []

    def ask(*_: object, **__: object) -> Any:
        answer = given.pop(0) if len(given) > 1 else given[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Cluster, "ask", ask)
    return given


def admin(timeout_s: float = 30.0) -> Admin:
    return Admin({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=timeout_s)


def described(**codes: int) -> MetadataResponse:
    """Return the metadata of topics with these error codes."""
    of_topic = MetadataResponse.MetadataResponseTopic
    partition = of_topic.MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=1)
    topics = [
        of_topic(error_code=code, name=name, topic_id=UUID(int=1), partitions=[partition])
        for name, code in codes.items()
    ]
    return MetadataResponse(brokers=[], topics=topics)


def configured(**codes: int) -> DescribeConfigsResponse:
    """Return the configs of topics with these error codes."""
    of_topic = DescribeConfigsResponse.DescribeConfigsResult
    results = [
        of_topic(error_code=code, error_message=None, resource_type=2, resource_name=name, configs=[])
        for name, code in codes.items()
    ]
    return DescribeConfigsResponse(results=results)


@pytest.mark.parametrize(
    "passing",
    [
        described(a=0, b=KafkaError.LEADER_NOT_AVAILABLE),
        AnswerError(KafkaError.LEADER_NOT_AVAILABLE, "leaders of b are out of date"),
    ],
)
def test_topics_are_described_again_while_one_is_unavailable(answers: list[Any], passing: Any) -> None:
    answers += [passing, described(a=0, b=0, c=KafkaError.TOPIC_AUTHORIZATION_FAILED, d=3)]
    seen, refused = admin().topics.look_at(["a", "b", "c", "d"])
    assert seen.keys() == {"a", "b"}
    assert refused.keys() == {"c"}


def test_configs_are_read_again_while_those_of_one_topic_are_unavailable(answers: list[Any]) -> None:
    answers += [configured(a=0, b=KafkaError.NOT_CONTROLLER), configured(a=0, b=0, c=3)]
    found, refused = admin().configs.settings(["a", "b", "c"])
    assert found.keys() == {"a", "b"}
    assert refused.keys() == {"c"}


def test_a_topic_that_stays_unavailable_is_an_error_once_the_time_is_up(answers: list[Any]) -> None:
    answers += [described(a=0, b=KafkaError.LEADER_NOT_AVAILABLE)]
    with pytest.raises(KafkaUnavailableError, match="describing topic b"):
        admin(timeout_s=0.2).topics.look_at(["a", "b"])
