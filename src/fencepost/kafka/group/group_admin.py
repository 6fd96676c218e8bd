"""Describes the members of consumer groups, without librdkafka, which may crash the process.

When a connection is lost at the wrong moment, librdkafka uses freed memory and aborts. This affects every request of
its admin client to a group coordinator (its issue 4605). Workers send such requests every second, so a broker restart
would kill all of them. Worst is `list_consumer_group_offsets`, which dereferences a null pointer whenever a broker
answers that it is not, or not yet, the coordinator (its issue 5040). Nothing here may call it.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.group.subscription import CLASSIC, DEAD
from fencepost.kafka.retrying import retry
from fencepost.kafka.wire.coordinators import GROUP
from fencepost.kafka.wire.errors import ensure
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
