"""What a coordinator's answer says of a group: one that it refuses is none without members."""

import pytest
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    KafkaError,
    NotCoordinatorError,
)
from kafka.protocol.admin import DescribeGroupsResponse

from fencepost.kafka.group.group_admin import raise_refusal


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
    "refusal",
    [
        CoordinatorLoadInProgressError,
        CoordinatorNotAvailableError,
        GroupAuthorizationFailedError,
        GroupIdNotFoundError,
        NotCoordinatorError,
    ],
)
def test_a_group_that_is_refused_is_an_error(refusal: type[KafkaError], version: int) -> None:
    with pytest.raises(refusal, match="group g"):
        raise_refusal(answer(refusal.errno, version))


def test_a_group_without_members_is_none() -> None:
    raise_refusal(answer(0, 6))
