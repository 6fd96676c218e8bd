"""Who commits offsets of a group in transactions: what brokers know of that, for any program's producers (KIP-447).

The map from an input partition to its producer is read from the log that a group's offsets are in: each batch there
names the producer that wrote it. Nothing else tells which open transaction has offsets of which partition.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.record import TopicPartition


@dataclass(frozen=True, slots=True)
class Contributor:
    """A producer that has offsets of a group in transactions: an open one, or its last.

    Attributes:
        producer_id: and `producer_epoch`: as its batches have them.
        offsets: what it has put last for each partition, in the transaction that is open where `is_pending`.
        transactional_id: what it writes under; None: no coordinator knows the producer any more, or the principal may
            not Describe its transactional id.
        is_pending: its transaction is open, and `offsets` are in it.
        timeout_ms: after which the coordinator aborts its transaction by itself; None: not known.
        is_ours: a stream task's, which commits with its member's generation (its notes say so).
    """

    producer_id: int
    producer_epoch: int
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    transactional_id: str | None = None
    is_pending: bool = False
    timeout_ms: int | None = None
    is_ours: bool = False

    @property
    def holds_a_partition(self) -> bool:
        """Say whether it is a producer for one partition, by the name of its id: `<prefix>-<partition>`.

        Whoever writes under such an id is fenced by whoever takes it next, and by nobody else: it may commit for its
        group as no member, which the group's coordinator lets pass.
        """
        raise NotImplementedError


class Contributors:
    """Asks one cluster, as the principal of `conf` (librdkafka's names). Connects at the first question; one thread.

    It takes Read on the topic `__consumer_offsets`, and Describe on transactional ids. Every method raises
    KafkaUnavailableError, KafkaAuthorizationError (which names the right) or KafkaRequestError.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float = 30.0) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the connections. Idempotent; another question connects anew."""

    def pending(self, group: str, places: Collection[TopicPartition] | None = None) -> list[Contributor]:
        """Return whose open transactions have offsets of the group, of these partitions (None: any) and now.

        A transaction that is being ended counts until its marker is in the group's log. `offsets` are those of
        `places` alone. Two requests where no transaction is open.
        """
        raise NotImplementedError

    def last(self, group: str, places: Collection[TopicPartition] | None = None) -> dict[TopicPartition, Contributor]:
        """Return who last put offsets of each partition (None: of any) into a transaction, however that ended.

        Partitions of which the log knows no producer are left out; offsets that were set by hand hide nobody. Reads
        the log of the group's offsets from its beginning, which other groups share.
        """
        raise NotImplementedError
