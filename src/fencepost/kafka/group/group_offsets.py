"""Reads and changes committed offsets of consumer groups, without librdkafka.

librdkafka may crash the process: it dereferences a null pointer while a coordinator is starting (see `group_admin`).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError
from fencepost.kafka.group.committed_offsets import read_offsets
from fencepost.kafka.retrying import ASK_S
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.wire.coordinators import GROUP
from fencepost.kafka.wire.errors import ensure
from fencepost.kafka.wire.requests import RequestClient, by_topic
from fencepost.record import TopicPartition

_IN_USE = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.GROUP_SUBSCRIBED_TO_TOPIC)
_BY_NAME = 9  # of OffsetCommit: newer versions name topics by their ids


class GroupInUseError(KafkaRequestError):
    """The group has members: its offsets are theirs to commit."""


class GroupOffsets:
    """The offsets of one group. Connects for each call."""

    def __init__(self, conf: Mapping[str, Any], group_id: str, *, timeout_s: float = ASK_S) -> None:
        self._conf = conf
        self._group = group_id
        self._timeout_s = timeout_s

    def read(self) -> dict[TopicPartition, int]:
        """Return the committed offset of each partition, which is that of the next record.

        Like all methods here, it raises KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError.
        """
        return {TopicPartition(o.topic, o.partition): o.offset for o in self.read_with_metadata()}

    def read_with_metadata(self) -> list[GroupOffset]:
        """Return the committed offsets, with their metadata without the zero byte that librdkafka appends to it."""
        doing = f"reading the offsets of group {self._group}"
        with closing(RequestClient(self._conf, timeout_s=self._timeout_s)) as client:
            found, denied = client.run(doing, lambda: read_offsets(client, [self._group], is_stable=False))
        for why in denied.values():
            raise KafkaAuthorizationError(f"Not authorized while {doing}: {why}")
        committed = found.get(self._group, {})
        return [each.to_group(place) for place, each in committed.items() if each is not None]

    def alter(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set offsets. Raises GroupInUseError if the group has members."""
        self.commit([GroupOffset(*place, offset) for place, offset in offsets.items()])

    def commit(self, offsets: Sequence[GroupOffset]) -> None:
        """Set offsets and their metadata. Raises GroupInUseError if the group has members."""
        from fencepost.kafka.kafka_library import OffsetCommitRequest as Request

        of_topic = Request.OffsetCommitRequestTopic
        topics = [
            of_topic(
                name=topic,
                partitions=[
                    of_topic.OffsetCommitRequestPartition(
                        partition_index=each.partition,
                        committed_offset=each.offset,
                        committed_leader_epoch=each.leader_epoch,
                        committed_metadata=each.metadata,
                    )
                    for each in of_one
                ],
            )
            for topic, of_one in groupby(sorted(offsets), key=lambda each: each.topic)
        ]
        if topics:
            request = Request(
                group_id=self._group,
                generation_id_or_member_epoch=-1,
                member_id="",
                group_instance_id=None,
                retention_time_ms=-1,
                topics=topics,
            )
            self._change("altering", request, newest=_BY_NAME)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Delete the offsets of partitions, if they have any. Raises GroupInUseError if the group has members."""
        from fencepost.kafka.kafka_library import OffsetDeleteRequest as Request

        of_topic = Request.OffsetDeleteRequestTopic
        topics = [
            of_topic(
                name=topic,
                partitions=[of_topic.OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
            )
            for topic, numbers in by_topic(partitions)
        ]
        if topics:
            self._change("deleting", Request(group_id=self._group, topics=topics))

    def delete(self) -> None:
        """Delete the group with all of its offsets. Does nothing if the group does not exist."""
        from fencepost.kafka.kafka_library import DeleteGroupsRequest

        self._change("deleting", DeleteGroupsRequest(groups_names=[self._group]))

    def _change(self, what: str, request: Any, *, newest: int | None = None) -> None:
        doing = f"{what} the offsets of group {self._group}"
        with closing(RequestClient(self._conf, timeout_s=self._timeout_s)) as client:
            try:
                client.run(doing, lambda: self._sent(client, request, newest))
            except KafkaRequestError as error:
                if error.code in _IN_USE:
                    raise GroupInUseError(f"Group {self._group} has members", error.code) from error
                if error.code != KafkaError.GROUP_ID_NOT_FOUND:
                    raise

    def _sent(self, client: RequestClient, request: Any, newest: int | None) -> None:
        answer = client.ask(request, client.coordinator(GROUP, self._group), newest=newest)
        ensure(getattr(answer, "error_code", None) or 0, f"group {self._group}")
        for group in getattr(answer, "results", ()):
            ensure(group.error_code, f"group {self._group}")
        for topic in getattr(answer, "topics", ()):
            for each in topic.partitions:
                ensure(each.error_code, f"{topic.name}-{each.partition_index}")
