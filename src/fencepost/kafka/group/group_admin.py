"""Describes the members of consumer groups through kafka-python, because librdkafka may crash the process.

When a connection is lost at the wrong moment, librdkafka uses freed memory and aborts. This affects every request of
its admin client to a group coordinator (its issue 4605). Workers send such requests every second, so a broker restart
would kill all of them. Worst is `list_consumer_group_offsets`, which dereferences a null pointer whenever a broker
answers that it is not, or not yet, the coordinator (its issue 5040). Nothing here may call it.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.setting.table import MECHANISMS
from fencepost.kafka.wire.kafka_python import group_failure, kafka_python_admin


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


_DEAD = "Dead"


def can_ask(conf: Mapping[str, Any]) -> bool:
    """Return whether kafka-python can connect with these settings (librdkafka's names)."""
    if "ssl.keystore.location" in conf:
        return False
    mechanism = conf.get("sasl.mechanism") or conf.get("sasl.mechanisms")
    has_sasl = str(conf.get("security.protocol", "")).upper().startswith("SASL")
    return not has_sasl or str(mechanism).upper() in MECHANISMS


class GroupAdmin:
    """Describes groups. Connects at the first use, and again after each failure. Thread-safe.

    Threads take turns because the client refuses too many requests at once. Waiting threads share the next result.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float) -> None:
        self._guard = ForkGuard()
        self._conf = conf
        self._timeout_s = timeout_s
        self._turn = threading.Lock()
        self._client: Any = None
        self._asked: tuple[str, float] = ("", 0.0)
        self._found: Group | Exception | None = None

    def describe(self, group_id: str) -> Group:
        """Return the members of a group as its coordinator knows them; 1-6 ms.

        Raises KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError.
        """
        self._guard.check("The group admin client")
        came_at = time.monotonic()
        with self._turn:
            if self._asked[0] != group_id or self._asked[1] < came_at:
                self._asked = (group_id, time.monotonic())
                self._found = self._ask(group_id)
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
        from kafka.errors import KafkaError

        self._guard.check("The group admin client")
        with self._turn:
            try:
                groups = {each["group_id"]: each for each in self._connected().list_groups()}
            except BaseException as error:
                self._drop()
                if isinstance(error, KafkaError | OSError):
                    raise group_failure(error, "listing groups", self._conf) from error
                raise
        found = groups.get(group_id)
        if found is None:
            return None
        return ListedGroup(str(found.get("group_type") or "classic").lower(), str(found.get("group_state")))

    def _ask(self, group_id: str) -> Group | Exception:
        from kafka.errors import GroupAuthorizationFailedError, GroupIdNotFoundError, KafkaError

        try:
            client = self._connected()
            return _group(group_id, client._manager.run(_described, client, group_id))
        except GroupIdNotFoundError:
            return Group(group_id, _DEAD, ())
        except (KafkaError, OSError) as error:
            if not isinstance(error, GroupAuthorizationFailedError):
                self._drop()
            return group_failure(error, f"describing group {group_id}", self._conf)
        except BaseException:
            self._asked = ("", 0.0)  # there is no result that others could share
            self._drop()
            raise

    def _connected(self) -> Any:
        """Return the client, creating it if needed, which waits for a broker."""
        if self._client is None:
            self._client = kafka_python_admin(self._conf, self._timeout_s)
        return self._client

    def close(self) -> None:
        """Close the connection; its thread would otherwise log an error when the broker ends later. Idempotent."""
        with self._turn:
            self._drop()

    def _drop(self) -> None:
        """Drop the client: it may have cached an old coordinator or a dead address."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


async def _described(client: Any, group_id: str) -> Mapping[str, Any]:
    """Describe a group. The library's own `describe_groups` reports a group that the broker refused as one without
    members, and keeps asking a broker that is no longer the coordinator."""
    coordinator = await client._find_coordinator_id(group_id)
    answer = await client._manager.send(client._describe_groups_request([group_id]), node_id=coordinator)
    raise_refusal(answer)
    found: Mapping[str, Any] = client._describe_groups_process_response(answer)[group_id]
    return found


def raise_refusal(answer: Any) -> None:
    """Raise the kafka-python error that a DescribeGroups response holds for a group."""
    from kafka.errors import for_code

    for group in answer.groups:
        if group.error_code:
            raise for_code(group.error_code)(f"group {group.group_id}: {getattr(group, 'error_message', None) or ''}")


def _group(group_id: str, described: Mapping[str, Any]) -> Group:
    return Group(group_id, str(described["group_state"] or _DEAD), tuple(_member(m) for m in described["members"]))


def _member(member: Mapping[str, Any]) -> GroupMember:
    """Return a member. Between two assignments it has no partitions."""
    assignment = member["member_assignment"] or {}
    assigned = assignment.get("assigned_partitions", ()) if isinstance(assignment, Mapping) else ()
    return GroupMember(
        member["member_id"],
        member["client_id"],
        member["client_host"],
        frozenset((each["topic"], number) for each in assigned for number in each["partitions"]),
    )
