"""Removes members whose process is gone from their group, which would otherwise wait for their session time-out.

The client library never sends a leave request for a static member.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.group.group_admin import Group, GroupAdmin, can_ask
from fencepost.kafka.patience import patiently
from fencepost.kafka.wire.kafka_python import group_failure, kafka_python_admin

log = logging.getLogger(__name__)

_AGAIN_S = 0.25


def remove_static_member(
    conf: Mapping[str, Any], group_id: str, instance_id: str, timeout_s: float, *, member_id: str | None = None
) -> None:
    """Make the coordinator reassign the member's partitions at once, instead of after its session time-out.

    With `member_id`, only that membership is removed; a later one under the same `instance_id` stays. Returns normally
    if the member is already gone. Raises KafkaUnavailableError if the removal failed for any reason.
    """
    from kafka.admin import MemberToRemove
    from kafka.errors import FencedInstanceIdError, KafkaError, NoError, UnknownMemberIdError

    failed = f"member {instance_id} could not leave group {group_id}"
    try:
        client = kafka_python_admin(conf, timeout_s)
        try:
            leaving = MemberToRemove(member_id=member_id, group_instance_id=instance_id)
            answers = client.remove_group_members(group_id, [leaving])
        finally:
            client.close()
    except (KafkaError, OSError) as error:  # an OSError: no token could be fetched, for example
        raise KafkaUnavailableError(f"{failed}: {error}") from error
    for answer in answers.values():
        if answer not in (NoError, UnknownMemberIdError, FencedInstanceIdError):
            raise KafkaUnavailableError(f"{failed}: {answer.__name__}")


def remove_members(conf: Mapping[str, Any], group: str, members: Sequence[str], timeout_s: float) -> None:
    """Remove members from a group by their ids. Ids that are no longer members are ignored.

    Raises KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError.
    """
    from kafka.admin import MemberToRemove
    from kafka.errors import KafkaError, NoError, UnknownMemberIdError

    try:
        client = kafka_python_admin(conf, timeout_s)
        try:
            answers = client.remove_group_members(group, [MemberToRemove(member_id=each) for each in members])
        finally:
            client.close()
        for answer in answers.values():
            if answer not in (NoError, UnknownMemberIdError):
                raise answer
    except (KafkaError, OSError) as error:
        raise group_failure(error, f"removing members of group {group}", conf) from error


@dataclass
class _Shared:
    admin: GroupAdmin
    users: int = 0


class MemberRemoval:
    """Removes members from their group by client id. For any thread; blocks until the broker answers.

    Concurrent calls for one group share a connection and its results, because a thousand tasks may start together.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._shared: dict[tuple[object, ...], _Shared] = {}

    def remove(self, conf: Mapping[str, Any], is_due: Callable[[], bool]) -> None:
        """Remove the members of the group of `conf` that have its client id, if `is_due()` once they are known.

        The coordinator refuses all later commits of a removed member. Members of groups with the newer protocol
        (KIP-848) are not found. If Kafka refuses or does not answer, the members stay until their session time-out,
        and that is logged.
        """
        group, client_id = str(conf["group.id"]), conf["client.id"]
        if not can_ask(conf):
            return
        try:
            found = [m.member_id for m in self._described(group, conf).members if m.client_id == client_id]
            if found and is_due():
                remove_members(conf, group, found, self._timeout_s)
                log.warning("group %s: removed members that an earlier start left: %s", group, ", ".join(found))
        except (KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError) as error:
            log.warning(
                "members that %s may have left in group %s stay until session.timeout.ms: %s", client_id, group, error
            )

    def _described(self, group: str, conf: Mapping[str, Any]) -> Group:
        """Describe a group, and retry while its coordinator is moving or the cluster has never had one."""
        with self._asking(group, conf) as admin:
            return patiently(lambda: admin.describe(group), self._timeout_s, _AGAIN_S)

    @contextmanager
    def _asking(self, group: str, conf: Mapping[str, Any]) -> Iterator[GroupAdmin]:
        """Yield an admin client that callers of the same group share. The last of them closes it."""
        key = (group, conf["bootstrap.servers"], conf.get("sasl.username") or conf.get("sasl.oauthbearer.client.id"))
        with self._lock:
            shared = self._shared.get(key) or _Shared(GroupAdmin(conf, timeout_s=self._timeout_s))
            self._shared[key] = shared
            shared.users += 1
        try:
            yield shared.admin
        finally:
            with self._lock:
                shared.users -= 1
                if not shared.users:
                    del self._shared[key]
                    shared.admin.close()
