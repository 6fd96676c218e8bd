"""Taking a static member out of its group: the client library never does, whatever happens to the member."""

from collections.abc import Mapping
from typing import Any

from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.kafka_python import kafka_python_conf


def remove_static_member(
    conf: Mapping[str, Any], group_id: str, instance_id: str, timeout_s: float, *, member_id: str | None = None
) -> None:
    """Make the coordinator give away at once what the member has, instead of after its session time-out.

    `member_id` names one membership: whoever has joined under `instance_id` since then stays. Returns also where the
    member is no more. Raises KafkaUnavailableError where its leave did not come about, for whatever reason.
    """
    from kafka.admin import KafkaAdminClient, MemberToRemove
    from kafka.errors import FencedInstanceIdError, KafkaError, NoError, UnknownMemberIdError

    timeout_ms = int(timeout_s * 1000)
    arguments = kafka_python_conf(conf) | {"request_timeout_ms": timeout_ms, "bootstrap_timeout_ms": timeout_ms}
    failed = f"member {instance_id} could not leave group {group_id}"
    try:
        client = KafkaAdminClient(**arguments)
        try:
            leaving = MemberToRemove(member_id=member_id, group_instance_id=instance_id)
            answers = client.remove_group_members(group_id, [leaving])
        finally:
            client.close()
    except KafkaError as error:
        raise KafkaUnavailableError(f"{failed}: {error}") from error
    for answer in answers.values():
        if answer not in (NoError, UnknownMemberIdError, FencedInstanceIdError):
            raise KafkaUnavailableError(f"{failed}: {answer.__name__}")
