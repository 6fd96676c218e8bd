"""The transaction protocol of one producer: two protocol versions with the same order of steps.

With version 2 (KIP-890) the first batch of a partition adds it to the transaction, and every end gives the producer a
new epoch. With version 1, requests add partitions and groups. In both, when a leader sees a partition of a transaction
for the first time, it asks the coordinator; a broker with two such questions for one producer fails the older. So only
one is asked at a time: there is one connection to each broker, and a broker handles the requests of a connection one
after another.
"""

from collections.abc import Sequence
from typing import Any

from fencepost.kafka.produce import requests
from fencepost.kafka.produce.batch_sending import BatchSending
from fencepost.kafka.produce.coordinator import OpenTransaction, TransactionCoordinator, until_known
from fencepost.kafka.setting.batch_settings import BatchSettings
from fencepost.kafka.value.group_metadata import Committer
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.wire.cluster import Cluster
from fencepost.kafka.wire.coordinators import GROUP
from fencepost.kafka.wire.errors import MOVED, AnswerError, ensure
from fencepost.kafka.wire.patience import ask_node
from fencepost.record import TopicPartition


class Protocol:
    """One incarnation of one transactional id. For one thread at a time.

    Every method, and every method of `batches`, raises AnswerError, LostError or UnsupportedError. An AnswerError means
    that the request was not carried out. Any error ends the incarnation, except those that `retry_on` retries.
    """

    def __init__(self, cluster: Cluster, settings: BatchSettings) -> None:
        """Create the protocol without sending anything."""
        self.cluster = cluster
        self.coordinator = TransactionCoordinator(cluster, settings)
        self.transaction = OpenTransaction()
        self.batches = BatchSending(cluster, self.coordinator, self.transaction)
        self._groups: dict[str, int] = {}
        self._offsets_answer: Any = None  # the answer to the offsets that were sent ahead

    def join(self, places: Sequence[TopicPartition], deadline_s: float) -> None:
        """Add partitions to the transaction, before anything is sent to them. Version 2 does not need this."""
        new = [place for place in places if place not in self.transaction.joined]
        if self.coordinator.version > 1 or not new:
            return
        self.batches.await_first(deadline_s)
        self.coordinator.add_partitions(new, deadline_s)
        self.transaction.is_begun = True
        self.transaction.joined.update(new)

    def begin_offsets(
        self, offsets: Sequence[GroupOffset], member: Committer, places: Sequence[TopicPartition], deadline_s: float
    ) -> None:
        """Send the request of `offsets` before the records of these partitions, if that delays neither.

        This takes version 2 and a known group coordinator, so that no other broker must be asked. That broker must
        also lead all the partitions: if two brokers asked the transaction coordinator at once, one would have to retry.
        """
        self.batches.await_first(deadline_s)
        node = self._groups.get(member.group_id, -1)
        if self.coordinator.version == 1 or node < 0 or not self._leads(node, places, deadline_s):
            return
        self.transaction.is_begun = True
        request = requests.group_offsets(self.coordinator.producer, member, offsets)
        connection = self.cluster.connection(node, deadline_s)
        version = connection.version(request, *self.coordinator.versions.offsets)
        connection.send(request, version, self._keep_offsets_answer, deadline_s)

    def _leads(self, node: int, places: Sequence[TopicPartition], deadline_s: float) -> bool:
        try:
            return all(self.batches.leader(place, deadline_s) == node for place in places)
        except AnswerError:  # the call that sends to them handles it
            return False

    def _keep_offsets_answer(self, answer: Any) -> None:
        self._offsets_answer = answer

    def offsets(self, offsets: Sequence[GroupOffset], member: Committer, deadline_s: float) -> None:
        """Add offsets of a group to the transaction, or check the answer for those that were sent ahead.

        No request may be in flight.
        """
        if self.coordinator.version == 1:
            self.coordinator.add_group(member.group_id, deadline_s)
        self.transaction.is_begun = True
        until_known(lambda: self._commit_offsets(offsets, member, deadline_s), deadline_s)

    def _commit_offsets(self, offsets: Sequence[GroupOffset], member: Committer, deadline_s: float) -> None:
        group = member.group_id
        if group not in self._groups:
            self._groups[group] = self.cluster.coordinators.find(GROUP, group, deadline_s)
        answer, self._offsets_answer = self._offsets_answer, None
        if answer is None:
            request = requests.group_offsets(self.coordinator.producer, member, offsets)
            answer = ask_node(self.cluster, self._groups[group], request, self.coordinator.versions.offsets, deadline_s)
        for name, each in ((topic.name, each) for topic in answer.topics for each in topic.partitions):
            if each.error_code in MOVED:
                del self._groups[group]
            ensure(each.error_code, f"offsets of group {group} for {name}-{each.partition_index}")

    def end(self, *, is_commit: bool, deadline_s: float) -> None:
        """End the transaction. No request may be in flight. If nothing was begun, nothing is sent.

        If a commit raises LostError or any AnswerError, its outcome is unknown (E6).
        """
        if self.transaction.is_begun:
            self.coordinator.end(is_commit=is_commit, deadline_s=deadline_s)
        self.transaction.clear()
        self._offsets_answer = None
