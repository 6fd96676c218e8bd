"""Taking members out of their group whose process is gone: else the group waits for them until their session is over.

Of static members the client library never takes leave, whatever happens to them.
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
    """Make the coordinator give away at once what the member has, instead of after its session time-out.

    `member_id` names one membership: whoever has joined under `instance_id` since then stays. Returns also where the
    member is no more. Raises KafkaUnavailableError where its leave did not come about, for whatever reason.
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
    except (KafkaError, OSError) as error:  # an OSError: there is no token, for one
        raise KafkaUnavailableError(f"{failed}: {error}") from error
    for answer in answers.values():
        if answer not in (NoError, UnknownMemberIdError, FencedInstanceIdError):
            raise KafkaUnavailableError(f"{failed}: {answer.__name__}")


def remove_members(conf: Mapping[str, Any], group: str, members: Sequence[str], timeout_s: float) -> None:
    """Take members out of a group by their ids; who is none any more is left alone.

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
    """Takes members that go by a client id out of their group, whoever they are. Any thread; waits for the broker.

    Those who ask about one group at once share a connection and what they find: a thousand tasks may start together.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._shared: dict[tuple[object, ...], _Shared] = {}

    def remove(self, conf: Mapping[str, Any], is_due: Callable[[], bool]) -> None:
        """Remove the members of the group of `conf` that have its client id, if it `is_due` once they are known.

        What is removed is refused all it commits from then on. Members of a group by the newer protocol (KIP-848) are
        not found. Where Kafka refuses, or does not answer, they stay until their session is over, which is logged.
        """
        group, client_id = str(conf["group.id"]), conf["client.id"]
        if not can_ask(conf):
            return
        try:
            found = [m.member_id for m in self._described(group, conf).members if m.client_id == client_id]
            if found and is_due():
                remove_members(conf, group, found, self._timeout_s)
                log.warning("group %s: removed %s, which an earlier start has left there", group, ", ".join(found))
        except (KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError) as error:
            log.warning(
                "what %s may have left in group %s stays there until session.timeout.ms: %s", client_id, group, error
            )

    def _described(self, group: str, conf: Mapping[str, Any]) -> Group:
        """Ask again while the group's coordinator is just moving, or the cluster has never had one."""
        with self._asking(group, conf) as admin:
            return patiently(lambda: admin.describe(group), self._timeout_s, _AGAIN_S)

    @contextmanager
    def _asking(self, group: str, conf: Mapping[str, Any]) -> Iterator[GroupAdmin]:
        """Lend what describes a group, which lives for as long as somebody has it."""
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
