"""What a coordinator's answer says of a group: one that it refuses is none without members."""

import pytest
from confluent_kafka import KafkaError
from kafka.protocol.admin import DescribeGroupsResponse

from fencepost.kafka.errors import AnswerError, KafkaAuthorizationError, KafkaUnavailableError, request_failure
from fencepost.kafka.group.group_admin import Group, group_of


def answer(code: int, version: int) -> DescribeGroupsResponse:
    """Return an answer, from its bytes."""
    group = DescribeGroupsResponse.DescribedGroup(
        error_code=code,
        error_message=None,
        group_id="g",
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )
    made = DescribeGroupsResponse(throttle_time_ms=0, groups=[group])
    return DescribeGroupsResponse.decode(made.encode(version=version), version=version)


@pytest.mark.parametrize("version", [5, 6])
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaUnavailableError),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaUnavailableError),
        (KafkaError.NOT_COORDINATOR, KafkaUnavailableError),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaAuthorizationError),
    ],
)
def test_a_group_that_is_refused_is_an_error(code: int, kind: type[Exception], version: int) -> None:
    with pytest.raises(AnswerError, match="group g") as refused:
        group_of(answer(code, version))
    assert isinstance(request_failure(refused.value, "asking", "a:1"), kind)


def test_a_group_that_does_not_exist_is_dead() -> None:
    assert group_of(answer(KafkaError.GROUP_ID_NOT_FOUND, 6)) == group_of(answer(0, 5)) == Group("g", "Dead", ())
