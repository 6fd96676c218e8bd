"""Taking a static member out of its group: the client library never does, whatever happens to the member."""

from collections.abc import Mapping
from typing import Any

from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.kafka_python import kafka_python_conf


def remove_static_member(conf: Mapping[str, Any], group_id: str, instance_id: str, timeout_s: float) -> None:
    """Make the coordinator give away at once what the member has, instead of after its session time-out.

    Raises KafkaUnavailableError where that did not come about, for whatever reason.
    """
    from kafka.admin import KafkaAdminClient, MemberToRemove
    from kafka.errors import KafkaError

    timeout_ms = int(timeout_s * 1000)
    arguments = kafka_python_conf(conf) | {"request_timeout_ms": timeout_ms, "bootstrap_timeout_ms": timeout_ms}
    try:
        client = KafkaAdminClient(**arguments)
        try:
            client.remove_group_members(group_id, [MemberToRemove(group_instance_id=instance_id)])
        finally:
            client.close()
    except KafkaError as error:
        raise KafkaUnavailableError(f"member {instance_id} could not leave group {group_id}: {error}") from error
