"""MirrorSinkConnector: copies topics to the target, and keeps its positions there in one transaction (KIP-656)."""

from fencepost.api import LOW, at_least, one_of, setting
from fencepost.builtin.mirror.sink.offsets import MirrorOffsets
from fencepost.builtin.mirror.sink.task import MirrorSinkTask
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.hook.mirror import OffsetsInGroup


class MirrorSinkConnector(MirrorSourceConnector):
    """Copies topics of a source cluster to the cluster that the worker's producers write to, and keeps positions there.

    Records, positions and offset syncs are in one transaction of the target. The positions are the offsets of a group
    of the target, `connect-` and the connector's name, which has no members. The leader's plan assigns partitions to
    tasks, and a new plan fences the tasks of the old one.
    """

    task = MirrorSinkTask

    is_transactional: bool = setting(
        "transaction.producer", default=False,
        doc="Whether records and positions must be in one transaction of the target (exactly once); the worker must "
        "then have exactly.once.source.support=enabled. If false, they are so whenever the worker has that setting.",
    )  # fmt: skip
    offset_syncs_location: str = setting(
        "offset-syncs.topic.location", default="target", check=one_of("target", ignore_case=False), importance=LOW,
        doc="The cluster that has the topic of offset syncs: they are in the transactions of the records.",
    )  # fmt: skip
    offset_lag_max: int = setting(
        "offset.lag.max", default=0, check=at_least(0), importance=LOW,
        doc="Ignored: each transaction has a sync of the last record of each partition, so that positions at its end "
        "are translated exactly.",
    )  # fmt: skip
    on_position_loss: str = setting(
        "on.position.loss", default="restore", check=one_of("restore", "fail", ignore_case=False),
        doc="What happens when the target has records of a partition, but its group has lost the mirror's position: "
        "`restore` recovers it from the target's offset syncs or from the source's group; `fail` fails "
        "the task.",
    )  # fmt: skip

    def demands_exactly_once(self) -> str | None:
        return self.key_of("is_transactional") if self.is_transactional else None

    def offsets_in_group(self, name: str) -> OffsetsInGroup | None:
        return self.held(name)

    def held(self, name: str) -> MirrorOffsets:
        """Return how the positions of the connector `name` are kept in its group."""
        return MirrorOffsets(f"connect-{name}", self.selection(), self.key_of("assigned"))
