"""Consume, transform and produce exactly once in a program of your own (KIP-447)."""

from collections.abc import Collection, Mapping
from typing import Any, Self

from fencepost.kafka.group.contributors import Contributors
from fencepost.kafka.setting.client_settings import admin_conf, transactional_conf
from fencepost.kafka.value.position import GroupOffset, MemberGeneration, committer_of
from fencepost.record import TopicPartition
from fencepost.transaction.input_fence import Signature
from fencepost.transaction.stable_positions import StablePositions
from fencepost.transaction.writer import TransactionalWriter


class GroupTransactions:
    """The transactions of one member of a consumer group: its output and the offsets of its input, together.

    One producer serves all partitions of the member. The order of a program:

    1. `open` takes the transactional id, and ends what its last holder left open.
    2. When partitions are assigned, `positions` fences producers that have a transaction open over them, and returns
       where to start (E20).
    3. `send`, then `commit` with the offsets after the records that were read (E19). Before partitions are revoked,
       commit or `abort`.

    After any error but FencedError, call `open` again and seek to `positions`: what is not committed is read again.
    FencedError means that another program holds the id, or that the member is no longer in its group: rejoin, or end.
    For one thread. A context manager: it closes at the end.
    """

    def __init__(self, properties: Mapping[str, object], group: str, transactional_id: str) -> None:
        """Connects at `open`.

        Args:
            properties: A producer's settings, with Kafka's names: `bootstrap.servers`, security, `compression.type`.
            group: The consumer group's id.
            transactional_id: An id of its own for each member that runs at the same time.

        Raises SettingsError.
        """
        self._conf = transactional_conf(properties, transactional_id).conf
        self._reader_conf = {**admin_conf(properties).conf, "group.id": group}
        self._id = transactional_id
        self._signature = Signature(Contributors(self._conf))
        self._writer: TransactionalWriter | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Take the transactional id, with a new producer. Raises WriterOpenError, WriterFencedError."""
        self.close()
        writer = self._writer = TransactionalWriter(self._conf, self._id)
        writer.open()

    def positions(self, places: Collection[TopicPartition], group_metadata: bytes) -> dict[TopicPartition, int]:
        """Return the group's committed offsets, once no other producer can change them.

        Partitions without one are left out; `auto.offset.reset` is the caller's. `group_metadata` is what the
        consumer's `consumer_group_metadata()` returns for this assignment. Raises StaleMemberError, ReadTimeoutError,
        and what `open` raises.
        """
        self._opened()  # what a struck producer left open is ended, not waited for
        committer = committer_of(group_metadata)
        member = MemberGeneration(committer.generation, committer.member_id)
        found = StablePositions(self._reader_conf, self._conf, [self._id]).read(places, member)
        return {place: at.offset for place, at in found.items()}

    def send(self, topic: str, value: bytes | None, **fields: Any) -> None:
        """Write a record, in a new transaction if none is open. `fields`: key, partition, timestamp (ms), headers.

        Raises ProduceError, and what `open` raises.
        """
        self._opened().send(topic, value, **fields)

    def commit(self, offsets: Mapping[TopicPartition, int], group_metadata: bytes) -> None:
        """Commit what was sent, and that the records below `offsets` are processed.

        `group_metadata` must be that of the assignment in which the records were read, so that a member of an older
        generation is refused.

        Raises:
            CommitUnknownError: it may be committed; `open` and `positions` show.
            ProduceError, WriterFencedError, StaleMemberError, and any other: certainly not committed.
        """
        writer = self._opened()
        group_offsets = [GroupOffset(*place, offset) for place, offset in offsets.items()]
        # Signed, they are a member's, whom the coordinator refuses when it is stale. Without a signature, an id that
        # ends in a number may be that of a partition's only producer, which nothing but its successor stops.
        writer.commit(group_offsets=self._signature.sign(writer, group_offsets), group_metadata=group_metadata)

    def abort(self) -> None:
        """Abort the open transaction, if there is one: seek back to what was committed."""
        if self._writer is not None:
            self._writer.abort()

    def close(self) -> None:
        """Drop the producer. An open transaction is aborted by the next holder of its id. Idempotent."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _opened(self) -> TransactionalWriter:
        if self._writer is None:
            raise RuntimeError("call open() first")
        if self._writer.is_struck:  # E5: only now, as an end of the last transaction has succeeded for the program
            self.open()
        return self._writer
