"""Who is in a consumer group, asked through kafka-python: the main client may end the process over it.

When a connection is lost at the wrong moment, librdkafka uses memory that it has freed, and aborts. That goes for
whatever its admin client asks of a group's coordinator (its issue 4605), and workers ask every second: a broker that is
restarted would take all of them with it. Worst is `list_consumer_group_offsets`, which reads through a null pointer
whenever the coordinator answers that it is not, or not yet, one (its issue 5040). Nothing here may call that.
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
    """A consumer group; `state` in Kafka's words, e.g. Stable, Empty, or Dead for one that does not exist."""

    group_id: str
    state: str
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """What a list of groups says of one, of whatever kind: classic, consumer (KIP-848), streams (KIP-1071), share."""

    kind: str
    state: str


_DEAD = "Dead"


def can_ask(conf: Mapping[str, Any]) -> bool:
    """Say whether kafka-python can connect as these settings (librdkafka's names) ask for."""
    if "ssl.keystore.location" in conf:
        return False
    mechanism = conf.get("sasl.mechanism") or conf.get("sasl.mechanisms")
    has_sasl = str(conf.get("security.protocol", "")).upper().startswith("SASL")
    return not has_sasl or str(mechanism).upper() in MECHANISMS


class GroupAdmin:
    """Describes groups. Connects at the first use, and anew after each failure. Thread-safe.

    Threads take turns, for the client refuses what is too much at once; those that wait share what the next one finds.
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
        """Return the kind of a group, and how it is; None: there is none that the principal may see.

        Who only describes a group as a classic one takes members of the other kinds for none at all. Raises what
        `describe` does.
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
            self._asked = ("", 0.0)  # nothing was found that others could share
            self._drop()
            raise

    def _connected(self) -> Any:
        """Making a client waits for a broker."""
        if self._client is None:
            self._client = kafka_python_admin(self._conf, self._timeout_s)
        return self._client

    def close(self) -> None:
        """Let go of the connection, whose thread would complain of a broker that ends after us. Idempotent."""
        with self._turn:
            self._drop()

    def _drop(self) -> None:
        """Let go of the client: it may know an old coordinator, or an address where nobody is."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


async def _described(client: Any, group_id: str) -> Mapping[str, Any]:
    """Describe a group. The library's own `describe_groups` gives a group that the broker refused as one without
    members, and goes on asking a broker that is no longer its coordinator."""
    coordinator = await client._find_coordinator_id(group_id)
    answer = await client._manager.send(client._describe_groups_request([group_id]), node_id=coordinator)
    raise_refusal(answer)
    found: Mapping[str, Any] = client._describe_groups_process_response(answer)[group_id]
    return found


def raise_refusal(answer: Any) -> None:
    """Raise the error of kafka-python's that an answer to DescribeGroups gives for a group."""
    from kafka.errors import for_code

    for group in answer.groups:
        if group.error_code:
            raise for_code(group.error_code)(f"group {group.group_id}: {getattr(group, 'error_message', None) or ''}")


def _group(group_id: str, described: Mapping[str, Any]) -> Group:
    return Group(group_id, str(described["group_state"] or _DEAD), tuple(_member(m) for m in described["members"]))


def _member(member: Mapping[str, Any]) -> GroupMember:
    """Return a member; one that is between two assignments has no partitions."""
    assignment = member["member_assignment"] or {}
    assigned = assignment.get("assigned_partitions", ()) if isinstance(assignment, Mapping) else ()
    return GroupMember(
        member["member_id"],
        member["client_id"],
        member["client_host"],
        frozenset((each["topic"], number) for each in assigned for number in each["partitions"]),
    )
