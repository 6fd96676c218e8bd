"""Reads and changes committed offsets of consumer groups through kafka-python.

librdkafka may crash the process: it dereferences a null pointer while a coordinator is starting (see `group_admin`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from fencepost.kafka.errors import KafkaRequestError
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.wire.kafka_python import group_failure, kafka_python_admin
from fencepost.record import TopicPartition

T = TypeVar("T")


class GroupInUseError(KafkaRequestError):
    """The group has members: its offsets are theirs to commit."""


class GroupOffsets:
    """The offsets of one group. Connects for each call."""

    def __init__(self, conf: Mapping[str, Any], group_id: str, *, timeout_s: float = 30.0) -> None:
        self._guard = ForkGuard()
        self._conf = conf
        self._group = group_id
        self._timeout_s = timeout_s

    def read(self) -> dict[TopicPartition, int]:
        """Return the committed offset of each partition, which is that of the next record.

        Like all methods here, it raises KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError.
        """
        return {TopicPartition(o.topic, o.partition): o.offset for o in self.read_with_notes()}

    def read_with_notes(self) -> list[GroupOffset]:
        """Return the committed offsets with their metadata, without the zero byte that librdkafka appends to it."""
        found = self._run("reading", lambda client: client.list_group_offsets({self._group: None}))
        offsets = found.get(self._group, {})
        kept = {p: o for p, o in offsets.items() if o.offset >= 0}
        return [GroupOffset(p.topic, p.partition, o.offset, (o.metadata or "").rstrip("\0")) for p, o in kept.items()]

    def alter(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set offsets. Raises GroupInUseError if the group has members."""
        self.commit([GroupOffset(*place, offset) for place, offset in offsets.items()])

    def commit(self, offsets: Sequence[GroupOffset]) -> None:
        """Set offsets and their metadata. Raises GroupInUseError if the group has members."""
        from kafka import TopicPartition as ClientPartition
        from kafka.structs import OffsetAndMetadata

        if offsets:
            asked = {ClientPartition(o.topic, o.partition): OffsetAndMetadata(o.offset, o.note, -1) for o in offsets}
            self._check(self._run("altering", lambda client: client.alter_group_offsets(self._group, asked)).values())

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Delete the offsets of partitions, if they have any. Raises GroupInUseError if the group has members."""
        from kafka import TopicPartition as ClientPartition

        asked = [ClientPartition(*place) for place in partitions]
        if asked:
            self._check(self._run("deleting", lambda client: client.delete_group_offsets(self._group, asked)).values())

    def delete(self) -> None:
        """Delete the group with all of its offsets. Does nothing if the group does not exist."""
        answered = self._run("deleting", lambda client: client.delete_groups([self._group]))
        self._check(answered.values())

    def _check(self, answers: Iterable[Any]) -> None:
        """Raise the error in an answer, which the library gives as a class or as the name of a class."""
        from kafka import errors

        for answer in answers:
            kind = getattr(errors, answer, errors.UnknownError) if isinstance(answer, str) else answer
            if answer != "OK" and kind not in (errors.NoError, errors.GroupIdNotFoundError):
                self._raise(kind(answer), "changing")

    def _run(self, what: str, call: Callable[[Any], T]) -> T:
        from kafka.errors import GroupIdNotFoundError, KafkaError

        self._guard.check("The client for a group's offsets")
        try:
            client = kafka_python_admin(self._conf, self._timeout_s)
            try:
                return call(client)
            finally:
                client.close()
        except GroupIdNotFoundError:
            return {}  # type: ignore[return-value]
        except (KafkaError, OSError) as error:
            self._raise(error, what)

    def _raise(self, error: Exception, what: str) -> NoReturn:
        from kafka import errors

        if isinstance(
            error, errors.UnknownMemberIdError | errors.NonEmptyGroupError | errors.GroupSubscribedToTopicError
        ):
            raise GroupInUseError(f"Group {self._group} has members", error.errno) from error
        raise group_failure(error, f"{what} the offsets of group {self._group}", self._conf) from error
