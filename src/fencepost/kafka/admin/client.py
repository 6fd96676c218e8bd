"""The requests that Fencepost sends to a Kafka cluster besides producing and consuming. Every call has a time-out.

Finds the id of a client's cluster, because bootstrap servers can name the same cluster in many ways.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from fencepost.kafka.admin.log_offsets import LogOffsets
from fencepost.kafka.admin.topics import TopicAcls, TopicConfigs, Topics
from fencepost.kafka.errors import ASK_S
from fencepost.kafka.group.group_admin import GroupAdmin
from fencepost.kafka.group.transactions import TransactionAdmin
from fencepost.kafka.wire.requests import AdminRequests
from fencepost.record import TopicPartition

_ANSWER_S = 5.0


class Admin:
    """One cluster, as the principal of `conf` (librdkafka's names) may see and change it. Thread-safe.

    Every method, and every method of the parts, raises KafkaUnavailableError if no broker answers within `timeout_s`,
    KafkaAuthorizationError if the principal lacks a permission, and KafkaRequestError for any other refusal. The
    constructor never waits. A caller that needs a single part of it, such as `topics`, takes that part.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float = ASK_S) -> None:
        self._requests = AdminRequests(conf, timeout_s)
        self.offsets = LogOffsets(self._requests)
        self.topics = Topics(self._requests, self.offsets)
        self.configs = TopicConfigs(self._requests)
        self.acls = TopicAcls(self._requests)
        self.groups = GroupAdmin(conf, timeout_s=timeout_s)
        self.transactions = TransactionAdmin(conf, timeout_s=timeout_s)

    def cluster_id(self, timeout_s: float | None = None) -> str:
        client, doing = self._requests.client, "asking for the cluster id"
        return str(self._requests.ask_repeatedly(doing, lambda: client.metadata([]), timeout_s).cluster_id)

    def close(self) -> None:
        """Close the connections. Idempotent; another request connects again."""
        for each in (self._requests.client, self.groups, self.transactions):
            each.close()


def answering_admin(conf: Mapping[str, Any]) -> Admin:
    """Return the requests of a cluster once one of its brokers has answered, which people wait for.

    Raises KafkaUnavailableError after five seconds.
    """
    admin = Admin(conf)
    try:
        admin.cluster_id(_ANSWER_S)
    except BaseException:
        admin.close()
        raise
    return admin


def existing_ends(
    admin: Admin, places: Collection[TopicPartition], *, read_committed: bool
) -> dict[TopicPartition, int]:
    """Return the ends of the logs of those partitions that exist."""
    found = admin.offsets.ends(_existing(admin, places), read_committed=read_committed)
    return {TopicPartition(*place): end for place, end in found.items()}


def existing_starts(admin: Admin, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the starts of the logs of those partitions that exist."""
    found = admin.offsets.starts(_existing(admin, places))
    return {TopicPartition(*place): start for place, start in found.items()}


def _existing(admin: Admin, places: Collection[TopicPartition]) -> list[TopicPartition]:
    topics = admin.topics.get_all({place.topic for place in places})
    return [place for place in places if place.topic in topics and place.partition < topics[place.topic].partitions]


_ASK_S = 15.0


def _ask(conf: Mapping[str, Any]) -> str:
    return Admin(conf, timeout_s=_ASK_S).cluster_id()


class ClusterIds:
    """Caches cluster ids by bootstrap servers. It asks for each until there is an answer. Thread-safe."""

    def __init__(self, ask: Callable[[Mapping[str, Any]], str] = _ask) -> None:
        self._ask = ask
        self._known: dict[str, str] = {}

    def of(self, conf: Mapping[str, Any]) -> str:
        """Return the id of the cluster that a client with `conf` (librdkafka's names) reaches.

        If the id is not cached yet, raises what `Admin.cluster_id` raises.
        """
        known = self._known.get(str(conf["bootstrap.servers"]))
        return self.asked(conf) if known is None else known

    def asked(self, conf: Mapping[str, Any]) -> str:
        """Return the id that the cluster has now: the servers may be another one's by then. Raises as `of` does."""
        found = self._known[str(conf["bootstrap.servers"])] = self._ask(conf)
        return found
