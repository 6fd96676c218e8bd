"""Describes the members of consumer groups, and removes those whose process is gone, without librdkafka.

When a connection is lost at the wrong moment, librdkafka uses freed memory and aborts. This affects every request of
its admin client to a group coordinator (its issue 4605). Workers send such requests every second, so a broker restart
would kill all of them. Worst is `list_consumer_group_offsets`, which dereferences a null pointer whenever a broker
answers that it is not, or not yet, the coordinator (its issue 5040). Nothing here may call it.

A group would otherwise wait for the session time-out of a static member, for which the client library never sends a
leave request.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError, ensure, retry
from fencepost.kafka.group.group_offsets import GroupInUseError
from fencepost.kafka.group.subscription import CLASSIC, DEAD
from fencepost.kafka.wire.coordinators import GROUP
from fencepost.kafka.wire.requests import RequestClient


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    client_id: str
    host: str
    topic_partitions: frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group. `state` is Kafka's word, such as Stable, Empty, or Dead for a group that does not exist."""

    group_id: str
    state: str
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """An entry of ListGroups. `kind` is classic, consumer (KIP-848), streams (KIP-1071) or share."""

    kind: str
    state: str


class GroupAdmin:
    """Describes groups. Connects at the first use, and again after each failure. Thread-safe.

    Threads take turns, and waiting threads share the next result.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float) -> None:
        self._client = RequestClient(conf, timeout_s=timeout_s)
        self._timeout_s = timeout_s
        self._turn = threading.Lock()
        self._asked: tuple[str, float] = ("", 0.0)
        self._found: Group | Exception | None = None

    def describe(self, group_id: str) -> Group:
        """Return the members of a group as its coordinator knows them; 1-6 ms.

        Asks again while the coordinator is moving or the cluster has never had one, until `timeout_s` is over. Raises
        KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError.
        """
        return retry(lambda: self._next_description(group_id), self._timeout_s)

    def _next_description(self, group_id: str) -> Group:
        came_at = time.monotonic()
        with self._turn:
            if self._asked[0] != group_id or self._asked[1] < came_at:
                asked = (group_id, time.monotonic())
                try:
                    self._found = self._client.run(f"describing group {group_id}", lambda: self._described(group_id))
                except Exception as error:  # each thread that waits for this answer raises it
                    self._found = error
                self._asked = asked  # not after an interruption: others would take an older result
            found = self._found
        if isinstance(found, Group):
            return found
        assert found is not None
        raise found

    def listed(self, group_id: str) -> ListedGroup | None:
        """Return the kind and the state of a group; None if there is no such group that the principal may see.

        `describe` asks about a classic group, and so reports groups of the other kinds as without members. Raises
        what `describe` raises.
        """
        groups = self._client.run("listing groups", lambda: listed_groups(self._client))
        found = next((each for each in groups if each.group_id == group_id), None)
        return None if found is None else ListedGroup(kind_of(found), str(found.group_state))

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close()

    def _described(self, group_id: str) -> Group:
        from fencepost.kafka.kafka_library import DescribeGroupsRequest

        request = DescribeGroupsRequest(groups=[group_id])
        return group_of(self._client.ask(request, self._client.coordinator(GROUP, group_id)))


def listed_groups(client: RequestClient) -> list[Any]:
    """Return all groups that the principal may see, as each present broker lists them."""
    from fencepost.kafka.kafka_library import ListGroupsRequest

    found: list[Any] = []
    for node in client.brokers():
        answer = client.ask(ListGroupsRequest(), node)
        ensure(answer.error_code, "the list of groups")
        found += answer.groups
    return found


def kind_of(listed: Any) -> str:
    """Return the kind of a listed group. Brokers before Kafka 3.8 report none, and have only classic groups."""
    return str(listed.group_type or CLASSIC).lower()


def group_of(answer: Any) -> Group:
    """Return the group that an answer to DescribeGroups describes. Raises AnswerError if the broker refused.

    A coordinator that has no such group answers with an empty one, or from version 6 on with GROUP_ID_NOT_FOUND.
    """
    (group,) = answer.groups
    if group.error_code == KafkaError.GROUP_ID_NOT_FOUND:
        return Group(group.group_id, DEAD, ())
    ensure(group.error_code, f"group {group.group_id}", getattr(group, "error_message", None))
    return Group(group.group_id, str(group.group_state or DEAD), tuple(_member(each) for each in group.members))


def _member(member: Any) -> GroupMember:
    return GroupMember(
        member.member_id, member.client_id, member.client_host, frozenset(_assigned(member.member_assignment))
    )


def _assigned(assignment: bytes) -> Iterator[tuple[str, int]]:
    """Yield the partitions of a member. Between two assignments, and in groups that are not of consumers, none."""
    from fencepost.kafka.kafka_library import ConsumerProtocolAssignment

    if not assignment:
        return
    try:
        topics = ConsumerProtocolAssignment.decode(assignment).assigned_partitions
    except Exception:  # another protocol's, such as Kafka Connect's
        return
    for each in topics:
        yield from ((each.topic, number) for number in each.partitions)


log = logging.getLogger(__name__)

_MANY = 3  # the version of LeaveGroup that removes several members, and static ones
_HEARTBEAT_MS = 3_000  # Kafka's default
_JOINS_S, _LOOK_S = 1.0, 0.25
_NON_EMPTY = 68  # NON_EMPTY_GROUP, Kafka's error for a group that has members
_GONE = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID)


def remove_static_member(
    conf: Mapping[str, Any], group_id: str, instance_id: str, timeout_s: float, *, member_id: str | None = None
) -> None:
    """Make the coordinator reassign the member's partitions at once, instead of after its session time-out.

    With `member_id`, only that membership is removed; a later one under the same `instance_id` stays. Returns normally
    if the member is already gone. Raises KafkaUnavailableError if the removal failed for any reason.
    """
    try:
        _remove(conf, group_id, [(member_id or "", instance_id)], timeout_s)
    except (KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError) as error:
        raise KafkaUnavailableError(f"member {instance_id} could not leave group {group_id}: {error}") from error


def remove_members(conf: Mapping[str, Any], group: str, members: Sequence[str], timeout_s: float) -> None:
    """Remove members from a group by their ids. Ids that are no longer members are ignored.

    Raises KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError.
    """
    _remove(conf, group, [(each, None) for each in members], timeout_s)


def _remove(conf: Mapping[str, Any], group: str, members: Sequence[tuple[str, str | None]], timeout_s: float) -> None:
    from fencepost.kafka.kafka_library import LeaveGroupRequest as Request

    leaving = [Request.MemberIdentity(member_id=id_, group_instance_id=instance_id) for id_, instance_id in members]
    request = Request(group_id=group, members=leaving)
    with closing(RequestClient(conf, timeout_s=timeout_s)) as client:

        def ask() -> None:
            answer = client.ask(request, client.coordinator(GROUP, group), oldest=_MANY)
            ensure(answer.error_code, f"group {group}")
            for each in answer.members:
                if each.error_code not in _GONE:
                    ensure(each.error_code, f"member {each.member_id or each.group_instance_id}")

        if leaving:
            client.run(f"removing members of group {group}", ask)


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
        try:
            with self._asking(group, conf) as admin:
                members = admin.describe(group).members
            found = [member.member_id for member in members if member.client_id == client_id]
            if found and is_due():
                remove_members(conf, group, found, self._timeout_s)
                log.warning("group %s: removed members that an earlier start left: %s", group, ", ".join(found))
        except (KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError) as error:
            log.warning(
                "%s: members of an earlier start may stay in group %s for session.timeout.ms: they could not be "
                "removed: %s",
                client_id,
                group,
                error,
            )

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


def take_out_dead_members(conf: Mapping[str, Any], is_ours: Callable[[str], bool], timeout_s: float) -> None:
    """Remove all members of the group of `conf` if `is_ours` is true of each one's client id.

    No request reports whether a member is alive. A live member that is removed learns of it with its next heartbeat and
    joins again, so the group is watched for a while.

    Returns at once if there are no members, or others too. Raises GroupInUseError if a member joins again within two
    heartbeats, and so is alive. If Kafka refuses or does not answer, the members stay, and that is logged.
    """
    group = str(conf["group.id"])
    try:
        with closing(GroupAdmin(conf, timeout_s=timeout_s)) as admin:
            members = admin.describe(group).members
            if not members or not all(is_ours(each.client_id) for each in members):
                return
            remove_members(conf, group, [each.member_id for each in members], timeout_s)
            names = ", ".join(sorted({each.client_id for each in members}))
            log.warning("group %s: removed members %s; a live one would join again", group, names)
            until_s = time.monotonic() + 2 * int(conf.get("heartbeat.interval.ms", _HEARTBEAT_MS)) / 1000 + _JOINS_S
            while time.monotonic() < until_s:
                time.sleep(_LOOK_S)
                if back := admin.describe(group).members:
                    lives = f"{back[0].client_id} at {back[0].host}"
                    raise GroupInUseError(f"group {group} has a live member: {lives}", _NON_EMPTY)
    except GroupInUseError:
        raise
    except (KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError) as error:
        log.warning("members of ended tasks may stay in group %s until session.timeout.ms: %s", group, error)
