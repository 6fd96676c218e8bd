"""A stream task starts only if it has looked for producers that may still change its positions (E20)."""

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError

from fencepost.kafka.errors import AnswerError, KafkaUnavailableError, request_failure
from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.record import TopicPartition
from fencepost.transaction.input_fence import InputFence
from fencepost.transaction.stable_positions import StablePositions

CONF = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
PLACES = (TopicPartition("t", 0),)


def positions(monkeypatch: pytest.MonkeyPatch, code: int, refused: str) -> StablePositions:
    """Return positions of a group without offsets. Kafka refuses, with this code, what the method `refused` asks."""

    def ask(self: InputFence, *_: Any, **named: Any) -> list[Any]:
        return []

    def refuse(self: InputFence, *_: Any, **named: Any) -> list[Any]:
        raise request_failure(AnswerError(code, "SaslAuthenticate"), "reading __consumer_offsets", "a:1")

    def committed(self: GroupSurvey, *_: Any) -> Mapping[TopicPartition, Any]:
        return {}

    for name in ("clear", "clear_holders"):
        monkeypatch.setattr(InputFence, name, refuse if name == refused else ask)
    monkeypatch.setattr(GroupSurvey, "committed", committed)
    return StablePositions(CONF, CONF)


@pytest.mark.parametrize("refused", ["clear", "clear_holders"])
def test_e20_task_without_permission_to_read_the_log_relies_on_metadata(
    monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    assert positions(monkeypatch, KafkaError.TOPIC_AUTHORIZATION_FAILED, refused).read(PLACES) == {}


@pytest.mark.parametrize("code", [KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION])
@pytest.mark.parametrize("refused", ["clear", "clear_holders"])
def test_e20_a_failed_authentication_is_not_a_missing_permission(
    monkeypatch: pytest.MonkeyPatch, refused: str, code: int
) -> None:
    """The next request may be accepted, and then the task would start with nobody fenced. So the start is repeated."""
    with pytest.raises(KafkaUnavailableError, match=r"SaslAuthenticate.* If this persists, correct them"):
        positions(monkeypatch, code, refused).read(PLACES)
